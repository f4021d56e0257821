//! What stands in the brackets: `#[procedure(announce = transfer_accesses, version = 1)]`.

use syn::parse::{Parse, ParseStream};
use syn::{Error, Ident, LitInt, Path, Result, Token};

/// The attribute's arguments.
#[derive(Default)]
pub struct Arguments {
    /// The function that tells what a call will access.
    pub announce: Option<Path>,
    /// The version under which calls may be logged as such.
    pub version: Option<LitInt>,
}

const MESSAGE: &str = "`#[procedure]` takes `announce = ..`, the function that tells what a call will access, and `version = 1`, with which a log \
                       may say that it was called instead of what it wrote; everything else is read from the body";

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let refuse = |error: Error| Error::new(error.span(), MESSAGE);
        let mut arguments = Self::default();
        while !input.is_empty() {
            let name: Ident = input.parse().map_err(refuse)?;
            let announces = name == "announce" && arguments.announce.is_none();
            if !announces && (name != "version" || arguments.version.is_some()) {
                return Err(Error::new_spanned(&name, MESSAGE));
            }
            input.parse::<Token![=]>().map_err(refuse)?;
            if announces {
                arguments.announce = Some(input.parse().map_err(refuse)?);
            } else {
                let version: LitInt = input.parse().map_err(refuse)?;
                version.base10_parse::<u32>()?;
                arguments.version = Some(version);
            }
            if !input.is_empty() {
                input.parse::<Token![,]>().map_err(refuse)?;
            }
        }
        Ok(arguments)
    }
}
