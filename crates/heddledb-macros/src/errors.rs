//! What is wrong with an input.

use quote::ToTokens;
use syn::{Error, Result};

/// Collects errors, so that one compilation reports all of them.
#[derive(Default)]
pub struct Errors(Option<Error>);

impl Errors {
    pub fn push(&mut self, error: Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            none => *none = Some(error),
        }
    }

    pub fn at(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.push(Error::new_spanned(tokens, message));
    }

    pub fn finish<T>(self, value: T) -> Result<T> {
        self.0.map_or(Ok(value), Err)
    }
}
