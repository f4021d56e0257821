//! Derive macros of HeddleDB.

use proc_macro::TokenStream;

/// Derives `heddledb::Table` for a row type.
#[proc_macro_derive(Table, attributes(table, key, group))]
pub fn derive_table(_input: TokenStream) -> TokenStream {
    TokenStream::new()
}
