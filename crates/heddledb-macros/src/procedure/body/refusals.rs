//! Uses of the transaction that cannot be followed, and what is said of them.

use super::Walk;
use super::syntax::mention;
use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::Expr;

impl Walk<'_> {
    pub(super) fn is_tx(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Paren(paren) => self.is_tx(&paren.expr),
            Expr::Group(group) => self.is_tx(&group.expr),
            Expr::Path(path) => path.qself.is_none() && path.path.is_ident(self.tx),
            _ => false,
        }
    }

    /// `&mut *tx`, `&mut tx`, `&*tx`
    pub(super) fn is_reborrow(&self, expr: &Expr) -> bool {
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

    pub(super) fn reborrowed(&mut self, expr: &Expr) {
        let message = format!(
            "`{tx}` is a reference already; write `{tx}` itself, as in `{tx}.get_columns(..)` and \
             `helper({tx}, ..)`",
            tx = self.tx
        );
        self.errors.at(expr, message);
    }

    pub(super) fn second_name(&mut self, expr: &Expr) {
        let message = format!(
            "`{tx}` gets a second name, and what is done under that cannot be seen; go on writing `{tx}`",
            tx = self.tx
        );
        self.errors.at(expr, message);
    }

    pub(super) fn misplaced(&mut self, expr: &Expr) {
        let message = format!(
            "what is done with `{tx}` here cannot be seen; use it for its operations, as in \
             `{tx}.get_columns(..)`, and as the first argument of a procedure, as in `helper({tx}, ..)`",
            tx = self.tx
        );
        self.errors.at(expr, message);
    }

    pub(super) fn no_macro(&mut self, call: &syn::Macro) {
        let name = call.path.to_token_stream().to_string().replace(' ', "");
        let message = format!(
            "an access inside a macro cannot be seen; make it before `{name}!`, and use what it gave"
        );
        self.nowhere(call.tokens.clone(), &message);
    }

    /// There is no site in here.
    pub(super) fn nowhere(&mut self, tokens: TokenStream, message: &str) {
        if let Some(found) = mention(tokens, self.tx) {
            self.errors.at(found, message);
        }
    }
}
