//! Entries of secondary indexes: what stands in one, and which one of a row is in the way.

use crate::error::{Misuse, Result};
use crate::table::{Index, IndexVisitor, KeyWords, Table, encode_key};
use crate::words::{WordsCopy, WordsMut};

/// Says which entry of a row is there already: the one after so many.
pub(super) struct DuplicateEntry<'a, T> {
    pub row: &'a T,
    pub left: u8,
    pub misuse: Option<Misuse>,
}

impl<T: Table> IndexVisitor<T> for DuplicateEntry<'_, T> {
    fn visit<I: Index<Table = T>>(&mut self) -> Result<()> {
        if self.left == 0 && self.misuse.is_none() {
            let (index, table) = (I::LAYOUT.name, T::LAYOUT.name);
            let entry = format!("{:?}", I::entry(self.row));
            self.misuse = Some(Misuse::DuplicateEntry { index, table, entry });
        }
        self.left = self.left.saturating_sub(1);
        Ok(())
    }
}

/// Stores a primary key as an index entry's row.
pub(super) fn fill_primary_key<T: Table>(row: &T) -> impl FnOnce(&mut WordsCopy<'_>) {
    let key: T::Words = encode_key(&row.key());
    move |words| key.words().iter().enumerate().for_each(|(index, word)| words.set_word(index, *word))
}
