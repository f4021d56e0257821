//! What regions know of the call that they are in: its procedure, and where its body is.

use super::policy::Place;
use super::{Htm, Local};
use crate::protocol::Pieces;

impl Pieces for Htm {
    const PIECES: bool = true;

    fn procedure(local: &mut Local, number: Option<u16>) {
        local.place = Place { procedure: number, ..Place::default() };
    }

    fn joined(local: &mut Local) {
        local.place.joined = true;
    }

    fn is_too_much(local: &Local) -> bool {
        local.policy.is_too_much()
    }

    #[inline(always)]
    fn site(local: &mut Local, site: u16) {
        local.place.site = site;
    }
}
