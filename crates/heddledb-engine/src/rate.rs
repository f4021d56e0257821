//! How often something goes wrong, of late.

/// What [`Rate`] counts in, and how many of the last ones it is about.
pub(crate) const ALWAYS: u32 = 1 << 10;
pub(crate) const LAST: u32 = 8;

/// How often something goes wrong, in parts of [`ALWAYS`]; the last ones count most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rate(pub u32);

impl Rate {
    #[inline]
    pub fn note(&mut self, went_wrong: bool) {
        self.0 -= self.0 / LAST;
        if went_wrong {
            self.0 += ALWAYS / LAST;
        }
    }
}
