//! Whether calling it again does the same: what a body must not use whose calls are logged, and the fingerprint by which another
//! body is told.

use crate::errors::Errors;
use proc_macro2::{Delimiter, Ident, Punct, Spacing, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Error, ItemFn};

/// What is told of a function's text.
#[derive(Clone, Copy, Default)]
pub struct Text {
    pub fingerprint: u64,
    /// See [`is_repeatable`].
    pub is_repeatable: bool,
}

/// Types whose values differ from one execution to the next, wherever they stand.
const TYPES: [(&str, &str); 6] = [
    ("Instant", "takes a clock"),
    ("SystemTime", "takes a clock"),
    ("HashMap", "goes through its keys in another order each time"),
    ("HashSet", "goes through its keys in another order each time"),
    ("RandomState", "is random"),
    ("ThreadRng", "is random"),
];

/// Modules with functions of that kind, where a path leads through them.
const MODULES: [(&str, &str); 6] = [
    ("rand", "is random"),
    ("fastrand", "is random"),
    ("getrandom", "is random"),
    ("thread", "depends on threads"),
    ("env", "depends on the environment"),
    ("fs", "depends on files"),
];

/// Refuses in the body of a versioned procedure what makes it do something else when it is called again.
pub fn refuse_unrepeatable(function: &ItemFn, errors: &mut Errors) {
    look(function.block.to_token_stream(), &mut |ident, why| {
        let instead = match &ident.to_string()[..] {
            "HashMap" => "take a `BTreeMap`",
            "HashSet" => "take a `BTreeSet`",
            _ => "make what is needed of it an argument",
        };
        let message = format!(
            "a log says of a procedure with a version that it was called, and calls it again: `{ident}` {why}; {instead}, or leave the \
             version out"
        );
        errors.push(Error::new(ident.span(), message));
    });
}

/// Whether nothing of that kind is in the body.
pub fn is_repeatable(function: &ItemFn) -> bool {
    let mut is_repeatable = true;
    look(function.block.to_token_stream(), &mut |_, _| is_repeatable = false);
    is_repeatable
}

/// Shows what is of that kind, and why.
fn look(tokens: TokenStream, found: &mut dyn FnMut(&Ident, &'static str)) {
    let mut tokens = tokens.into_iter().peekable();
    let mut in_lifetime = false;
    while let Some(token) = tokens.next() {
        let is_lifetime = std::mem::take(&mut in_lifetime);
        match token {
            TokenTree::Group(group) => look(group.stream(), found),
            TokenTree::Ident(ident) if !is_lifetime => {
                let is_path = |punct: &Punct| punct.as_char() == ':' && punct.spacing() == Spacing::Joint;
                let leads_on = matches!(tokens.peek(), Some(TokenTree::Punct(punct)) if is_path(punct));
                if let Some(why) = why(&ident, leads_on) {
                    found(&ident, why);
                }
            }
            TokenTree::Punct(punct) => in_lifetime = punct.as_char() == '\'',
            TokenTree::Ident(_) | TokenTree::Literal(_) => {}
        }
    }
}

fn why(ident: &Ident, leads_on: bool) -> Option<&'static str> {
    let name = ident.to_string();
    let find =
        |among: &[(&str, &'static str)]| among.iter().find(|known| known.0 == name).map(|known| known.1);
    match &name[..] {
        "static" => Some("is the same for all calls, whatever the database holds"),
        _ => find(&TYPES).or_else(|| if leads_on { find(&MODULES) } else { None }),
    }
}

/// A hash of a function's text, without comments, white space and what is said about it.
pub fn fingerprint(function: &ItemFn) -> u64 {
    let mut hash = Hash(0xcbf2_9ce4_8422_2325);
    hash.tokens(function.sig.to_token_stream());
    hash.tokens(function.block.to_token_stream());
    hash.0
}

/// FNV-1a: it must be the same for every compiler.
struct Hash(u64);

impl Hash {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => {
                    let bounds: [&[u8]; 2] = match group.delimiter() {
                        Delimiter::Parenthesis => [b"(", b")"],
                        Delimiter::Brace => [b"{", b"}"],
                        Delimiter::Bracket => [b"[", b"]"],
                        // Invisible, and there or not as the compiler likes.
                        Delimiter::None => [b"", b""],
                    };
                    self.bytes(bounds[0]);
                    self.tokens(group.stream());
                    self.bytes(bounds[1]);
                }
                TokenTree::Punct(punct) => self.bytes(punct.as_char().to_string().as_bytes()),
                TokenTree::Ident(ident) => self.bytes(format!(" {ident} ").as_bytes()),
                TokenTree::Literal(literal) => self.bytes(format!(" {literal} ").as_bytes()),
            }
        }
    }
}
