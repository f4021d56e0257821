//! `#[procedure]`: from a function to the sites of its accesses.
//!
//! The body is walked once, in the order of evaluation. Each call of a table operation gets the next number
//! and is rewritten so that it says it; what it declares is noted as a step, with the loops and branches that
//! it stands in. A call of another procedure takes as many numbers as that has sites. What the walk cannot
//! follow is refused.

mod body;
mod columns;
mod expand;
mod operation;
mod signature;

use crate::errors::Errors;
use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Ident, ItemFn, Path, Token};

/// What a function becomes.
pub fn procedure(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let announce = match (!attribute.is_empty()).then(|| announce.parse2(attribute)).transpose() {
        Ok(announce) => announce,
        Err(error) => {
            errors.push(error);
            None
        }
    };
    let Ok(mut function) = syn::parse2::<ItemFn>(item.clone()) else {
        let message = "`#[procedure]` belongs on a free function with a body: \
                       `fn transfer(tx: &mut impl Transaction, ..) -> Result<..> { .. }`";
        let error = Error::new_spanned(&item, message).into_compile_error();
        return quote!(#error #item);
    };
    let signature = match signature::signature(&function) {
        Ok(signature) => signature,
        Err(error) => {
            errors.push(error);
            let function = expand::placeholder(&function);
            let error = errors.finish(()).expect_err("there is one").into_compile_error();
            return quote!(#error #function);
        }
    };
    let analysed = body::analyse(&mut function, &signature, &mut errors);
    match errors.finish(()) {
        Ok(()) => expand::procedure(&function, &signature, &analysed, announce.as_ref()),
        // What calls it finds it, so that its errors are the only ones.
        Err(error) => {
            let error = error.into_compile_error();
            let placeholder = expand::placeholder(&function);
            let procedure = expand::implementation(&function, &signature, None, None);
            quote!(#error #placeholder #procedure)
        }
    }
}

/// The function that tells what a call will access: `announce = transfer_accesses`.
fn announce(input: ParseStream<'_>) -> syn::Result<Path> {
    let message = "`#[procedure]` takes one argument at the most, `announce = ..`: the function that tells what a call will access; \
                   everything else is read from the body";
    let refuse = |error: Error| Error::new(error.span(), message);
    let name: Ident = input.parse().map_err(refuse)?;
    if name != "announce" {
        return Err(Error::new_spanned(&name, message));
    }
    input.parse::<Token![=]>().map_err(refuse)?;
    input.parse().map_err(refuse)
}
