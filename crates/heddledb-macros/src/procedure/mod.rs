//! `#[procedure]`: from a function to the sites of its accesses.
//!
//! The body is walked once, in the order of evaluation. Each call of a table operation gets the next number
//! and is rewritten so that it says it; what it declares is noted as a step, with the loops and branches that
//! it stands in. A call of another procedure takes as many numbers as that has sites. What the walk cannot
//! follow is refused.

mod arguments;
mod body;
mod columns;
mod expand;
mod operation;
mod repeatable;
mod signature;

use crate::errors::Errors;
use arguments::Arguments;
use proc_macro2::TokenStream;
use quote::quote;
use repeatable::Text;
use syn::{Error, ItemFn};

/// What a function becomes.
pub fn procedure(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let arguments: Arguments = syn::parse2(attribute).unwrap_or_else(|error| {
        errors.push(error);
        Arguments::default()
    });
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
    if arguments.version.is_some() {
        repeatable::refuse_unrepeatable(&function, &mut errors);
    }
    // Before the walk says in it at which site each access is.
    let text = Text {
        fingerprint: repeatable::fingerprint(&function),
        is_repeatable: repeatable::is_repeatable(&function),
    };
    let analysed = body::analyse(&mut function, &signature, &mut errors);
    match errors.finish(()) {
        Ok(()) => expand::procedure(&function, &signature, &analysed, &arguments, text),
        // What calls it finds it, so that its errors are the only ones.
        Err(error) => {
            let error = error.into_compile_error();
            let placeholder = expand::placeholder(&function);
            let procedure =
                expand::implementation(&function, &signature, None, &Arguments::default(), Text::default());
            quote!(#error #placeholder #procedure)
        }
    }
}
