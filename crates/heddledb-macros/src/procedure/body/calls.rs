//! Calls with the transaction: operations, which get sites, and procedures, which have sites of their own.

use super::super::columns;
use super::super::operation::{self, Needs, Operation};
use super::super::signature::camel_case;
use super::syntax::{before_the_call, is_type, may_leave, unwrapped};
use super::{Step, Walk};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Expr, ExprCall, ExprMethodCall, Ident, Path, PathArguments, parse_quote, parse_quote_spanned};

impl Walk<'_> {
    /// A call of a method of the transaction.
    pub(super) fn access(&mut self, call: &mut ExprMethodCall) -> Option<Expr> {
        let name = call.method.unraw().to_string();
        if name == "prefetch" {
            call.args.iter_mut().for_each(|arg| self.expr(arg));
            return None;
        }
        if name == "savepoint" {
            let message = "a procedure can have no savepoint, since others may have seen a piece of it that would be \
                           taken back; look before you write, or use a closure and `Session::run`";
            self.errors.at(&call.method, message.to_owned());
            return None;
        }
        // What an argument accesses comes before.
        let mut last = 0;
        for (at, arg) in call.args.iter_mut().enumerate() {
            let present = self.place_mark();
            self.expr(arg);
            if self.place_mark() != present {
                last = at + 1;
            }
        }
        let Some(operation) = operation::named(&name) else {
            let message = format!(
                "`{name}` is no operation of a transaction; there are {}",
                operation::names(!self.reads_only)
            );
            self.errors.at(&call.method, message);
            return None;
        };
        if self.reads_only && operation.writes {
            let tx = self.tx;
            let message = format!(
                "`{name}` writes, and this procedure only reads; write `{tx}: &mut impl Transaction`"
            );
            self.errors.at(&call.method, message);
        }
        if self.deferred && name != "add" {
            let message =
                format!("only an `add` can be deferred, and `{name}` is none; remove `#[deferred]`");
            self.errors.at(&call.method, message);
        }
        let declared = self.declared(operation, call);
        let (site, tx) = (self.place.number(), &call.receiver);
        self.place.own += 1;
        self.steps.push(Step::Access { declared: declared?, causal: self.causal, deferred: self.deferred });
        call.receiver = parse_quote_spanned!(tx.span()=> #tx.at(#site));
        (last > 0).then(|| {
            let attributes = std::mem::take(&mut call.attrs);
            let (values, names) = before_the_call(&mut call.args, 0..last);
            parse_quote!(#(#attributes)* match (#(#values,)*) { (#(#names,)*) => #call })
        })
    }

    /// How far the numbering is.
    fn place_mark(&self) -> (u16, usize) {
        (self.place.own, self.place.called.len())
    }

    /// What the declaration is told of an access; `None` after an error, or if arguments are missing.
    fn declared(&mut self, operation: &Operation, call: &ExprMethodCall) -> Option<TokenStream> {
        let Operation { name, declares, needs, .. } = operation;
        let method = Ident::new(declares, call.method.span());
        let typed =
            |seen: Option<TokenStream>| seen.map(|ty| quote_spanned!(call.method.span()=> #method::<#ty>()));
        let closure = || call.args.iter().find_map(columns::parameter);
        let scan = || call.args.first().and_then(columns::scanned);
        let turbofish = columns::turbofish(call);
        let (seen, message) = match needs {
            Needs::Columns(at) => {
                let arg = call.args.get(*at)?;
                return match columns::columns(arg, &self.locals) {
                    Some(columns) => Some(quote_spanned!(arg.span()=> #method(#columns))),
                    None => {
                        let message = "which columns these are cannot be seen; write a column with its table, \
                                       `Table::column`, a tuple of such, an element of an array, \
                                       `Table::COLUMNS[..]`, or a variable that `let` binds to one of these \
                                       earlier in the body";
                        self.errors.at(arg, message);
                        None
                    }
                };
            }
            Needs::Table => (turbofish, format!("write it, `{name}::<Table>(..)`")),
            Needs::TableOrChange => (
                turbofish.or_else(closure),
                format!(
                    "write it, `{name}::<Table, _>(..)`, or the closure's parameter, `|row: &mut Table|`"
                ),
            ),
            Needs::TableOrScan => (
                turbofish.or_else(scan),
                "write `Scan::<Table>::..`, or `Scan::<Index>::..`, in the argument".to_owned(),
            ),
            Needs::TableOrRow => (
                turbofish.or_else(|| columns::row(call.args.first()?, &self.locals)),
                format!("write it, `{name}::<Table>(..)`, or the row as a struct, `{name}(Table {{ .. }})`"),
            ),
            Needs::Index => (turbofish, format!("write it, `{name}::<Index>(..)`")),
            Needs::IndexOrScan => {
                (turbofish.or_else(scan), "write `Scan::<Index>::..` in the argument".to_owned())
            }
        };
        if seen.is_none() {
            let what = if matches!(needs, Needs::Index | Needs::IndexOrScan) { "index" } else { "table" };
            self.errors.at(&call.method, format!("which {what} this is cannot be seen; {message}"));
        }
        typed(seen)
    }

    /// A call of a procedure: the argument `at` is the transaction.
    pub(super) fn call(&mut self, call: &mut ExprCall, at: usize) -> Option<Expr> {
        let mut last = 0;
        for (place, arg) in call.args.iter_mut().enumerate() {
            let mark = self.place_mark();
            if place == at {
                if self.is_reborrow(arg) {
                    self.reborrowed(arg);
                    return None;
                }
                continue;
            }
            let leaves = may_leave(arg.to_token_stream());
            self.expr(arg);
            if leaves || mark != self.place_mark() {
                last = place + 1;
            }
        }
        let procedure = match self.callee(call, at) {
            Ok(procedure) => procedure,
            Err((span, message)) => {
                self.errors.at(span, message);
                return None;
            }
        };
        if self.causal {
            let func = &call.func;
            let message = format!(
                "`#[causal]` marks accesses of this procedure; mark those of `{}` where they are made",
                func.to_token_stream()
            );
            self.errors.at(func, message);
        }
        if self.deferred {
            let func = &call.func;
            let message = format!(
                "`#[deferred]` marks additions of this procedure; mark those of `{}` where they are made",
                func.to_token_stream()
            );
            self.errors.at(func, message);
        }
        let (site, tx) = (self.place.number(), self.tx);
        self.place.called.push(procedure.clone());
        self.steps.push(Step::Call(procedure));
        // What leaves this procedure must not leave it between `enter` and `leave`.
        let (values, names) = before_the_call(&mut call.args, 1..last.max(1));
        let attributes = std::mem::take(&mut call.attrs);
        let result = Ident::new("result", Span::mixed_site());
        let entered = quote!({
            #tx.enter(#site);
            let #result = #call;
            #tx.leave(#site);
            #result
        });
        Some(match values.is_empty() {
            true => parse_quote!(#(#attributes)* #entered),
            false => parse_quote!(#(#attributes)* match (#(#values,)*) { (#(#names,)*) => #entered }),
        })
    }

    /// The type of the procedure that a call with the transaction calls.
    fn callee(&self, call: &ExprCall, at: usize) -> Result<Path, (TokenStream, String)> {
        let tx = self.tx;
        let func = &call.func;
        let refuse = |message: String| Err((func.to_token_stream(), message));
        let Expr::Path(path) = unwrapped(func) else {
            return refuse(format!(
                "`{tx}` is passed to something without a name, whose accesses cannot be seen; make it a free \
                 function with `#[procedure]`, and write `helper({tx}, ..)`"
            ));
        };
        let (path, qualified) = (&path.path, path.qself.is_some());
        let mut backwards = path.segments.iter().rev();
        let Some(last) = backwards.next() else { return refuse("this is no procedure".to_owned()) };
        let name = last.ident.unraw().to_string();
        let of_type = backwards.next().map(|of| of.ident.to_string()).filter(|of| is_type(of));
        if of_type.as_ref().is_some_and(|of| of.ends_with("Transaction")) {
            return refuse(format!("call operations as methods; write `{tx}.{name}(..)`"));
        }
        if qualified || of_type.is_some() {
            return refuse(format!(
                "this belongs to a type, and its accesses cannot be seen; make it a free function with \
                 `#[procedure]`, and write `{name}({tx}, ..)`"
            ));
        }
        if is_type(&name) {
            return refuse(format!(
                "`{tx}` is put into `{name}`, and what is done through that cannot be seen; pass `{tx}` itself \
                 to a procedure: `helper({tx}, ..)`"
            ));
        }
        if !matches!(last.arguments, PathArguments::None) {
            return refuse(format!(
                "a procedure has no parameters of type; write `{name}({tx}, ..)`, and a procedure for each type"
            ));
        }
        if path.is_ident(self.own) {
            return refuse(format!(
                "`{name}` calls itself, but how many sites a procedure has must be known before it runs; use a \
                 loop"
            ));
        }
        if at != 0 {
            let arg = call.args[at].to_token_stream();
            let message =
                format!("the transaction is a procedure's first argument; write `{name}({tx}, ..)`");
            return Err((arg, message));
        }
        let mut procedure = path.clone();
        if let Some(last) = procedure.segments.last_mut() {
            last.ident = format_ident!("{}", camel_case(&name), span = last.ident.span());
        }
        Ok(procedure)
    }
}
