//! From a [`Table`] to the generated items.

use crate::parse::{Column, Index, Part, Table};
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};

pub fn table(table: &Table) -> TokenStream {
    let types = index_types(table);
    let places = places(table);
    let columns = column_constants(table);
    let relation = relation_of_table(table);
    let implementation = table_impl(table);
    let indexes = table.indexes.iter().map(|index| index_impls(table, index));
    quote! {
        #types
        const _: () = {
            #places
            #columns
            #relation
            #implementation
            #(#indexes)*
        };
    }
}

/// `A` for one part, `(A, B)` for several. The compiler reports what it finds wrong with the whole
/// at `span`.
fn tuple(span: Span, parts: &[TokenStream]) -> TokenStream {
    match parts {
        [part] => part.clone(),
        parts => quote_spanned!(span=> (#(#parts),*)),
    }
}

/// What each part is in a key.
fn types(table: &Table, parts: impl IntoIterator<Item = Part>) -> Vec<TokenStream> {
    let ty = |part: Part| {
        let Column { ty, .. } = &table.columns[part.ordinal];
        match part.max {
            None => ty.clone(),
            Some(max) => {
                let span = first_span(ty);
                quote_spanned!(span=> <#ty as ::heddledb::table::KeyUpTo<#max>>::Key)
            }
        }
    };
    parts.into_iter().map(ty).collect()
}

/// `row.a` of each column, as it is in a key.
fn values(table: &Table, row: &TokenStream, parts: impl IntoIterator<Item = Part>) -> Vec<TokenStream> {
    let value = |part: Part| {
        let Column { ident, ty, .. } = &table.columns[part.ordinal];
        match part.max {
            None => quote!(#row.#ident),
            Some(max) => quote!(<#ty as ::heddledb::table::KeyUpTo<#max>>::key_up_to(&#row.#ident)),
        }
    };
    parts.into_iter().map(value).collect()
}

/// The limits of the parts of a key that are of any length, each with a comma behind it.
fn limits(table: &Table, relation: &str, parts: impl IntoIterator<Item = Part>) -> TokenStream {
    let limit = |(number, Part { ordinal, max }): (usize, Part)| {
        let (column, max) = (&table.columns[ordinal].name, max?);
        Some(quote! {
            ::heddledb::table::Limit {
                relation: #relation, part: #number, column: #column, slot: __OFFSETS[#ordinal] / 8, bytes: #max,
            },
        })
    };
    parts.into_iter().enumerate().filter_map(limit).collect()
}

/// The parts of the key of an index's entries: the indexed columns, and those parts of the primary key that do not stand
/// there already, unless no two rows share them.
fn entry_parts(table: &Table, index: &Index) -> Vec<Part> {
    let is_listed = |part: &Part| index.columns.iter().any(|listed| listed.ordinal == part.ordinal);
    let rest = table.key.iter().copied().filter(|part| !index.unique && !is_listed(part));
    index.columns.iter().copied().chain(rest).collect()
}

/// The name of an index's relation.
fn index_name(table: &Table, index: &Index) -> String {
    format!("{}.{}", table.name, index.ident)
}

fn mask<'a>(parts: impl IntoIterator<Item = &'a Part>) -> u64 {
    parts.into_iter().fold(0, |mask, part| mask | 1 << part.ordinal)
}

/// Where a type begins, to report its errors at.
fn first_span(ty: &TokenStream) -> Span {
    ty.clone().into_iter().next().map_or_else(Span::call_site, |token| token.span())
}

/// The expression for the words of an encoded key.
fn words_of(key: &TokenStream) -> TokenStream {
    quote!(::heddledb::table::key_words(<#key as ::heddledb::table::Key>::BYTES))
}

/// The offset of each column in bytes and the bounds of each group in words.
///
/// The sizes are constants of types that only the compiler knows, so it computes the layout.
fn places(table: &Table) -> TokenStream {
    let (count, groups) = (table.columns.len(), table.groups.len());
    let types: Vec<_> = table.columns.iter().map(|column| &column.ty).collect();
    let group_of = table.columns.iter().map(|column| column.group);
    let empty = format!("a column of table `{}` has a type of no bytes; remove the column", table.name);
    let long = format!(
        "a row of table `{}` is longer than 65536 bytes, too long for a stack; shorten its texts and arrays, or keep them \
         in rows of a second table, a part in each",
        table.name
    );
    quote! {
        const __PLACES: ([usize; #count], [usize; #groups + 1], ([usize; #count], usize)) = {
            // Bytes, alignment and group of each column.
            let columns: [(usize, usize, usize); #count] = [#((
                <#types as ::heddledb::table::ColumnValue>::TYPE.bytes(),
                <#types as ::heddledb::table::ColumnValue>::TYPE.align(),
                #group_of,
            )),*];
            let has_slot: [bool; #count] =
                [#(<#types as ::heddledb::table::ColumnValue>::TYPE.has_slot()),*];
            let mut slots = ([0; #count], 0);
            let mut offsets = [0; #count];
            let mut bounds = [0; #groups + 1];
            let mut end = 0usize;
            let mut group = 0;
            while group < #groups {
                let mut column = 0;
                while column < #count {
                    let (bytes, align, of) = columns[column];
                    ::core::assert!(bytes > 0, #empty);
                    if of == group {
                        offsets[column] = end.next_multiple_of(align);
                        end = offsets[column] + bytes;
                        if has_slot[column] {
                            slots.0[slots.1] = offsets[column] / 8;
                            slots.1 += 1;
                        }
                    }
                    column += 1;
                }
                end = end.next_multiple_of(8);
                group += 1;
                bounds[group] = end / 8;
            }
            ::core::assert!(end <= ::heddledb::table::ROW_BYTES_MAX, #long);
            (offsets, bounds, slots)
        };
        const __OFFSETS: [usize; #count] = __PLACES.0;
        const __BOUNDS: [usize; #groups + 1] = __PLACES.1;
        const __SLOTS: &[usize] = __PLACES.2.0.split_at(__PLACES.2.1).0;
    }
}

fn column_constants(table: &Table) -> TokenStream {
    let (row, vis) = (&table.ident, &table.vis);
    let constants = table.columns.iter().enumerate().map(|(ordinal, column)| {
        let Column { ident, name, ty, docs, group, .. } = column;
        let summary = match docs.is_empty() {
            true => format!("Column `{name}`, in group `{}`.", table.groups[*group]),
            false => format!("\nIn group `{}`.", table.groups[*group]),
        };
        let part = match table.key.iter().any(|part| part.ordinal == ordinal) {
            true => quote!(::heddledb::table::OfKey),
            false => quote!(::heddledb::table::Plain),
        };
        quote! {
            #(#docs)*
            #[doc = #summary]
            #vis const #ident: ::heddledb::table::Column<Self, #ty, #part> =
                ::heddledb::table::Column::new(#name, __OFFSETS[#ordinal], #group, #ordinal);
        }
    });
    quote! {
        #[allow(dead_code, non_upper_case_globals)]
        #[automatically_derived]
        impl #row {
            #(#constants)*
        }
    }
}

/// The type of the primary key.
fn key_type(table: &Table) -> TokenStream {
    tuple(key_span(table), &types(table, table.key.iter().copied()))
}

/// The place to report errors of the primary key at.
fn key_span(table: &Table) -> Span {
    table.columns[table.key[0].ordinal].ident.span()
}

/// What tables and indexes have in common.
struct Relation<'a> {
    /// Where errors of the key are reported.
    span: Span,
    implementor: &'a syn::Ident,
    /// The table, if it is an index of one.
    index_of: Option<&'a syn::Ident>,
    key: TokenStream,
    name: &'a str,
    groups: TokenStream,
    words: TokenStream,
    structure: &'a str,
    /// The parts of the schema text.
    schema: TokenStream,
    role: TokenStream,
    limits: TokenStream,
}

/// `impl Relation`.
fn relation(of: &Relation<'_>) -> TokenStream {
    let Relation { span, implementor, index_of, key, name, groups, words, structure, schema, role, limits } =
        of;
    let exceeds = match limits.is_empty() {
        true => quote!(()),
        false => quote!(::core::option::Option<::heddledb::table::Excess>),
    };
    let slots = if index_of.is_some() { quote!(&[]) } else { quote!(__SLOTS) };
    let width = words_of(key);
    let key_words = quote_spanned!(*span=> [u64; #width]);
    let structure = format_ident!("{structure}");
    let (table, entries) = (index_of.unwrap_or(implementor), index_of.is_some());
    quote! {
        #[automatically_derived]
        impl ::heddledb::table::Relation for #implementor {
            type Table = #table;
            const ENTRIES: bool = #entries;
            type Key = #key;
            type Words = #key_words;
            type Exceeds = #exceeds;
            const KEY_LIMITS: &'static [::heddledb::table::Limit] = &[#limits];
            const LAYOUT: &'static ::heddledb::table::Layout =
                &::heddledb::table::Layout { name: #name, groups: &[#groups], words: #words, slots: #slots };
            const STRUCTURE: ::heddledb::table::Structure = ::heddledb::table::Structure::#structure;
            const SCHEMA: &'static str = {
                const __PARTS: &[::heddledb::table::SchemaPart] = &[#schema];
                const __TEXT: [u8; ::heddledb::table::schema_bytes(__PARTS)] = ::heddledb::table::schema_text(__PARTS);
                ::heddledb::table::schema_str(&__TEXT)
            };
            #[inline(always)]
            fn definition() -> &'static ::heddledb::table::Definition {
                static __DEFINITION: ::heddledb::table::Definition = ::heddledb::table::Definition::new(
                    <#implementor as ::heddledb::table::Relation>::LAYOUT,
                    <#implementor as ::heddledb::table::Relation>::STRUCTURE,
                    <#implementor as ::heddledb::table::Relation>::SCHEMA,
                    #width,
                    #role,
                );
                &__DEFINITION
            }
        }
    }
}

/// The expression for what the relation is for.
fn role(variant: &str, typed: &str, implementor: &syn::Ident) -> TokenStream {
    let (variant, typed) = (format_ident!("{variant}"), format_ident!("{typed}"));
    quote! {
        ::heddledb::table::Role::#variant(&::heddledb::table::#typed::<#implementor>::new())
    }
}

fn group(name: &str, start: &TokenStream, end: &TokenStream, rank: Option<u8>, held: bool) -> TokenStream {
    let rank = rank.map_or_else(|| quote!(::heddledb::table::RANK), |rank| quote!(#rank));
    quote! {
        ::heddledb::table::Group {
            name: #name,
            span: ::heddledb::table::Span { start: #start, end: #end },
            rank: #rank,
            held: #held,
        }
    }
}

fn relation_of_table(table: &Table) -> TokenStream {
    let groups = table.groups.iter().enumerate().map(|(index, name)| {
        let next = index + 1;
        let rank = table.ranks[index].or(table.rank);
        group(name, &quote!(__BOUNDS[#index]), &quote!(__BOUNDS[#next]), rank, table.held)
    });
    let groups = quote!(#(#groups),*);
    let count = table.groups.len();
    let structure = if table.hash { "Hash" } else { "Ordered" };
    relation(&Relation {
        span: key_span(table),
        implementor: &table.ident,
        index_of: None,
        key: key_type(table),
        name: &table.name,
        groups,
        words: quote!(__BOUNDS[#count]),
        structure,
        schema: schema(table),
        role: role("Table", "TypedTable", &table.ident),
        limits: limits(table, &table.name, table.key.iter().copied()),
    })
}

/// The parts of the definition as text, as it is stored with the rows and compared when they are read again:
/// `id: u64, owner: Text<24>, money.balance: i64; key id; ordered`. The compiler knows the types, and puts it together.
fn schema(table: &Table) -> TokenStream {
    let mut parts = TokenStream::new();
    let mut text = String::new();
    for column in &table.columns {
        match &table.groups[column.group] {
            group if group == "main" => {}
            group => text += &format!("{group}."),
        }
        text += &format!("{}: ", column.name);
        let ty = &column.ty;
        parts.extend(schema_part(&text));
        parts.extend(quote! {
            ::heddledb::table::SchemaPart::Type(<#ty as ::heddledb::table::ColumnValue>::TYPE),
        });
        text = ", ".to_owned();
    }
    let structure = if table.hash { "hash" } else { "ordered" };
    parts.extend(schema_part(&format!("; key {}; {structure}", names(table, &table.key))));
    parts
}

fn schema_part(text: &str) -> TokenStream {
    quote!(::heddledb::table::SchemaPart::Text(#text),)
}

fn names(table: &Table, parts: &[Part]) -> String {
    let name = |part: &Part| match part.max {
        None => table.columns[part.ordinal].name.clone(),
        Some(max) => format!("{}(max={max})", table.columns[part.ordinal].name),
    };
    parts.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn table_impl(table: &Table) -> TokenStream {
    let row = &table.ident;
    let indexes = table.indexes.iter().map(|index| &index.ident);
    let indexed = mask(table.indexes.iter().flat_map(|index| &index.columns));
    let key_columns = mask(&table.key);
    let of_indexes =
        table.indexes.iter().map(|index| limits(table, &index_name(table, index), entry_parts(table, index)));
    let limits = limits(table, &table.name, table.key.iter().copied());
    let names = table.columns.iter().map(|column| &column.name);
    let groups = table.columns.iter().map(|column| column.group as u8);
    let append_only = table.append_only;
    let key = tuple(key_span(table), &values(table, &quote!(self), table.key.iter().copied()));
    // Errors of a type are reported at it, each once.
    let as_value = |column: &Column| {
        let ty = &column.ty;
        let span = first_span(ty);
        quote_spanned!(span=> <#ty as ::heddledb::table::ColumnValue>)
    };
    let loads = table.columns.iter().enumerate().map(|(ordinal, column)| {
        let (field, value) = (&column.ident, as_value(column));
        quote!(#field: #value::load(source, const { __OFFSETS[#ordinal] }),)
    });
    let stores = table.columns.iter().enumerate().map(|(ordinal, column)| {
        let (field, value) = (&column.ident, as_value(column));
        quote!(#value::store(&self.#field, target, const { __OFFSETS[#ordinal] });)
    });
    quote! {
        #[automatically_derived]
        impl ::heddledb::table::Table for #row {
            type Indexes = (#(#indexes,)*);
            const INDEXED: u64 = #indexed;
            const KEY_COLUMNS: u64 = #key_columns;
            const COLUMN_NAMES: &'static [&'static str] = &[#(#names),*];
            const COLUMN_GROUPS: &'static [u8] = &[#(#groups),*];
            const APPEND_ONLY: bool = #append_only;
            const LIMITS: &'static [::heddledb::table::Limit] = &[#limits #(#of_indexes)*];
            #[inline(always)]
            fn key(&self) -> Self::Key {
                #key
            }
            #[inline(always)]
            fn load(source: &impl ::heddledb::table::Words) -> Self {
                Self {
                    #(#loads)*
                }
            }
            #[inline(always)]
            fn store(&self, target: &mut impl ::heddledb::table::WordsMut) {
                #(#stores)*
            }
        }
    }
}

/// The unit structs that stand for the indexes.
fn index_types(table: &Table) -> TokenStream {
    let vis = &table.vis;
    let types = table.indexes.iter().map(|index| {
        let ident = &index.ident;
        let kind = if index.unique { "Unique index" } else { "Index" };
        let columns: Vec<_> =
            index.columns.iter().map(|part| format!("`{}`", table.columns[part.ordinal].name)).collect();
        let doc = format!("{kind} of [`{}`] over {}.", table.ident, columns.join(", "));
        quote! {
            #[doc = #doc]
            #[allow(dead_code)]
            #[derive(Clone, Copy, Debug)]
            #vis struct #ident;
        }
    });
    quote!(#(#types)*)
}

fn index_impls(table: &Table, index: &Index) -> TokenStream {
    let Index { ident, unique, columns } = index;
    let (row, span) = (&table.ident, ident.span());
    let unique_word = if *unique { "unique index" } else { "index" };
    let over = schema_part(&format!("{unique_word} over {}; ", names(table, columns)));
    let of = schema(table);
    let schema = quote!(#over #of);
    let parts = entry_parts(table, index);
    let entry_type = tuple(span, &types(table, parts.iter().copied()));
    let entry = tuple(span, &values(table, &quote!(row), parts.iter().copied()));
    let indexed = mask(columns);
    let columns = tuple(span, &types(table, columns.iter().copied()));
    // The row of an index is the encoded primary key.
    let words = words_of(&key_type(table));
    let name = index_name(table, index);
    let relation = relation(&Relation {
        span,
        implementor: ident,
        index_of: Some(row),
        key: entry_type,
        name: &name,
        groups: group("main", &quote!(0), &words, None, false),
        words,
        structure: "Ordered",
        schema,
        role: role("Index", "TypedIndex", ident),
        limits: limits(table, &name, parts),
    });
    quote! {
        #relation
        #[automatically_derived]
        impl ::heddledb::table::Index for #ident {
            type Columns = #columns;
            const UNIQUE: bool = #unique;
            const INDEXED: u64 = #indexed;
            #[inline(always)]
            fn entry(row: &#row) -> Self::Key {
                #entry
            }
        }
    }
}
