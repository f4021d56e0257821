//! What a procedure's signature says.

use proc_macro2::Span;
use quote::{ToTokens, format_ident};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{
    Error, FnArg, GenericArgument, GenericParam, Ident, ItemFn, Lifetime, Pat, PathArguments, Result,
    ReturnType, Safety, Type, TypeParamBound, WherePredicate,
};

/// A signature that satisfies all rules.
pub struct Signature {
    /// The function's name as text.
    pub name: String,
    /// The name of the type that stands for it.
    pub ident: Ident,
    /// The transaction.
    pub tx: Ident,
    /// It only reads.
    pub reads_only: bool,
    /// The types of the other parameters, with the lifetime `'a` in all references.
    pub parameters: Vec<Type>,
    /// What stands in the `Result`.
    pub output: Type,
}

const TRANSACTION: &str = "the first parameter of a procedure is its transaction; write \
                           `tx: &mut impl Transaction`, or `tx: &mut impl ReadTransaction` if it only reads";

/// Reads a function's signature.
pub fn signature(function: &ItemFn) -> Result<Signature> {
    let signature = &function.sig;
    plain(function)?;
    let name = signature.ident.unraw().to_string();
    let ident = format_ident!("{}", camel_case(&name), span = signature.ident.span());
    if ident == name {
        let message = format!(
            "`{name}` is also what the type that stands for the procedure would be called; write the \
             function's name in snake_case"
        );
        return Err(Error::new_spanned(&signature.ident, message));
    }
    let mut inputs = signature.inputs.iter();
    let (tx, bound) = match inputs.next() {
        Some(FnArg::Typed(typed)) => {
            let Pat::Ident(tx) = &*typed.pat else { return Err(Error::new_spanned(&typed.pat, TRANSACTION)) };
            if tx.by_ref.is_some() || tx.mutability.is_some() || tx.subpat.is_some() {
                return Err(Error::new_spanned(tx, TRANSACTION));
            }
            (tx.ident.clone(), bound(function, &typed.ty)?)
        }
        Some(FnArg::Receiver(receiver)) => {
            let message = "a procedure is a free function; write the transaction first, and what is used of \
                           `self` as a parameter after it: `fn transfer(tx: &mut impl Transaction, bank: &Bank)`";
            return Err(Error::new_spanned(receiver, message));
        }
        None => return Err(Error::new(signature.paren_token.span.join(), TRANSACTION)),
    };
    let reads_only = bound == "ReadTransaction";
    let mut parameters = Vec::new();
    for input in inputs {
        let FnArg::Typed(typed) = input else { continue };
        let mut ty = (*typed.ty).clone();
        borrow(&mut ty)?;
        parameters.push(ty);
    }
    Ok(Signature { name, ident, tx, reads_only, parameters, output: output(function)? })
}

/// It is a function like any other.
fn plain(function: &ItemFn) -> Result<()> {
    let signature = &function.sig;
    let word = |found: &dyn ToTokens, why: &str| {
        Err(Error::new_spanned(
            found.to_token_stream(),
            format!("a procedure {why}; remove `{}`", found.to_token_stream()),
        ))
    };
    if let Some(found) = &signature.asyncness {
        return word(found, "is executed on the spot");
    }
    if let Some(found) = &signature.constness {
        return word(found, "accesses a database");
    }
    if let Safety::Unsafe(found) = &signature.safety {
        return word(found, "is called by the engine, which could promise nothing");
    }
    if let Some(found) = &signature.abi {
        return word(found, "is called from Rust");
    }
    Ok(())
}

/// The trait that the transaction's type is bounded by: `Transaction` or `ReadTransaction`.
fn bound(function: &ItemFn, ty: &Type) -> Result<String> {
    let wrong = || Error::new_spanned(ty, TRANSACTION);
    let Type::Reference(reference) = ty else { return Err(wrong()) };
    if reference.mutability.is_none() {
        return Err(wrong());
    }
    let generics = &function.sig.generics;
    let mut bounds: Vec<&TypeParamBound> = Vec::new();
    let mut parameter = None;
    match unwrapped(&reference.elem) {
        Type::ImplTrait(bounded) => bounds.extend(&bounded.bounds),
        Type::Path(path) => {
            let named = |param: &&GenericParam| matches!(param, GenericParam::Type(of) if path.path.is_ident(&of.ident));
            let Some(GenericParam::Type(found)) = generics.params.iter().find(named) else {
                return Err(wrong());
            };
            parameter = Some(&found.ident);
            bounds.extend(&found.bounds);
        }
        _ => return Err(wrong()),
    }
    for param in &generics.params {
        if !matches!((param, parameter), (GenericParam::Type(of), Some(tx)) if of.ident == *tx) {
            let message = match param {
                GenericParam::Lifetime(_) => {
                    "the lifetimes of a procedure's parameters have no names; leave them out"
                }
                _ => {
                    "a procedure has no parameter of type but that of its transaction, because its accesses \
                     are known before it runs; write a procedure for each table or type"
                }
            };
            return Err(Error::new_spanned(param, message));
        }
    }
    for predicate in generics.where_clause.iter().flat_map(|clause| &clause.predicates) {
        match (predicate, parameter) {
            (WherePredicate::Type(of), Some(tx)) if matches!(&of.bounded_ty, Type::Path(path) if path.path.is_ident(tx)) =>
            {
                bounds.extend(&of.bounds);
            }
            _ => {
                return Err(Error::new_spanned(predicate, "a procedure has no such conditions; remove this"));
            }
        }
    }
    let mut found = None;
    for bound in bounds {
        let name = match bound {
            TypeParamBound::Trait(of) if of.maybe.is_none() => {
                of.path.segments.last().map(|last| last.ident.to_string())
            }
            _ => None,
        };
        match name {
            Some(name) if name == "Transaction" || name == "ReadTransaction" => {
                if found.replace(name).is_some() {
                    return Err(Error::new_spanned(bound, "one of these bounds is enough; remove the other"));
                }
            }
            _ => {
                let message = "a procedure runs in any transaction; remove this bound";
                return Err(Error::new_spanned(bound, message));
            }
        }
    }
    found.ok_or_else(wrong)
}

/// The `T` of `Result<T>`.
fn output(function: &ItemFn) -> Result<Type> {
    const RESULT: &str = "a procedure returns a `heddledb::Result`; write `-> Result<()>` if there is nothing \
                          to return";
    let ReturnType::Type(_, ty) = &function.sig.output else {
        return Err(Error::new(function.sig.paren_token.span.close(), RESULT));
    };
    let wrong = || Error::new_spanned(ty, RESULT);
    let Type::Path(path) = unwrapped(ty) else { return Err(wrong()) };
    let Some(last) = path.path.segments.last().filter(|last| last.ident == "Result") else {
        return Err(wrong());
    };
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return Err(wrong()) };
    let Some(GenericArgument::Type(output)) = arguments.args.first() else { return Err(wrong()) };
    let mut lent = Lent::default();
    lent.ty(&mut output.clone());
    match lent.first {
        Some(span) => {
            let message = "what a procedure returns outlives its transaction and its arguments, so it cannot \
                           borrow; return a value of its own";
            Err(Error::new(span, message))
        }
        None => Ok(output.clone()),
    }
}

/// A parameter's type, with the lifetime `'a` where it borrows.
fn borrow(ty: &mut Type) -> Result<()> {
    if let Type::Reference(reference) = unwrapped(ty)
        && reference.mutability.is_some()
    {
        let message = "a procedure cannot change its arguments, because its body may be run again; take a \
                       shared reference or a value, and return what is new";
        return Err(Error::new_spanned(ty, message));
    }
    let mut lent = Lent::default();
    lent.ty(ty);
    match lent.opaque {
        Some(span) => {
            let message = "the parameters of a procedure have types with names, so that they can be kept and \
                           handed over again; write the type";
            Err(Error::new(span, message))
        }
        None => Ok(()),
    }
}

/// Gives all lifetimes without a name the name `'a`.
#[derive(Default)]
struct Lent {
    /// The first of them.
    first: Option<Span>,
    /// The first type without a name.
    opaque: Option<Span>,
}

impl Lent {
    fn lifetime(&mut self, lifetime: &mut Option<Lifetime>, at: Span) {
        if lifetime.as_ref().is_none_or(|lifetime| lifetime.ident == "_") {
            *lifetime = Some(Lifetime::new("'a", at));
            self.first.get_or_insert(at);
        }
    }

    fn ty(&mut self, ty: &mut Type) {
        let at = ty.span();
        match ty {
            Type::Reference(reference) => {
                self.lifetime(&mut reference.lifetime, at);
                self.ty(&mut reference.elem);
            }
            Type::Array(array) => self.ty(&mut array.elem),
            Type::Slice(slice) => self.ty(&mut slice.elem),
            Type::Group(group) => self.ty(&mut group.elem),
            Type::Paren(paren) => self.ty(&mut paren.elem),
            Type::Tuple(tuple) => tuple.elems.iter_mut().for_each(|elem| self.ty(elem)),
            Type::Path(path) => {
                for segment in &mut path.path.segments {
                    let PathArguments::AngleBracketed(arguments) = &mut segment.arguments else { continue };
                    for argument in &mut arguments.args {
                        match argument {
                            GenericArgument::Type(ty) => self.ty(ty),
                            GenericArgument::Lifetime(lifetime) => {
                                let mut named = Some(lifetime.clone());
                                self.lifetime(&mut named, at);
                                *lifetime = named.expect("it was there");
                            }
                            _ => {}
                        }
                    }
                }
            }
            Type::ImplTrait(_) | Type::Infer(_) => {
                self.opaque.get_or_insert(at);
            }
            _ => {}
        }
    }
}

fn unwrapped(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => unwrapped(&group.elem),
        Type::Paren(paren) => unwrapped(&paren.elem),
        ty => ty,
    }
}

/// `find_customer` becomes `FindCustomer`.
pub fn camel_case(name: &str) -> String {
    let mut camel = String::new();
    for word in name.split('_') {
        let mut letters = word.chars();
        camel.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        camel.push_str(letters.as_str());
    }
    camel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types() {
        for (name, expected) in [
            ("transfer", "Transfer"),
            ("find_customer", "FindCustomer"),
            ("_probe", "Probe"),
            ("ycsb_2_d", "Ycsb2D"),
            ("Transfer", "Transfer"),
        ] {
            assert_eq!(camel_case(name), expected);
        }
    }
}
