//! `#[derive(ColumnValue)]` and `#[derive(Key)]`: enums without fields, and structs around one value.

use crate::errors::Errors;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Error, Fields, Ident, Index, Member, Result, Type};

/// What such a type is stored as.
enum Form {
    /// A struct around one value: the field, and its type.
    Around(Member, Box<Type>),
    /// An enum: the integer that it is stored as, and the variants.
    Enum(Ident, Vec<Ident>),
}

/// The integer types that an enum can be stored as.
const INTEGERS: [&str; 8] = ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"];

impl Form {
    fn of(input: &DeriveInput) -> Result<Self> {
        let name = &input.ident;
        if !input.generics.params.is_empty() {
            return Err(Error::new_spanned(
                &input.generics.params,
                "a type with parameters does not derive this; write it with concrete types, or implement the trait by hand",
            ));
        }
        match &input.data {
            Data::Struct(data) => {
                let mut fields = data.fields.iter();
                let (Some(field), None) = (fields.next(), fields.next()) else {
                    let message = format!(
                        "`{name}` has {} fields, but a column holds one value; make each field a column of the table, or \
                         keep `{name}` in a table of its own",
                        data.fields.len()
                    );
                    return Err(Error::new_spanned(name, message));
                };
                let member = field.ident.clone().map_or(Member::Unnamed(Index::from(0)), Member::Named);
                Ok(Self::Around(member, Box::new(field.ty.clone())))
            }
            Data::Enum(data) => {
                let mut errors = Errors::default();
                for variant in &data.variants {
                    if !matches!(variant.fields, Fields::Unit) {
                        let message = format!(
                            "`{}` has fields, but a column holds one value; make them columns of the table, which may be \
                             `Option`s",
                            variant.ident
                        );
                        errors.at(&variant.ident, message);
                    }
                }
                if data.variants.is_empty() {
                    errors.at(name, format!("`{name}` has no values; write at least one"));
                }
                let integer = integer(input)?;
                let variants = data.variants.iter().map(|variant| variant.ident.clone()).collect();
                errors.finish(Self::Enum(integer, variants))
            }
            Data::Union(_) => Err(Error::new_spanned(
                name,
                format!("`{name}` is a union, but a column holds a struct or an enum"),
            )),
        }
    }
}

/// The integer in `#[repr(..)]`, or `u8`.
fn integer(input: &DeriveInput) -> Result<Ident> {
    let mut integer = format_ident!("u8");
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        attribute.parse_nested_meta(|meta| {
            let Some(word) = meta.path.get_ident() else { return Ok(()) };
            let text = word.to_string();
            if INTEGERS.contains(&text.as_str()) {
                integer = word.clone();
            } else if text.ends_with("size") || text.ends_with("128") {
                let message =
                    format!("an enum is stored as one of {}, and not as `{text}`", INTEGERS.join(", "));
                return Err(Error::new_spanned(word, message));
            }
            Ok(())
        })?;
    }
    Ok(integer)
}

pub fn column_value(input: &DeriveInput) -> Result<TokenStream> {
    let name = &input.ident;
    let form = Form::of(input)?;
    let up_to = match &form {
        Form::Around(member, ty) => key_up_to(name, member, ty),
        Form::Enum(..) => TokenStream::new(),
    };
    let (ty, load, store, into, from) = match form {
        Form::Around(member, ty) => (
            quote!(<#ty as ::heddledb::table::ColumnValue>::TYPE),
            quote!(Self { #member: ::heddledb::table::ColumnValue::load(source, offset) }),
            quote!(::heddledb::table::ColumnValue::store(&self.#member, target, offset)),
            quote!(value.#member),
            quote!(::core::result::Result::Ok(Self { #member: ::core::convert::TryFrom::try_from(value)? })),
        ),
        Form::Enum(integer, variants) => {
            let names: Vec<String> = variants.iter().map(|variant| variant.unraw().to_string()).collect();
            let (numbers, from_number) = (numbers(name, &integer, &variants), from_number(&variants));
            let outside = format!(
                "a variant of `{name}` has a number that `{integer}` does not have; write `#[repr(u16)]`, or another integer, \
                 above the enum"
            );
            let integer_type = format_ident!("{}", integer.to_string().to_uppercase());
            let ty = quote! {{
                #(::core::assert!(
                    #name::#variants as i128 >= #integer::MIN as i128 && #name::#variants as i128 <= #integer::MAX as i128,
                    #outside
                );)*
                ::heddledb::table::ColumnType::Enum(&::heddledb::table::EnumType::new(
                    ::heddledb::table::ColumnType::#integer_type,
                    &[#((#names, #name::#variants as i128)),*],
                ))
            }};
            let load = quote! {
                #numbers
                let number = <#integer as ::heddledb::table::ColumnValue>::load(source, offset);
                #from_number
            };
            let store = quote!(::heddledb::table::ColumnValue::store(&(*self as #integer), target, offset));
            let into = quote!(match value { #(#name::#variants => #names,)* });
            let from = quote! {
                match <&::core::primitive::str as ::core::convert::TryFrom<_>>::try_from(value) {
                    #(::core::result::Result::Ok(#names) => ::core::result::Result::Ok(#name::#variants),)*
                    _ => ::core::result::Result::Err(::heddledb::table::dynamic::WrongType::new::<Self>(value)),
                }
            };
            (ty, load, store, into, from)
        }
    };
    Ok(quote! {
        #[automatically_derived]
        impl ::heddledb::table::ColumnValue for #name {
            const TYPE: ::heddledb::table::ColumnType = #ty;
            #[inline(always)]
            fn load(source: &impl ::heddledb::table::Words, offset: usize) -> Self {
                #load
            }
            #[inline(always)]
            fn store(&self, target: &mut impl ::heddledb::table::WordsMut, offset: usize) {
                #store;
            }
        }

        /// Of an enum, the name.
        #[automatically_derived]
        impl ::core::convert::From<#name> for ::heddledb::table::dynamic::Value {
            fn from(value: #name) -> Self {
                ::core::convert::From::from(#into)
            }
        }

        /// Of an enum, by the name.
        #[automatically_derived]
        impl<'a> ::core::convert::TryFrom<&'a ::heddledb::table::dynamic::Value> for #name {
            type Error = ::heddledb::table::dynamic::WrongType;
            fn try_from(value: &'a ::heddledb::table::dynamic::Value) -> ::core::result::Result<Self, Self::Error> {
                #from
            }
        }

        #up_to
    })
}

/// A struct around a value of any length has a place in keys as that has.
fn key_up_to(name: &Ident, member: &Member, ty: &Type) -> TokenStream {
    quote! {
        #[automatically_derived]
        impl<const MAX: ::core::primitive::usize> ::heddledb::table::KeyUpTo<MAX> for #name
        where
            #ty: ::heddledb::table::KeyUpTo<MAX>,
        {
            type Key = <#ty as ::heddledb::table::KeyUpTo<MAX>>::Key;
            fn key_up_to(&self) -> Self::Key {
                <#ty as ::heddledb::table::KeyUpTo<MAX>>::key_up_to(&self.#member)
            }
        }
    }
}

pub fn key(input: &DeriveInput) -> Result<TokenStream> {
    let name = &input.ident;
    let (bytes, write, read, excess) = match Form::of(input)? {
        Form::Around(member, ty) => (
            quote!(<#ty as ::heddledb::table::Key>::BYTES),
            quote!(::heddledb::table::Key::write(&self.#member, out)),
            quote!(Self { #member: ::heddledb::table::Key::read(input) }),
            quote!(::heddledb::table::Key::excess(&self.#member)),
        ),
        Form::Enum(integer, variants) => {
            let (numbers, from_number) = (numbers(name, &integer, &variants), from_number(&variants));
            (
                quote!(<#integer as ::heddledb::table::Key>::BYTES),
                quote!(::heddledb::table::Key::write(&(*self as #integer), out)),
                quote! {
                    #numbers
                    let number = <#integer as ::heddledb::table::Key>::read(input);
                    #from_number
                },
                quote!(::core::option::Option::None),
            )
        }
    };
    Ok(quote! {
        #[automatically_derived]
        impl ::heddledb::table::Key for #name {
            const BYTES: usize = #bytes;
            #[inline(always)]
            fn write(&self, out: &mut ::heddledb::table::KeyWriter<'_>) {
                #write
            }
            #[inline(always)]
            fn read(input: &mut ::heddledb::table::KeyReader<'_>) -> Self {
                #read
            }
            #[inline(always)]
            fn excess(&self) -> ::core::option::Option<::heddledb::table::Excess> {
                #excess
            }
        }
    })
}

/// A constant for each variant's number, to match with.
fn numbers(name: &Ident, integer: &Ident, variants: &[Ident]) -> TokenStream {
    let constants = constants(variants);
    quote!(#(const #constants: #integer = #name::#variants as #integer;)*)
}

/// From `number` to the variant. What no variant has can only be part of a torn copy, or of no row: then the first.
fn from_number(variants: &[Ident]) -> TokenStream {
    let (first, constants) = (&variants[0], constants(variants));
    let (rest, numbers) = (&variants[1..], &constants[1..]);
    quote! {
        match number {
            #(#numbers => Self::#rest,)*
            _ => Self::#first,
        }
    }
}

fn constants(variants: &[Ident]) -> Vec<Ident> {
    (0..variants.len()).map(|at| format_ident!("NUMBER_{at}")).collect()
}
