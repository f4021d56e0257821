//! Sets of column groups, gone through.

use crate::table::GroupSet;

/// Iterates over the numbers in a set of column groups, ascending.
#[derive(Clone, Copy)]
pub struct Groups(pub GroupSet);

impl Iterator for Groups {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        (self.0 != 0).then(|| {
            let group = self.0.trailing_zeros() as usize;
            self.0 &= self.0 - 1;
            group
        })
    }
}
