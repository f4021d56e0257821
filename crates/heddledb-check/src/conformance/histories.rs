//! Long random histories, judged by both checkers.
use super::Test;
use heddledb::Protocol;
pub(super) fn tests<P: Protocol>() -> Vec<Test<P>> {
    vec![]
}
