//! Ranks of tables and column groups: `rank = n`, and `#[group(name, rank = n)]`.

use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Error, Ident, LitInt, Meta, Result, Token};

/// A rank, and the number as it was written.
pub struct Rank {
    pub class: u8,
    pub number: LitInt,
}

impl Rank {
    /// What follows the word `rank`.
    pub fn after_the_word(input: ParseStream<'_>) -> Result<Self> {
        let number = input.parse::<Token![=]>().and_then(|_| input.parse::<LitInt>());
        let number =
            number.map_err(|error| Error::new(error.span(), "write `rank = n`, like `rank = 10`"))?;
        match number.base10_parse() {
            Ok(class) => Ok(Self { class, number }),
            Err(_) => Err(Error::new_spanned(
                &number,
                "a rank is a number from 0, what is queued for first, to 255; without one it is 128",
            )),
        }
    }
}

/// What is in `#[group(..)]`.
pub struct GroupOption {
    pub ident: Ident,
    pub rank: Option<Rank>,
}

impl GroupOption {
    pub fn of(attribute: &Attribute) -> Result<Self> {
        let usage = "the group has no name; write `#[group(name)]`, like `#[group(hot)]`";
        match &attribute.meta {
            Meta::List(list) if syn::parse2::<NamedFirst>(list.tokens.clone()).is_ok() => {
                syn::parse2(list.tokens.clone())
            }
            _ => Err(Error::new_spanned(attribute, usage)),
        }
    }
}

impl Parse for GroupOption {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let ident = input.parse()?;
        let mut rank = None;
        if input.parse::<Option<Token![,]>>()?.is_some() && !input.is_empty() {
            let word: Ident = input.parse()?;
            if word != "rank" {
                let message = format!("`{word}` is no option of a group; write `rank = n`");
                return Err(Error::new_spanned(&word, message));
            }
            rank = Some(Rank::after_the_word(input)?);
        }
        if !input.is_empty() {
            return Err(input.error("a group takes a name and a rank, as in `#[group(hot, rank = 200)]`"));
        }
        Ok(Self { ident, rank })
    }
}

/// Begins with a name, whatever follows.
struct NamedFirst;

impl Parse for NamedFirst {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        input.parse::<Ident>()?;
        input.parse::<proc_macro2::TokenStream>()?;
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    fn told(attribute: &Attribute) -> String {
        match GroupOption::of(attribute) {
            Ok(GroupOption { ident, rank }) => {
                format!("{ident} {}", rank.map_or("none".to_owned(), |rank| rank.class.to_string()))
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn bad_ranks_are_told() {
        for (attribute, expected) in [
            (parse_quote!(#[group(hot)]), "hot none"),
            (parse_quote!(#[group(hot, rank = 255)]), "hot 255"),
            (parse_quote!(#[group(hot, rank = 256)]), "a rank is a number from 0"),
            (parse_quote!(#[group(hot, rank)]), "write `rank = n`"),
            (parse_quote!(#[group(hot, rank = "low")]), "write `rank = n`"),
            (parse_quote!(#[group(hot, first)]), "`first` is no option of a group"),
            (parse_quote!(#[group]), "the group has no name"),
            (parse_quote!(#[group("hot")]), "the group has no name"),
        ] {
            let told = told(&attribute);
            assert!(told.starts_with(expected), "{told}");
        }
    }
}
