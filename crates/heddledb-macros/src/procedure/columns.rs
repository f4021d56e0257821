//! Which columns, tables and indexes an expression names, as far as that can be seen.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use std::collections::HashMap;
use syn::{Expr, ExprMethodCall, GenericArgument, Pat, Path, PathArguments, Type};

/// What is known of a local variable.
#[derive(Clone)]
pub enum Known {
    /// It is columns: the same without variables.
    Columns(TokenStream),
    /// It is a row of this table.
    Row(TokenStream),
}

/// Local variables by name.
pub type Locals = HashMap<String, Known>;

/// What a local variable that is initialized by `expr` is known to be.
pub fn known(expr: &Expr, locals: &Locals) -> Option<Known> {
    columns(expr, locals).map(Known::Columns).or_else(|| row(expr, locals).map(Known::Row))
}

/// The columns that an expression stands for, whatever the variables in it are: an element of an array of
/// columns may be any of them.
pub fn columns(expr: &Expr, locals: &Locals) -> Option<TokenStream> {
    match expr {
        Expr::Paren(paren) => columns(&paren.expr, locals),
        Expr::Group(group) => columns(&group.expr, locals),
        Expr::Path(path) => match path.path.get_ident() {
            None => Some(path.to_token_stream()),
            Some(ident) => match locals.get(&ident.to_string()) {
                Some(Known::Columns(columns)) => Some(columns.clone()),
                None if is_constant(&ident.to_string()) => Some(path.to_token_stream()),
                _ => None,
            },
        },
        Expr::Tuple(tuple) => {
            let elems: Option<Vec<_>> = tuple.elems.iter().map(|elem| columns(elem, locals)).collect();
            let elems = elems?;
            Some(quote!((#(#elems,)*)))
        }
        Expr::Array(array) => {
            let elems: Option<Vec<_>> = array.elems.iter().map(|elem| columns(elem, locals)).collect();
            let elems = elems?;
            Some(quote!([#(#elems,)*]))
        }
        Expr::Index(index) => columns(&index.expr, locals),
        Expr::Call(call) => match &*call.func {
            // `Row::<T>::new()`
            Expr::Path(func) if call.args.is_empty() && argument_of(&func.path, "Row").is_some() => {
                Some(call.to_token_stream())
            }
            _ => None,
        },
        _ => None,
    }
}

/// `HOT`, which is a constant and no variable.
fn is_constant(name: &str) -> bool {
    name.chars().any(char::is_uppercase) && !name.chars().any(char::is_lowercase)
}

/// The table of a row, if it is a struct literal or a variable that was one.
pub fn row(expr: &Expr, locals: &Locals) -> Option<TokenStream> {
    match expr {
        Expr::Paren(paren) => row(&paren.expr, locals),
        Expr::Group(group) => row(&group.expr, locals),
        Expr::Struct(literal) if literal.qself.is_none() => Some(literal.path.to_token_stream()),
        Expr::Path(path) => match locals.get(&path.path.get_ident()?.to_string())? {
            Known::Row(table) => Some(table.clone()),
            Known::Columns(_) => None,
        },
        _ => None,
    }
}

/// The first type in a call's turbofish.
pub fn turbofish(call: &ExprMethodCall) -> Option<TokenStream> {
    match call.turbofish.as_ref()?.args.first()? {
        GenericArgument::Type(Type::Infer(_)) => None,
        GenericArgument::Type(ty) => Some(ty.to_token_stream()),
        _ => None,
    }
}

/// The `T` of `Scan::<T>::all().reverse()`.
pub fn scanned(expr: &Expr) -> Option<TokenStream> {
    match expr {
        Expr::Paren(paren) => scanned(&paren.expr),
        Expr::Group(group) => scanned(&group.expr),
        Expr::MethodCall(call) => scanned(&call.receiver),
        Expr::Call(call) => match &*call.func {
            Expr::Path(func) => argument_of(&func.path, "Scan"),
            _ => None,
        },
        _ => None,
    }
}

/// The type of a closure's first parameter, if it is written down; what it refers to, if it is a reference.
pub fn parameter(expr: &Expr) -> Option<TokenStream> {
    let Expr::Closure(closure) = expr else { return None };
    let Pat::Type(typed) = closure.inputs.first()? else { return None };
    match &*typed.ty {
        Type::Reference(reference) => Some(reference.elem.to_token_stream()),
        ty => Some(ty.to_token_stream()),
    }
}

/// The type argument of a path's segment of that name.
fn argument_of(path: &Path, name: &str) -> Option<TokenStream> {
    let segment = path.segments.iter().find(|segment| segment.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(Type::Infer(_)) => None,
        GenericArgument::Type(ty) => Some(ty.to_token_stream()),
        _ => None,
    }
}
