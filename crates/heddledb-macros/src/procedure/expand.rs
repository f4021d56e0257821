//! From what was found of a function to the generated items.

use super::arguments::Arguments;
use super::body::{Analysed, Step};
use super::repeatable::Text;
use super::signature::Signature;
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{Attribute, Ident, Item, ItemFn, Stmt};

/// The function, each of whose accesses says its site, and the type that stands for it.
pub fn procedure(
    function: &ItemFn,
    signature: &Signature,
    analysed: &Analysed,
    arguments: &Arguments,
    text: Text,
) -> TokenStream {
    let implementation = implementation(function, signature, Some(analysed), arguments, text);
    quote!(#function #implementation)
}

/// The function without its body, beside the error that refuses it: nothing of it ever runs, but what calls it is
/// checked, so that one error is not followed by others.
pub fn placeholder(function: &ItemFn) -> TokenStream {
    let ItemFn { attrs, vis, sig, .. } = function;
    quote! {
        #(#attrs)*
        #[allow(unused_variables)]
        #vis #sig {
            ::core::unimplemented!()
        }
    }
}

/// The type that stands for a procedure.
pub fn implementation(
    function: &ItemFn,
    signature: &Signature,
    analysed: Option<&Analysed>,
    given: &Arguments,
    text: Text,
) -> TokenStream {
    let Signature { name, ident, reads_only, parameters, output, .. } = signature;
    let (vis, own) = (&function.vis, &function.sig.ident);
    let is = |attribute: &&Attribute, name: &str| attribute.path().is_ident(name);
    let docs: Vec<_> = function.attrs.iter().filter(|attribute| is(attribute, "doc")).collect();
    let cfgs: Vec<_> = function.attrs.iter().filter(|attribute| is(attribute, "cfg")).collect();
    let summary = match docs.is_empty() {
        true => format!("Procedure `{name}`."),
        false => format!("\nThe procedure `{name}`, as a type."),
    };

    let named = |at: usize| format_ident!("argument_{at}", span = Span::mixed_site());
    let names: Vec<Ident> = (0..parameters.len()).map(named).collect();
    let (types, taken) = match &parameters[..] {
        [ty] => (quote!(#ty), quote!(#(#names)*)),
        types => (quote!((#(#types),*)), quote!((#(#names),*))),
    };
    let called = |tx: &Ident| quote!(#own(#tx, #(::core::clone::Clone::clone(#names)),*));
    let tx = Ident::new("tx", Span::mixed_site());
    let arguments = Ident::new("arguments", Span::mixed_site());
    let call = called(&tx);
    // The names of the body's own imports and constants stand for the same here.
    let items = function.block.stmts.iter().filter_map(|stmt| match stmt {
        Stmt::Item(item @ (Item::Use(_) | Item::Const(_) | Item::Type(_))) => Some(item),
        _ => None,
    });
    let declaration = Ident::new("declaration", Span::mixed_site());
    let (sites, declared) = match analysed {
        Some(analysed) => (analysed.sites.clone(), steps(&analysed.steps, &declaration)),
        None => (quote!(0), quote!()),
    };
    let read = reads_only.then(|| {
        quote! {
            #(#cfgs)*
            #[automatically_derived]
            impl ::heddledb::procedure::ReadProcedure for #ident {
                #[inline]
                fn look<__T: ::heddledb::ReadTransaction>(
                    #tx: &mut __T,
                    #arguments: &Self::Arguments<'_>,
                ) -> ::heddledb::Result<Self::Output> {
                    let #taken = #arguments;
                    #call
                }
            }
        }
    });
    let announcement = Ident::new("announcement", Span::mixed_site());
    let announced = given.announce.as_ref().map(|announce| {
        quote! {
            const ANNOUNCES: bool = true;
            fn announce(
                #arguments: &Self::Arguments<'_>,
                #announcement: &mut ::heddledb::procedure::Announcement<'_>,
            ) {
                let #taken = #arguments;
                #announce(#announcement, #(::core::clone::Clone::clone(#names)),*);
            }
        }
    });
    let versioned = given.version.as_ref().map(|version| {
        quote! {
            const VERSION: ::core::option::Option<u32> = ::core::option::Option::Some(#version);
            fn encode(
                #arguments: &Self::Arguments<'_>,
                out: &mut ::std::vec::Vec<u8>,
            ) -> ::heddledb::Result<()> {
                ::heddledb::procedure::encode_arguments::<Self, _>(#arguments, out)
            }
            fn decode(bytes: &[u8]) -> ::heddledb::Result<Self::Arguments<'_>> {
                ::heddledb::procedure::decode_arguments::<Self, _>(bytes)
            }
        }
    });
    let Text { fingerprint, is_repeatable } = text;
    let mut called = Vec::new();
    analysed.iter().for_each(|analysed| callees(&analysed.steps, &mut called));
    let asserted = given.version.is_some().then(|| {
        quote! {
            const _: () = ::core::assert!(
                <#ident as ::heddledb::procedure::Procedure>::REPEATABLE,
                "a procedure with a version calls one that takes clocks, random numbers, threads, the environment, files, statics or hash maps, \
                 so that calling it again may do something else"
            );
        }
    });
    quote! {
        #(#cfgs)*
        #(#docs)*
        #[doc = #summary]
        #[allow(dead_code)]
        #[derive(Clone, Copy, Debug)]
        #vis struct #ident;

        #(#cfgs)*
        #[automatically_derived]
        impl ::heddledb::procedure::Procedure for #ident {
            const NAME: &'static str = #name;
            const SITES: u16 = #sites;
            type Arguments<'a> = #types;
            type Output = #output;
            #[allow(unused_imports, dead_code, clippy::items_after_statements)]
            fn declare(#declaration: &mut ::heddledb::procedure::Declaration) {
                #(#items)*
                let _ = &#declaration;
                #declared
            }
            #announced
            const REPEATABLE: bool =
                #is_repeatable #(&& <#called as ::heddledb::procedure::Procedure>::REPEATABLE)*;
            const FINGERPRINT: u64 = ::heddledb::procedure::fingerprint(
                #fingerprint,
                &[#(<#called as ::heddledb::procedure::Procedure>::FINGERPRINT),*],
            );
            #versioned
            #[inline]
            fn run<__T: ::heddledb::Transaction>(
                #tx: &mut __T,
                #arguments: &Self::Arguments<'_>,
            ) -> ::heddledb::Result<Self::Output> {
                let #taken = #arguments;
                #call
            }
        }
        #read
        #(#cfgs)*
        #asserted
    }
}

/// The procedures that are called, one after another.
fn callees(steps: &[Step], found: &mut Vec<TokenStream>) {
    for step in steps {
        match step {
            Step::Call(procedure) => found.push(quote!(#procedure)),
            Step::Loop(inner) | Step::Piece(inner) => callees(inner, found),
            Step::Branch { then, otherwise } => {
                callees(then, found);
                callees(otherwise, found);
            }
            Step::Access { .. } | Step::NoAbort | Step::Later => {}
        }
    }
}

fn steps(all: &[Step], declaration: &Ident) -> TokenStream {
    let one = |step: &Step| match step {
        Step::Access { declared, causal, deferred } => {
            let causal = causal.then(|| quote!(#declaration.causal();));
            let deferred = deferred.then(|| quote!(#declaration.deferred();));
            quote!(#causal #deferred #declaration.#declared;)
        }
        Step::Call(procedure) => {
            quote!(#declaration.call::<#procedure>();)
        }
        Step::NoAbort => quote!(#declaration.no_abort();),
        Step::Later => quote!(#declaration.later();),
        Step::Loop(inner) => {
            let inner = steps(inner, declaration);
            quote!(#declaration.repeat(|#declaration| { #inner });)
        }
        Step::Piece(inner) => {
            let inner = steps(inner, declaration);
            quote!(#declaration.piece(|#declaration| { #inner });)
        }
        Step::Branch { then, otherwise } => {
            let (then, otherwise) = (branch(then, declaration), branch(otherwise, declaration));
            quote!(#declaration.branch(#then, #otherwise);)
        }
    };
    all.iter().map(one).collect()
}

fn branch(inner: &[Step], declaration: &Ident) -> TokenStream {
    match inner.is_empty() {
        true => quote!(|_| {}),
        false => {
            let inner = steps(inner, declaration);
            quote!(|#declaration| { #inner })
        }
    }
}
