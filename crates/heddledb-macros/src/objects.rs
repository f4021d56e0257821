//! `#[derive(Objects)]` and `#[derive(Element)]`.
//!
//! What an object is, is known by its type only, so the generated code asks it (`Shape`), and rows are laid out by the
//! compiler (`heddledb::objects::Cell`). Here are only the names, and what cannot depend on a type parameter.

use crate::errors::Errors;
use crate::parse::snake_case;
use crate::rank::GroupOption;
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Field, Fields, Ident, LitStr, Result, Type};

/// The named fields of a struct without parameters.
fn fields<'a>(input: &'a DeriveInput, what: &str, example: &str) -> Result<Vec<&'a Field>> {
    let name = &input.ident;
    if !input.generics.params.is_empty() || input.generics.where_clause.is_some() {
        return Err(Error::new_spanned(
            &input.generics,
            format!("{what} cannot be generic; write one struct for each, with concrete types"),
        ));
    }
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) if !fields.named.is_empty() => Ok(fields.named.iter().collect()),
            _ => Err(Error::new_spanned(
                name,
                format!("{what} has named fields; write `struct {name} {{ {example}, .. }}`"),
            )),
        },
        _ => Err(Error::new_spanned(
            name,
            format!("{what} is a struct with named fields; write `struct {name} {{ {example}, .. }}`"),
        )),
    }
}

/// `Shop` and `hits` become `ShopHits`.
fn camel_case(owner: &Ident, field: &Ident) -> Ident {
    let mut name = owner.unraw().to_string();
    for part in field.unraw().to_string().split('_') {
        let mut letters = part.chars();
        name.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        name.push_str(letters.as_str());
    }
    Ident::new(&name, field.span())
}

/// The name in `#[objects(name = "..")]`, or the struct's.
fn prefix(input: &DeriveInput, errors: &mut Errors) -> String {
    let mut name = None;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("objects")) {
        let parsed = attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("name") {
                return Err(meta.error("`#[objects(..)]` takes `name = \"..\"`"));
            }
            let text: LitStr = meta.value()?.parse()?;
            match text.value() {
                empty if empty.is_empty() => Err(Error::new_spanned(text, "the name is empty; write one")),
                value => {
                    name = Some(value);
                    Ok(())
                }
            }
        });
        parsed.unwrap_or_else(|error| errors.push(error));
    }
    name.unwrap_or_else(|| snake_case(&input.ident.unraw().to_string()))
}

/// What is generated for one object.
struct Object<'a> {
    field: &'a Ident,
    ty: &'a Type,
    tag: Ident,
    name: String,
    hash: bool,
}

pub fn objects(input: &DeriveInput) -> Result<TokenStream> {
    let mut errors = Errors::default();
    let prefix = prefix(input, &mut errors);
    let mut objects = Vec::new();
    for field in fields(input, "a struct of objects", "hits: TBox<u64>")? {
        let ident = field.ident.as_ref().expect("fields are named");
        let mut hash = false;
        for attribute in &field.attrs {
            if attribute.path().is_ident("objects") {
                errors.at(attribute, "this belongs on the struct; a field that is a `TMap` takes `#[hash]`");
            } else if attribute.path().is_ident("hash") {
                hash = true;
                if !is_map(&field.ty) {
                    errors.at(attribute, "only a `TMap` takes `#[hash]`; others have no order of keys");
                }
            }
        }
        objects.push(Object {
            field: ident,
            ty: &field.ty,
            tag: camel_case(&input.ident, ident),
            name: format!("{prefix}_{}", ident.unraw()),
            hash,
        });
    }
    let generated = expand(input, &objects);
    errors.finish(generated)
}

/// Whether a type is a `TMap`, by its name.
fn is_map(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    path.path.segments.last().is_some_and(|last| last.ident == "TMap")
}

fn expand(input: &DeriveInput, objects: &[Object<'_>]) -> TokenStream {
    let (name, vis) = (&input.ident, &input.vis);
    let tags: Vec<_> = objects.iter().map(|object| &object.tag).collect();
    let fields: Vec<_> = objects.iter().map(|object| object.field).collect();
    let types: Vec<_> = objects.iter().map(|object| object.ty).collect();
    let declared = objects.iter().map(|Object { field, tag, .. }| {
        let doc = format!("The object [`{name}::{field}`], as a type.");
        quote! {
            #[doc = #doc]
            #[allow(dead_code)]
            #[derive(Clone, Copy, Debug)]
            #vis struct #tag;
        }
    });
    let handles = objects.iter().map(|Object { field, ty, tag, name: table, .. }| {
        let doc = format!("The object in table `{table}`.");
        let span = ty.span();
        quote_spanned! {span=>
            #[doc = #doc]
            #vis const #field: <#ty as ::heddledb::objects::Shape>::Handle<#tag> =
                <<#ty as ::heddledb::objects::Shape>::Handle<#tag> as ::heddledb::objects::Handle>::HANDLE;
        }
    });
    let implementations = objects.iter().map(implementation);
    quote! {
        #(#declared)*
        #[allow(dead_code, non_upper_case_globals)]
        #[automatically_derived]
        impl #name {
            #(#handles)*
        }
        const _: () = {
            #(#implementations)*
            #[automatically_derived]
            impl ::heddledb::objects::Objects for #name {
                fn tables() -> ::std::vec::Vec<&'static ::heddledb::table::Definition> {
                    let mut tables = ::std::vec::Vec::new();
                    #(::heddledb::objects::tables_of::<#tags>(&mut tables);)*
                    tables
                }
                fn make(tx: &mut impl ::heddledb::Transaction) -> ::heddledb::Result<()> {
                    #(<#types as ::heddledb::objects::Shape>::make::<#tags>(tx)?;)*
                    ::core::result::Result::Ok(())
                }
            }
            // The struct is a declaration: this is all that is ever done with a value of it.
            #[allow(dead_code)]
            fn declaration() {
                let declared = #name { #(#fields: <#types as ::heddledb::objects::Shape>::DECLARED),* };
                #(let _ = declared.#fields;)*
            }
        };
    }
}

fn implementation(object: &Object<'_>) -> TokenStream {
    let Object { ty, tag, name, hash, .. } = object;
    let head_name = format!("{name}_head");
    let span = ty.span();
    let shape = quote_spanned!(span=> <#ty as ::heddledb::objects::Shape>);
    let structure = match hash {
        true => quote!(::heddledb::table::Structure::Hash),
        false => quote!(#shape::STRUCTURE),
    };
    let definition = |function: &str, part: &str| {
        let (function, part) = (format_ident!("{function}"), format_ident!("{part}"));
        quote! {
            #[inline(always)]
            fn #function() -> &'static ::heddledb::table::Definition {
                static DEFINITION: ::heddledb::table::Definition =
                    ::heddledb::objects::definition::<::heddledb::objects::#part<#tag>>();
                &DEFINITION
            }
        }
    };
    let (cells, head) = (definition("cells", "Cells"), definition("head", "Head"));
    quote! {
        #[automatically_derived]
        impl ::heddledb::objects::Object for #tag {
            type Shape = #ty;
            type Words = [u64; ::heddledb::table::key_words(<#shape::Key as ::heddledb::table::Key>::BYTES)];
            const NAME: &'static str = #name;
            const HEAD_NAME: &'static str = #head_name;
            const STRUCTURE: ::heddledb::table::Structure = #structure;
            #cells
            #head
        }
    }
}

pub fn element(input: &DeriveInput) -> Result<TokenStream> {
    let mut errors = Errors::default();
    let name = &input.ident;
    let mut groups = vec!["main".to_owned()];
    let (mut columns, mut idents, mut types) = (Vec::new(), Vec::new(), Vec::new());
    for field in fields(input, "an element", "price: u64")? {
        let (ident, ty) = (field.ident.as_ref().expect("fields are named"), &field.ty);
        let mut group = 0;
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("group")) {
            match GroupOption::of(attribute) {
                Ok(GroupOption { rank: Some(rank), .. }) => {
                    errors.at(rank.number, "the groups of an element take no rank; only those of a table do");
                }
                Ok(GroupOption { ident: found, .. }) => {
                    let found = found.unraw().to_string();
                    group = groups.iter().position(|known| *known == found).unwrap_or(groups.len());
                    if group == groups.len() {
                        groups.push(found);
                    }
                }
                Err(error) => errors.push(error),
            }
        }
        let (text, span): (String, Span) = (ident.unraw().to_string(), ty.span());
        let value = quote_spanned!(span=> <#ty as ::heddledb::table::ColumnValue>);
        columns.push(quote!(::heddledb::objects::Field { name: #text, ty: #value::TYPE, group: #group }));
        idents.push(ident);
        types.push(value);
    }
    let at: Vec<usize> = (0..idents.len()).collect();
    errors.finish(quote! {
        #[automatically_derived]
        impl ::heddledb::objects::Element for #name {
            const FIELDS: &'static [::heddledb::objects::Field] = &[#(#columns),*];
            const GROUPS: &'static [&'static str] = &[#(#groups),*];
            #[inline(always)]
            fn load(source: &impl ::heddledb::table::Words, places: &[usize]) -> Self {
                Self { #(#idents: #types::load(source, places[#at])),* }
            }
            #[inline(always)]
            fn store(&self, target: &mut impl ::heddledb::table::WordsMut, places: &[usize]) {
                #(#types::store(&self.#idents, target, places[#at]);)*
            }
        }
    })
}
