//! From the derive's input to a [`Table`]: attributes are read and every rule is checked here.

use crate::errors::Errors;
use crate::rank::{GroupOption, Rank};
use proc_macro2::{Group, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Data, DeriveInput, Error, Field, Fields, GenericArgument, Ident, LitInt, LitStr, Meta,
    PathArguments, Result, Token, Type, Visibility, parenthesized, token,
};

/// Limits that follow from the engine's types: sets of 64 columns, of 16 groups, tuples that implement `Key`
/// and `IndexSet`.
const MAX_COLUMNS: usize = 64;
const MAX_GROUPS: usize = 16;
const MAX_KEY_PARTS: usize = 8;
const MAX_INDEXES: usize = 6;

const TABLE_OPTIONS: &str = "`hash`, `append_only`, `held`, `name = \"..\"`, `rank = n`, `index(Name(column, ..))` or `unique(Name(column, ..))`";

/// The most bytes of a value of any length in a key of 64 bytes, of which one tells how long it is.
const MAX_BYTES: usize = 63;

/// A table that satisfies all rules but those of types.
pub struct Table {
    pub ident: Ident,
    pub vis: Visibility,
    pub name: String,
    pub hash: bool,
    pub append_only: bool,
    pub held: bool,
    /// In order of declaration.
    pub columns: Vec<Column>,
    /// Names of the column groups in order of layout; the first is `main`.
    pub groups: Vec<String>,
    /// The rank of each, where it was given one.
    pub ranks: Vec<Option<u8>>,
    /// The rank of those that were given none.
    pub rank: Option<u8>,
    /// The parts of the primary key, in order of declaration.
    pub key: Vec<Part>,
    pub indexes: Vec<Index>,
}

/// A part of a key.
#[derive(Clone, Copy)]
pub struct Part {
    /// The column's.
    pub ordinal: usize,
    /// How many bytes of a value of any length there is room for.
    pub max: Option<usize>,
}

pub struct Column {
    pub ident: Ident,
    pub name: String,
    /// The type, free of `Self`.
    pub ty: TokenStream,
    /// It is one whose length a key has to state, as far as can be seen by its name.
    pub of_any_length: bool,
    pub docs: Vec<Attribute>,
    /// Position in [`Table::groups`].
    pub group: usize,
}

pub struct Index {
    pub ident: Ident,
    pub unique: bool,
    /// The indexed columns.
    pub columns: Vec<Part>,
}

pub fn table(input: &DeriveInput) -> Result<Table> {
    let fields = named_fields(input)?;
    let mut errors = Errors::default();
    if !input.generics.params.is_empty() || input.generics.where_clause.is_some() {
        let generics = match input.generics.params.is_empty() {
            true => input.generics.where_clause.to_token_stream(),
            false => input.generics.params.to_token_stream(),
        };
        errors
            .at(generics, "a table cannot be generic; write one struct for each table, with concrete types");
    }
    let mut table = Table {
        ident: input.ident.clone(),
        vis: input.vis.clone(),
        name: snake_case(&input.ident.unraw().to_string()),
        hash: false,
        append_only: false,
        held: false,
        columns: Vec::new(),
        groups: vec!["main".to_owned()],
        ranks: vec![None],
        rank: None,
        key: Vec::new(),
        indexes: Vec::new(),
    };
    for field in fields {
        table.add_column(field, &mut errors);
    }
    if table.key.is_empty() && !fields.iter().any(|field| field.attrs.iter().any(is_key)) {
        let message =
            format!("`{}` has no key; put `#[key]` on the columns that identify a row", table.ident);
        errors.at(&table.ident, message);
    }
    // Indexes come after all fields, because they name columns.
    let mut indexes = Vec::new();
    let mut name = None;
    for attribute in &input.attrs {
        if attribute.path().is_ident("table") {
            match table_options(attribute) {
                Ok(options) => {
                    for option in options {
                        match option {
                            TableOption::Hash(word) if table.hash => {
                                errors.at(word, "`hash` is given twice; remove one")
                            }
                            TableOption::Hash(_) => table.hash = true,
                            TableOption::AppendOnly(word) if table.append_only => {
                                errors.at(word, "`append_only` is given twice; remove one")
                            }
                            TableOption::AppendOnly(_) => table.append_only = true,
                            TableOption::Held(word) if table.held => {
                                errors.at(word, "`held` is given twice; remove one")
                            }
                            TableOption::Held(_) => table.held = true,
                            TableOption::Rank(rank) if table.rank.is_some() => {
                                errors.at(rank.number, "`rank` is given twice; remove one");
                            }
                            TableOption::Rank(rank) => table.rank = Some(rank.class),
                            TableOption::Name(word, _) if name.is_some() => {
                                errors.at(word, "`name` is given twice; remove one");
                            }
                            TableOption::Name(_, text) => name = Some(text),
                            TableOption::Index(index) => indexes.push(index),
                        }
                    }
                }
                Err(error) => errors.push(error),
            }
        } else if is_key(attribute) || attribute.path().is_ident("group") {
            errors.at(attribute, "this belongs on a field of the struct");
        }
    }
    if let Some(name) = name {
        table.name = name.value();
        if table.name.is_empty() {
            errors.at(name, "the name is empty; write one, or leave `name` out to use the struct's");
        }
    }
    for index in &indexes {
        table.add_index(index, &mut errors);
    }
    errors.finish(table)
}

fn named_fields(input: &DeriveInput) -> Result<&Punctuated<Field, Token![,]>> {
    let found = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => return Ok(&fields.named),
            Fields::Unnamed(_) => "a tuple struct",
            Fields::Unit => "a unit struct",
        },
        Data::Enum(_) => "an enum",
        Data::Union(_) => "a union",
    };
    let name = &input.ident;
    let message = format!(
        "`{name}` is {found}, but a table is a struct with named fields, its columns; \
         write `struct {name} {{ #[key] id: u64, .. }}`"
    );
    Err(Error::new_spanned(name, message))
}

fn is_key(attribute: &Attribute) -> bool {
    attribute.path().is_ident("key")
}

impl Table {
    fn add_column(&mut self, field: &Field, errors: &mut Errors) {
        let Some(ident) = field.ident.clone() else { return };
        let name = ident.unraw().to_string();
        let ordinal = self.columns.len();
        if ordinal == MAX_COLUMNS {
            let message = format!(
                "a table has at most {MAX_COLUMNS} columns, and this is one more; \
                 move some to a second table with the same key"
            );
            errors.at(&ident, message);
        }

        let (mut key, mut group) = (None, None);
        for attribute in &field.attrs {
            if is_key(attribute) {
                let max = key_max(attribute).unwrap_or_else(|error| {
                    errors.push(error);
                    None
                });
                if key.replace((attribute, max)).is_some() {
                    errors.at(attribute, format!("column `{name}` has `#[key]` already; remove one"));
                }
            } else if attribute.path().is_ident("group") {
                match GroupOption::of(attribute) {
                    Ok(found) if group.is_none() => group = Some((attribute, found)),
                    Ok(_) => errors.at(attribute, format!("column `{name}` has a group already; remove one")),
                    Err(error) => errors.push(error),
                }
            } else if attribute.path().is_ident("table") {
                errors.at(
                    attribute,
                    "`#[table(..)]` belongs on the struct; a field takes `#[key]` or `#[group(name)]`",
                );
            }
        }
        if let Some((attribute, max)) = key {
            self.key.push(Part { ordinal, max });
            if max.is_none() && attribute.meta.require_path_only().is_ok() && is_of_any_length(&field.ty) {
                let ty = field.ty.to_token_stream().to_string().replace(' ', "");
                let message = format!(
                    "`{ty}` is of any length, and a key has room for so many bytes; state how many, as by `#[key(max = 40)]`"
                );
                errors.at(&field.ty, message);
            }
            if self.key.len() == MAX_KEY_PARTS + 1 {
                errors.at(&ident, format!("a key has at most {MAX_KEY_PARTS} parts, and this is one more"));
            }
        }
        let group = match (key, group) {
            (Some(_), Some((attribute, _))) => {
                let message = format!("key column `{name}` is always in group `main`; remove `#[group(..)]`");
                errors.at(attribute, message);
                0
            }
            (None, Some((_, group))) => self.group(&group, errors),
            (_, None) => 0,
        };

        self.columns.push(Column {
            ident,
            name,
            of_any_length: is_of_any_length(&field.ty),
            ty: without_self(field.ty.to_token_stream(), &self.ident),
            docs: field.attrs.iter().filter(|attribute| attribute.path().is_ident("doc")).cloned().collect(),
            group,
        });
    }

    /// The position of the group, added if it is new.
    fn group(&mut self, GroupOption { ident, rank }: &GroupOption, errors: &mut Errors) -> usize {
        let group = self.group_of(ident, errors);
        if let (Some(rank), Some(of_group)) = (rank, self.ranks.get_mut(group))
            && of_group.replace(rank.class).is_some_and(|other| other != rank.class)
        {
            errors.at(&rank.number, format!("group `{ident}` has another rank already; give it one, once"));
        }
        group
    }

    fn group_of(&mut self, ident: &Ident, errors: &mut Errors) -> usize {
        let name = ident.unraw().to_string();
        if let Some(group) = self.groups.iter().position(|group| *group == name) {
            return group;
        }
        if self.groups.len() == MAX_GROUPS {
            let message = format!(
                "a table has at most {MAX_GROUPS} column groups, `main` among them, and `{name}` is one more; \
                 put the column in a group that it changes together with"
            );
            errors.at(ident, message);
        }
        self.groups.push(name);
        self.ranks.push(None);
        self.groups.len() - 1
    }

    fn add_index(&mut self, index: &IndexOption, errors: &mut Errors) {
        let name = &index.ident;
        if self.indexes.iter().any(|other| other.ident == *name) {
            errors.at(name, format!("index `{name}` is declared already; give this one another name"));
            return;
        }
        if self.indexes.len() == MAX_INDEXES {
            errors.at(name, format!("a table has at most {MAX_INDEXES} indexes, and `{name}` is one more"));
        }
        let mut columns: Vec<Part> = Vec::new();
        for IndexColumn { ident: column, max } in &index.columns {
            let text = column.unraw().to_string();
            let is_stated = max.is_some();
            let max = max.as_ref().and_then(|max| max_bytes(max).map_err(|error| errors.push(error)).ok());
            match self.columns.iter().position(|other| other.name == text) {
                None => errors.at(column, self.unknown_column(&text)),
                Some(ordinal) if columns.iter().any(|part| part.ordinal == ordinal) => {
                    errors.at(column, format!("index `{name}` has column `{text}` already; remove one"));
                }
                Some(ordinal) => {
                    // A part of the primary key may be as long as there.
                    let of_key = self.key.iter().find(|part| part.ordinal == ordinal);
                    let max = max.or(of_key.and_then(|part| part.max));
                    if !is_stated && max.is_none() && of_key.is_none() && self.columns[ordinal].of_any_length
                    {
                        let message = format!(
                            "column `{text}` is of any length, and an index has room for so many bytes; state how many, as by \
                             `{name}({text}(max = 40))`"
                        );
                        errors.at(column, message);
                    }
                    columns.push(Part { ordinal, max });
                }
            }
        }
        let listed = index.columns.len();
        let is_listed = |part: &&Part| columns.iter().any(|listed| listed.ordinal == part.ordinal);
        let key = self.key.iter().filter(|part| !is_listed(part)).count();
        if listed > MAX_KEY_PARTS {
            let message = format!(
                "an index has at most {MAX_KEY_PARTS} columns, and `{name}` has {listed}; list fewer"
            );
            errors.at(name, message);
        } else if !index.unique && listed + key > MAX_KEY_PARTS {
            let message = format!(
                "the key of index `{name}` would have {} parts, {listed} columns and then {key} of the primary key, \
                 but at most {MAX_KEY_PARTS} fit; list fewer columns, or write `unique({name}(..))` if no two rows \
                 share them",
                listed + key
            );
            errors.at(name, message);
        }
        self.indexes.push(Index { ident: name.clone(), unique: index.unique, columns });
    }

    fn unknown_column(&self, name: &str) -> String {
        let table = &self.ident;
        let nearest = self.columns.iter().map(|column| (edits(name, &column.name), &column.name)).min();
        match nearest {
            Some((edits, near)) if edits <= near.len().max(3) / 2 => {
                format!("`{table}` has no column `{name}`; did you mean `{near}`?")
            }
            _ => {
                let names: Vec<_> = self.columns.iter().map(|column| format!("`{}`", column.name)).collect();
                format!("`{table}` has no column `{name}`; it has {}", names.join(", "))
            }
        }
    }
}

/// The bytes in `#[key(max = 40)]`.
fn key_max(attribute: &Attribute) -> Result<Option<usize>> {
    let Meta::List(list) = &attribute.meta else {
        attribute.meta.require_path_only()?;
        return Ok(None);
    };
    let usage = |_| {
        Error::new_spanned(
            attribute,
            "`#[key]` takes no arguments but `max`, the bytes of a `String` or a `Vec<u8>`, as in `#[key(max = 40)]`; key \
             columns are in order of declaration",
        )
    };
    let max = list.parse_args_with(parse_max).map_err(usage)?;
    max_bytes(&max).map(Some)
}

/// `max = 40`.
fn parse_max(input: ParseStream<'_>) -> Result<LitInt> {
    let word = input.parse::<Ident>()?;
    if word != "max" {
        return Err(Error::new_spanned(&word, "write `max = 40`"));
    }
    input.parse::<Token![=]>()?;
    input.parse()
}

fn max_bytes(max: &LitInt) -> Result<usize> {
    match max.base10_parse() {
        Ok(bytes @ 1..=MAX_BYTES) => Ok(bytes),
        _ => Err(Error::new_spanned(
            max,
            format!(
                "a key has at most 64 bytes, of which one tells how long the value is; state 1 to {MAX_BYTES}"
            ),
        )),
    }
}

/// Whether a type is `String` or `Vec<u8>`, or `Option` or `Reverse` of one, by its name.
fn is_of_any_length(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    let Some(last) = path.path.segments.last() else { return false };
    match last.ident.to_string().as_str() {
        "String" | "Vec" => true,
        "Option" | "Reverse" => match &last.arguments {
            PathArguments::AngleBracketed(list) => list
                .args
                .iter()
                .any(|inner| matches!(inner, GenericArgument::Type(ty) if is_of_any_length(ty))),
            _ => false,
        },
        _ => false,
    }
}

/// One word in `#[table(..)]`.
enum TableOption {
    Hash(Ident),
    AppendOnly(Ident),
    Held(Ident),
    Name(Ident, LitStr),
    Rank(Rank),
    Index(IndexOption),
}

/// `index(Name(column, ..))` or `unique(Name(column, ..))`.
struct IndexOption {
    unique: bool,
    ident: Ident,
    columns: Vec<IndexColumn>,
}

/// `column` or `column(max = 40)`.
struct IndexColumn {
    ident: Ident,
    max: Option<LitInt>,
}

impl Parse for IndexColumn {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let ident = input.parse::<Ident>()?;
        if !input.peek(token::Paren) {
            return Ok(Self { ident, max: None });
        }
        let inner;
        parenthesized!(inner in input);
        let usage = |_| {
            Error::new_spanned(
                &ident,
                format!("write `{ident}`, or `{ident}(max = 40)` for a column of any length"),
            )
        };
        let max = parse_max(&inner).map_err(usage)?;
        if !inner.is_empty() {
            return Err(usage(inner.error("")));
        }
        Ok(Self { ident, max: Some(max) })
    }
}

fn table_options(attribute: &Attribute) -> Result<Punctuated<TableOption, Token![,]>> {
    if attribute.meta.require_list().is_err() {
        return Err(Error::new_spanned(attribute, format!("write `#[table(..)]` with {TABLE_OPTIONS}")));
    }
    attribute.parse_args_with(Punctuated::parse_terminated)
}

impl Parse for TableOption {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let unknown = |found| format!("{found}; write {TABLE_OPTIONS}");
        if !input.peek(Ident::peek_any) {
            return Err(input.error(unknown("this is no option of a table".to_owned())));
        }
        let word = Ident::parse_any(input)?;
        match word.to_string().as_str() {
            "hash" => Ok(Self::Hash(word)),
            "append_only" => Ok(Self::AppendOnly(word)),
            "held" => Ok(Self::Held(word)),
            "name" => {
                let text = input.parse::<Token![=]>().and_then(|_| input.parse());
                let text = text.map_err(|error| Error::new(error.span(), "write `name = \"..\"`"))?;
                Ok(Self::Name(word, text))
            }
            "rank" => Ok(Self::Rank(Rank::after_the_word(input)?)),
            "index" | "unique" => Ok(Self::Index(IndexOption::parse(&word, input)?)),
            other => Err(Error::new_spanned(&word, unknown(format!("`{other}` is no option of a table")))),
        }
    }
}

impl IndexOption {
    fn parse(word: &Ident, input: ParseStream<'_>) -> Result<Self> {
        let usage = |tokens: &dyn ToTokens, problem: &str| {
            Err(Error::new_spanned(
                tokens.to_token_stream(),
                format!("{problem}; write `{word}(Name(column, ..))`"),
            ))
        };
        if !input.peek(token::Paren) {
            return usage(word, "the index has no name");
        }
        let inner;
        parenthesized!(inner in input);
        let Ok(ident) = inner.parse::<Ident>() else {
            return usage(word, "the index has no name");
        };
        if !inner.peek(token::Paren) {
            return usage(&ident, &format!("index `{ident}` has no columns"));
        }
        let list;
        parenthesized!(list in inner);
        let columns = Punctuated::<IndexColumn, Token![,]>::parse_terminated(&list)?;
        if columns.is_empty() {
            return usage(&ident, &format!("index `{ident}` has no columns"));
        }
        if !inner.is_empty() {
            let rest: TokenStream = inner.parse()?;
            return usage(&rest, &format!("`{word}(..)` declares one index; repeat it for the next"));
        }
        Ok(Self { unique: word == "unique", ident, columns: columns.into_iter().collect() })
    }
}

/// Replaces `Self`, which means another type, or none, where the generated code repeats a
/// column's type.
fn without_self(tokens: TokenStream, name: &Ident) -> TokenStream {
    tokens
        .into_iter()
        .map(|tree| match tree {
            TokenTree::Ident(ident) if ident == "Self" => {
                let mut name = name.clone();
                name.set_span(ident.span());
                name.into()
            }
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), without_self(group.stream(), name));
                inner.set_span(group.span());
                inner.into()
            }
            other => other,
        })
        .collect()
}

/// `HttpLog` and `HTTPLog` both become `http_log`.
pub fn snake_case(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut snake = String::new();
    for (index, letter) in letters.iter().enumerate() {
        let after_small = index > 0 && !letters[index - 1].is_uppercase() && letters[index - 1] != '_';
        let before_small = letters.get(index + 1).is_some_and(|next| next.is_lowercase());
        let ends_capitals = index > 0 && letters[index - 1].is_uppercase() && before_small;
        if letter.is_uppercase() && (after_small || ends_capitals) {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

/// The Levenshtein distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables() {
        for (name, expected) in [
            ("Customer", "customer"),
            ("OrderLine", "order_line"),
            ("HTTPLog", "http_log"),
            ("Table2", "table2"),
            ("Usertable", "usertable"),
            ("New_Order", "new_order"),
            ("ÉtatCivil", "état_civil"),
        ] {
            assert_eq!(snake_case(name), expected);
        }
    }

    #[test]
    fn distances() {
        for (a, b, expected) in [("", "abc", 3), ("emial", "email", 2), ("last", "last", 0), ("a", "", 1)] {
            assert_eq!(edits(a, b), expected, "{a} {b}");
        }
    }
}
