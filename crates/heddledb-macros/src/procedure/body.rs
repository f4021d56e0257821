//! The walk over a body: sites, steps, and what cannot be followed.

use super::columns::{self, Locals};
use super::operation::{self, Needs, Operation};
use super::signature::{Signature, camel_case};
use crate::errors::Errors;
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use std::ops::Range;
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, BinOp, Block, Expr, ExprCall, ExprMethodCall, Ident, ItemFn, Local, Pat, Path, PathArguments,
    Stmt, Token, parse_quote, parse_quote_spanned,
};

/// What a body declares.
pub struct Analysed {
    /// Its steps, in order.
    pub steps: Vec<Step>,
    /// How many sites it has.
    pub sites: TokenStream,
}

/// A step of a body.
pub enum Step {
    /// A call of a method of the declaration: `get(Account::balance)`.
    Access {
        declared: TokenStream,
        causal: bool,
    },
    /// A call of the procedure with this type.
    Call(Path),
    /// From here on it does not give up.
    NoAbort,
    /// From here on it is its later phase.
    Later,
    Loop(Vec<Step>),
    Piece(Vec<Step>),
    Branch {
        then: Vec<Step>,
        otherwise: Vec<Step>,
    },
}

/// Walks over a function's body; each access in it then says its site.
pub fn analyse(function: &mut ItemFn, signature: &Signature, errors: &mut Errors) -> Analysed {
    let mut walk = Walk {
        own: &function.sig.ident,
        tx: &signature.tx,
        reads_only: signature.reads_only,
        errors,
        place: Place::default(),
        steps: Vec::new(),
        locals: Locals::new(),
        causal: false,
        depth: 0,
    };
    for input in function.sig.inputs.iter().skip(1) {
        if let syn::FnArg::Typed(typed) = input {
            walk.pattern(&typed.pat);
        }
    }
    walk.block(&mut function.block);
    let Walk { steps, place, .. } = walk;
    Analysed { steps, sites: place.number() }
}

/// How many sites came before.
#[derive(Default)]
struct Place {
    own: u16,
    /// The procedures that were called.
    called: Vec<Path>,
}

impl Place {
    fn number(&self) -> TokenStream {
        let (own, called) = (self.own, &self.called);
        match called.is_empty() {
            true => quote!(#own),
            false => quote!(const { #own #(+ <#called as ::heddledb::procedure::Procedure>::SITES)* }),
        }
    }
}

struct Walk<'a> {
    /// The function's name.
    own: &'a Ident,
    tx: &'a Ident,
    reads_only: bool,
    errors: &'a mut Errors,
    place: Place,
    /// Of the block that is walked over.
    steps: Vec<Step>,
    locals: Locals,
    /// The statement is marked as causal.
    causal: bool,
    /// How deep in blocks the statement is that is walked over; 1 in the body itself.
    depth: u32,
}

impl Walk<'_> {
    fn block(&mut self, block: &mut Block) {
        let locals = self.locals.clone();
        self.depth += 1;
        for stmt in &mut block.stmts {
            self.statement(stmt);
        }
        self.depth -= 1;
        self.locals = locals;
    }

    fn statement(&mut self, stmt: &mut Stmt) {
        let marks = match stmt {
            Stmt::Local(local) => take_marks(&mut local.attrs),
            Stmt::Expr(expr, _) => attributes(expr).map_or_else(Marks::default, take_marks),
            Stmt::Item(_) | Stmt::Macro(_) => Marks::default(),
        };
        for (mark, step) in [(&marks.no_abort, Step::NoAbort), (&marks.later, Step::Later)] {
            let Some(mark) = mark else { continue };
            if self.depth > 1 {
                let message = format!(
                    "`{}` belongs on a statement of the body itself: what is said in a loop, a branch or a block need not \
                     hold after it",
                    mark.to_token_stream().to_string().replace(' ', "")
                );
                self.errors.at(mark, message);
            }
            self.steps.push(step);
        }
        if let Some(mark) = &marks.piece {
            let Stmt::Expr(Expr::Block(block), _) = stmt else {
                let message = "`#[piece]` belongs on a block; write `#[piece] { .. }` around the accesses that \
                               are one piece";
                return self.errors.at(mark, message);
            };
            let steps = self.inside(|walk| walk.block(&mut block.block));
            if steps.is_empty() {
                self.errors.at(mark, "nothing in this block accesses a table; remove `#[piece]`");
            }
            self.steps.push(Step::Piece(steps));
            return;
        }
        let before = self.steps.len();
        let around = self.causal;
        self.causal |= marks.causal.is_some();
        match stmt {
            Stmt::Local(local) => self.local(local),
            Stmt::Expr(expr, _) => self.expr(expr),
            Stmt::Macro(stmt) => self.no_macro(&stmt.mac),
            Stmt::Item(_) => {}
        }
        self.causal = around;
        if let Some(mark) = &marks.causal
            && self.steps.len() == before
        {
            self.errors.at(mark, "nothing in this statement accesses a table; remove `#[causal]`");
        }
    }

    fn local(&mut self, local: &mut Local) {
        let mut known = None;
        if let Some(init) = &mut local.init {
            known = columns::known(&init.expr, &self.locals);
            if self.is_tx(&init.expr) {
                self.second_name(&init.expr);
            } else {
                self.expr(&mut init.expr);
            }
            if let Some((_, diverge)) = &mut init.diverge {
                let then = self.inside(|walk| walk.expr(diverge));
                self.branch(then, Vec::new());
            }
        }
        self.pattern(&local.pat);
        if let (Some(known), Some(ident)) = (known, bound(&local.pat)) {
            self.locals.insert(ident.to_string(), known);
        }
    }

    /// What a pattern binds is not known any more, and not the transaction.
    fn pattern(&mut self, pattern: &Pat) {
        for ident in idents(pattern.to_token_stream()) {
            if ident == *self.tx {
                let message = format!("`{ident}` is the transaction; give this another name");
                self.errors.at(&ident, message);
            }
            self.locals.remove(&ident.to_string());
        }
    }

    /// The steps that `walk` makes.
    fn inside(&mut self, walk: impl FnOnce(&mut Self)) -> Vec<Step> {
        let around = std::mem::take(&mut self.steps);
        walk(self);
        std::mem::replace(&mut self.steps, around)
    }

    /// The same; what is learned of local variables is forgotten again.
    fn scope(&mut self, walk: impl FnOnce(&mut Self)) -> Vec<Step> {
        let locals = self.locals.clone();
        let steps = self.inside(walk);
        self.locals = locals;
        steps
    }

    fn branch(&mut self, then: Vec<Step>, otherwise: Vec<Step>) {
        if !then.is_empty() || !otherwise.is_empty() {
            self.steps.push(Step::Branch { then, otherwise });
        }
    }

    fn repeat(&mut self, steps: Vec<Step>) {
        if !steps.is_empty() {
            self.steps.push(Step::Loop(steps));
        }
    }

    /// Walks over an expression in the order of its evaluation.
    fn expr(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Array(array) => array.elems.iter_mut().for_each(|elem| self.expr(elem)),
            Expr::Assign(assign) => {
                if self.is_tx(&assign.right) {
                    self.second_name(&assign.right);
                } else {
                    self.expr(&mut assign.right);
                }
                self.expr(&mut assign.left);
            }
            Expr::Async(block) => self.nowhere(
                block.block.to_token_stream(),
                "an access inside an `async` block cannot be placed, because nothing says when it is made; \
                 write the block without `async`",
            ),
            Expr::Await(wait) => self.expr(&mut wait.base),
            Expr::Binary(binary) => {
                self.expr(&mut binary.left);
                match binary.op {
                    BinOp::And(_) | BinOp::Or(_) => {
                        let right = self.inside(|walk| walk.expr(&mut binary.right));
                        self.branch(right, Vec::new());
                    }
                    _ => self.expr(&mut binary.right),
                }
            }
            Expr::Block(block) => self.block(&mut block.block),
            Expr::Break(leave) => self.optional(&mut leave.expr),
            Expr::Call(call) => match call.args.iter().position(|arg| self.is_tx(arg) || self.is_reborrow(arg)) {
                Some(at) => {
                    if let Some(rewritten) = self.call(call, at) {
                        *expr = rewritten;
                    }
                }
                None => {
                    self.expr(&mut call.func);
                    call.args.iter_mut().for_each(|arg| self.expr(arg));
                }
            },
            Expr::Cast(cast) => self.expr(&mut cast.expr),
            Expr::Closure(closure) => self.nowhere(
                closure.body.to_token_stream(),
                "an access inside a closure cannot be placed, because nothing says how often it is made; use a \
                 `for` loop, or make the access before and use what it gave",
            ),
            Expr::Field(field) => self.expr(&mut field.base),
            Expr::ForLoop(each) => {
                self.expr(&mut each.expr);
                let steps = self.scope(|walk| {
                    walk.pattern(&each.pat);
                    walk.block(&mut each.body);
                });
                self.repeat(steps);
            }
            Expr::Group(group) => self.expr(&mut group.expr),
            Expr::If(choice) => {
                let locals = self.locals.clone();
                self.expr(&mut choice.cond);
                let then = self.inside(|walk| walk.block(&mut choice.then_branch));
                self.locals = locals;
                let otherwise = match &mut choice.else_branch {
                    Some((_, otherwise)) => self.inside(|walk| walk.expr(otherwise)),
                    None => Vec::new(),
                };
                self.branch(then, otherwise);
            }
            Expr::Index(index) => {
                self.expr(&mut index.expr);
                self.expr(&mut index.index);
            }
            Expr::Let(matched) => {
                self.expr(&mut matched.expr);
                self.pattern(&matched.pat);
            }
            Expr::Loop(forever) => {
                let steps = self.inside(|walk| walk.block(&mut forever.body));
                self.repeat(steps);
            }
            Expr::Macro(call) => self.no_macro(&call.mac),
            Expr::Match(choice) => {
                self.expr(&mut choice.expr);
                let mut arms: Vec<Vec<Step>> = Vec::new();
                for arm in &mut choice.arms {
                    arms.push(self.scope(|walk| {
                        walk.arm_pattern(&mut arm.pat);
                        walk.expr(&mut arm.body);
                    }));
                }
                let mut steps = arms.pop().unwrap_or_default();
                for then in arms.into_iter().rev() {
                    let otherwise = steps;
                    steps = self.inside(|walk| walk.branch(then, otherwise));
                }
                self.steps.append(&mut steps);
            }
            Expr::MethodCall(call) => {
                if self.is_tx(&call.receiver) {
                    if let Some(rewritten) = self.access(call) {
                        *expr = rewritten;
                    }
                    return;
                }
                self.expr(&mut call.receiver);
                for arg in &mut call.args {
                    if self.is_tx(arg) || self.is_reborrow(arg) {
                        let method = &call.method;
                        let message = format!(
                            "`{tx}` is passed to a method, whose accesses cannot be seen; make it a free function \
                             with `#[procedure]`, and write `{method}({tx}, ..)`",
                            tx = self.tx
                        );
                        self.errors.at(arg, message);
                    } else {
                        self.expr(arg);
                    }
                }
            }
            Expr::Paren(paren) => self.expr(&mut paren.expr),
            Expr::Path(_) => {
                if self.is_tx(expr) {
                    self.misplaced(expr);
                }
            }
            Expr::Range(range) => {
                self.optional(&mut range.start);
                self.optional(&mut range.end);
            }
            Expr::Reference(_) if self.is_reborrow(expr) => self.reborrowed(expr),
            Expr::Reference(reference) => self.expr(&mut reference.expr),
            Expr::Repeat(repeat) => self.expr(&mut repeat.expr),
            Expr::Return(leave) => self.optional(&mut leave.expr),
            Expr::Struct(literal) => {
                for field in &mut literal.fields {
                    if self.is_tx(&field.expr) || self.is_reborrow(&field.expr) {
                        let message = format!(
                            "`{tx}` is put into a struct, and what is done through that cannot be seen; pass \
                             `{tx}` itself to a procedure: `helper({tx}, ..)`",
                            tx = self.tx
                        );
                        self.errors.at(&field.expr, message);
                    } else {
                        self.expr(&mut field.expr);
                    }
                }
                self.optional(&mut literal.rest);
            }
            Expr::Try(attempt) => self.expr(&mut attempt.expr),
            Expr::Tuple(tuple) => tuple.elems.iter_mut().for_each(|elem| self.expr(elem)),
            Expr::Unary(unary) => self.expr(&mut unary.expr),
            Expr::Unsafe(block) => self.block(&mut block.block),
            Expr::While(repeat) => {
                let steps = self.scope(|walk| {
                    walk.expr(&mut repeat.cond);
                    walk.block(&mut repeat.body);
                });
                self.repeat(steps);
            }
            Expr::Const(_) | Expr::Continue(_) | Expr::Infer(_) | Expr::Lit(_) => {}
            other => self.nowhere(
                other.to_token_stream(),
                "an access inside this expression cannot be placed; make it before, and use what it gave",
            ),
        }
    }

    fn optional(&mut self, expr: &mut Option<Box<Expr>>) {
        if let Some(expr) = expr {
            self.expr(expr);
        }
    }

    fn arm_pattern(&mut self, pattern: &mut Pat) {
        match pattern {
            Pat::Guard(guarded) => {
                self.pattern(&guarded.pat);
                self.expr(&mut guarded.guard);
            }
            pattern => self.pattern(pattern),
        }
    }

    /// A call of a method of the transaction.
    fn access(&mut self, call: &mut ExprMethodCall) -> Option<Expr> {
        let name = call.method.unraw().to_string();
        if name == "prefetch" {
            call.args.iter_mut().for_each(|arg| self.expr(arg));
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
        let declared = self.declared(operation, call);
        let (site, tx) = (self.place.number(), &call.receiver);
        self.place.own += 1;
        self.steps.push(Step::Access { declared: declared?, causal: self.causal });
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
                turbofish.or_else(scan).or_else(closure),
                format!("write it, `{name}::<Table>(..)`, or `Scan::<Table>::..` in the argument"),
            ),
            Needs::TableOrRow => (
                turbofish.or_else(|| columns::row(call.args.first()?, &self.locals)),
                format!("write it, `{name}::<Table>(..)`, or the row as a struct, `{name}(Table {{ .. }})`"),
            ),
            Needs::Index => (turbofish, format!("write it, `{name}::<Index>(..)`")),
            Needs::IndexOrScan => (
                turbofish.or_else(scan),
                format!("write it, `{name}::<Index>(..)`, or `Scan::<Index>::..` in the argument"),
            ),
        };
        if seen.is_none() {
            let what = if matches!(needs, Needs::Index | Needs::IndexOrScan) { "index" } else { "table" };
            self.errors.at(&call.method, format!("which {what} this is cannot be seen; {message}"));
        }
        typed(seen)
    }

    /// A call of a procedure: the argument `at` is the transaction.
    fn call(&mut self, call: &mut ExprCall, at: usize) -> Option<Expr> {
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

    fn is_tx(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Paren(paren) => self.is_tx(&paren.expr),
            Expr::Group(group) => self.is_tx(&group.expr),
            Expr::Path(path) => path.qself.is_none() && path.path.is_ident(self.tx),
            _ => false,
        }
    }

    /// `&mut *tx`, `&mut tx`, `&*tx`
    fn is_reborrow(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Paren(paren) => self.is_reborrow(&paren.expr),
            Expr::Group(group) => self.is_reborrow(&group.expr),
            Expr::Reference(reference) => match &*reference.expr {
                Expr::Unary(unary) => self.is_tx(&unary.expr),
                expr => self.is_tx(expr),
            },
            _ => false,
        }
    }

    fn reborrowed(&mut self, expr: &Expr) {
        let message = format!(
            "`{tx}` is a reference already; write `{tx}` itself, as in `{tx}.get_columns(..)` and \
             `helper({tx}, ..)`",
            tx = self.tx
        );
        self.errors.at(expr, message);
    }

    fn second_name(&mut self, expr: &Expr) {
        let message = format!(
            "`{tx}` gets a second name, and what is done under that cannot be seen; go on writing `{tx}`",
            tx = self.tx
        );
        self.errors.at(expr, message);
    }

    fn misplaced(&mut self, expr: &Expr) {
        let message = format!(
            "what is done with `{tx}` here cannot be seen; use it for its operations, as in \
             `{tx}.get_columns(..)`, and as the first argument of a procedure, as in `helper({tx}, ..)`",
            tx = self.tx
        );
        self.errors.at(expr, message);
    }

    fn no_macro(&mut self, call: &syn::Macro) {
        let name = call.path.to_token_stream().to_string().replace(' ', "");
        let message = format!(
            "an access inside a macro cannot be seen; make it before `{name}!`, and use what it gave"
        );
        self.nowhere(call.tokens.clone(), &message);
    }

    /// There is no site in here.
    fn nowhere(&mut self, tokens: TokenStream, message: &str) {
        if let Some(found) = mention(tokens, self.tx) {
            self.errors.at(found, message);
        }
    }
}

#[derive(Default)]
struct Marks {
    piece: Option<Attribute>,
    causal: Option<Attribute>,
    no_abort: Option<Attribute>,
    later: Option<Attribute>,
}

/// Takes the marks out of a statement's attributes.
fn take_marks(attributes: &mut Vec<Attribute>) -> Marks {
    let mut marks = Marks::default();
    attributes.retain(|attribute| {
        let Marks { piece, causal, no_abort, later } = &mut marks;
        let known = [("piece", piece), ("causal", causal), ("no_abort", no_abort), ("later", later)];
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
fn attributes(expr: &mut Expr) -> Option<&mut Vec<Attribute>> {
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
fn before_the_call(args: &mut Punctuated<Expr, Token![,]>, range: Range<usize>) -> (Vec<Expr>, Vec<Ident>) {
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

fn unwrapped(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(paren) => unwrapped(&paren.expr),
        Expr::Group(group) => unwrapped(&group.expr),
        expr => expr,
    }
}

/// The variable that a pattern binds to all of a value that does not change.
fn bound(pattern: &Pat) -> Option<&Ident> {
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
fn is_type(name: &str) -> bool {
    name.starts_with(char::is_uppercase)
}

/// All identifiers.
fn idents(tokens: TokenStream) -> Vec<Ident> {
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
fn mention(tokens: TokenStream, name: &Ident) -> Option<Ident> {
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
fn may_leave(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|tree| match tree {
        TokenTree::Ident(ident) => ["return", "break", "continue"].iter().any(|word| ident == word),
        TokenTree::Punct(punct) => matches!(punct.as_char(), '?' | '!'),
        TokenTree::Group(group) => may_leave(group.stream()),
        TokenTree::Literal(_) => false,
    })
}
