//! The walk over a body: sites, steps, and what cannot be followed.

mod calls;
mod refusals;
mod syntax;

use self::syntax::{Marks, attributes, bound, idents, take_marks};
use super::columns::{self, Locals};
use super::signature::Signature;
use crate::errors::Errors;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{BinOp, Block, Expr, Ident, ItemFn, Local, Pat, Path, Stmt};

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
        deferred: bool,
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
        deferred: false,
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
    /// Its additions are marked as deferred.
    deferred: bool,
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
        let around = (self.causal, self.deferred);
        self.causal |= marks.causal.is_some();
        self.deferred |= marks.deferred.is_some();
        match stmt {
            Stmt::Local(local) => self.local(local),
            Stmt::Expr(expr, _) => self.expr(expr),
            Stmt::Macro(stmt) => self.no_macro(&stmt.mac),
            Stmt::Item(_) => {}
        }
        (self.causal, self.deferred) = around;
        for (mark, name) in [(&marks.causal, "causal"), (&marks.deferred, "deferred")] {
            if let Some(mark) = mark
                && self.steps.len() == before
            {
                let message = format!("nothing in this statement accesses a table; remove `#[{name}]`");
                self.errors.at(mark, message);
            }
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
}
