//! What can be told from syntax alone: marks, names, and what an expression may do.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::format_ident;
use std::ops::Range;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Ident, Pat, Token, parse_quote};

#[derive(Default)]
pub(super) struct Marks {
    pub(super) piece: Option<Attribute>,
    pub(super) causal: Option<Attribute>,
    pub(super) no_abort: Option<Attribute>,
    pub(super) later: Option<Attribute>,
    pub(super) deferred: Option<Attribute>,
}

/// Takes the marks out of a statement's attributes.
pub(super) fn take_marks(attributes: &mut Vec<Attribute>) -> Marks {
    let mut marks = Marks::default();
    attributes.retain(|attribute| {
        let Marks { piece, causal, no_abort, later, deferred } = &mut marks;
        let known = [
            ("piece", piece),
            ("causal", causal),
            ("no_abort", no_abort),
            ("later", later),
            ("deferred", deferred),
        ];
        for (name, mark) in known {
            if attribute.path().is_ident(name) {
                *mark = Some(attribute.clone());
                return false;
            }
        }
        true
    });
    marks
}

/// The attributes of a statement that is an expression: they belong to what stands first in it.
pub(super) fn attributes(expr: &mut Expr) -> Option<&mut Vec<Attribute>> {
    macro_rules! attributes_of {
        ($($variant:ident)*) => {
            match expr {
                Expr::Assign(assign) => attributes(&mut assign.left),
                Expr::Binary(binary) => attributes(&mut binary.left),
                Expr::Cast(cast) => attributes(&mut cast.expr),
                $(Expr::$variant(expr) => Some(&mut expr.attrs),)*
                _ => None,
            }
        };
    }
    attributes_of! {
        Array Async Await Block Break Call Closure Const
        Continue Field ForLoop Group If Index Infer Let Lit Loop Macro
        Match MethodCall Paren Path Range RawAddr Reference Repeat Return Struct Try
        TryBlock Tuple Unary Unsafe While Yield
    }
}

/// Moves arguments in front of a call: what they are, and the names that stand for them in it. Closures stay
/// where their parameters' types are known.
pub(super) fn before_the_call(
    args: &mut Punctuated<Expr, Token![,]>,
    range: Range<usize>,
) -> (Vec<Expr>, Vec<Ident>) {
    let mut moved = (Vec::new(), Vec::new());
    for (at, arg) in args.iter_mut().enumerate() {
        if range.contains(&at) && !matches!(arg, Expr::Closure(_)) {
            let name = format_ident!("argument_{at}", span = Span::mixed_site());
            moved.0.push(std::mem::replace(arg, parse_quote!(#name)));
            moved.1.push(name);
        }
    }
    moved
}

pub(super) fn unwrapped(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(paren) => unwrapped(&paren.expr),
        Expr::Group(group) => unwrapped(&group.expr),
        expr => expr,
    }
}

/// The variable that a pattern binds to all of a value that does not change.
pub(super) fn bound(pattern: &Pat) -> Option<&Ident> {
    match pattern {
        Pat::Ident(of) if of.by_ref.is_none() && of.mutability.is_none() && of.subpat.is_none() => {
            Some(&of.ident)
        }
        Pat::Type(typed) => bound(&typed.pat),
        Pat::Paren(paren) => bound(&paren.pat),
        _ => None,
    }
}

/// Whether a path's segment names a type, by its first letter.
pub(super) fn is_type(name: &str) -> bool {
    name.starts_with(char::is_uppercase)
}

/// All identifiers.
pub(super) fn idents(tokens: TokenStream) -> Vec<Ident> {
    let mut found = Vec::new();
    for tree in tokens {
        match tree {
            TokenTree::Ident(ident) => found.push(ident),
            TokenTree::Group(group) => found.extend(idents(group.stream())),
            _ => {}
        }
    }
    found
}

/// The first place where a variable is mentioned. A field of the same name is none.
pub(super) fn mention(tokens: TokenStream, name: &Ident) -> Option<Ident> {
    let mut after_dot = false;
    for tree in tokens {
        let found = match &tree {
            TokenTree::Ident(ident) if !after_dot && ident == name => Some(ident.clone()),
            TokenTree::Group(group) => mention(group.stream(), name),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
        after_dot = matches!(&tree, TokenTree::Punct(punct) if punct.as_char() == '.');
    }
    None
}

/// Whether an expression may leave the function: by `?`, by a word, or by a macro.
pub(super) fn may_leave(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|tree| match tree {
        TokenTree::Ident(ident) => ["return", "break", "continue"].iter().any(|word| ident == word),
        TokenTree::Punct(punct) => matches!(punct.as_char(), '?' | '!'),
        TokenTree::Group(group) => may_leave(group.stream()),
        TokenTree::Literal(_) => false,
    })
}
