//! The parameters.

use super::keys::Keys;
use heddledb::{Misuse, Result};
use std::str::FromStr;

/// In which order AddComment makes its accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Reads and writes the count, then inserts the comment: the insert can be a piece of its own.
    #[default]
    InsertLast,
    /// As in H-Store: reads the count, inserts the comment, writes the count. All of that is one piece.
    AsWritten,
}

impl Order {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InsertLast => "insert-last",
            Self::AsWritten => "as-written",
        }
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::InsertLast, Self::AsWritten]
            .into_iter()
            .find(|order| order.name() == text)
            .ok_or_else(|| format!("`{text}` is no order of accesses; give insert-last or as-written"))
    }
}

/// What GetArticle and GetComments are to the analysis of procedures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readers {
    /// Procedures, analysed together with those that write. Under chopping a transaction that is no procedure
    /// runs while no call does, so with readers apart and serializable little would run in parallel.
    #[default]
    Called,
    /// No procedures, so the analysis leaves them out. For runs in which they read snapshots.
    Apart,
}

impl Readers {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Called => "called",
            Self::Apart => "apart",
        }
    }
}

impl FromStr for Readers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Called, Self::Apart]
            .into_iter()
            .find(|readers| readers.name() == text)
            .ok_or_else(|| format!("`{text}` is nothing that readers can be; give called or apart"))
    }
}

/// The parameters of [`Articles`](super::Articles).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Articles, numbered from 0.
    pub articles: u32,
    /// Users, numbered from 0.
    pub users: u32,
    /// Which of them a transaction is about.
    pub keys: Keys,
    /// An article with so many comments gets no more.
    pub comment_cap: u32,
    /// In which order AddComment makes its accesses.
    pub order: Order,
    /// What transactions that only read are to the analysis of procedures.
    pub readers: Readers,
}

impl Default for Parameters {
    /// H-Store's sizes, and keys as DBX-TC's figures suggest them.
    fn default() -> Self {
        Self {
            articles: 100_000,
            users: 200,
            keys: Keys::Uniform,
            comment_cap: 1000,
            order: Order::default(),
            readers: Readers::default(),
        }
    }
}

impl Parameters {
    pub(super) fn validate(&self) -> Result<()> {
        let reason = match self.keys {
            _ if self.articles == 0 || self.users == 0 => {
                format!("{} articles and {} users: there is one of each at least", self.articles, self.users)
            }
            _ if self.comment_cap == 0 => "an article has room for one comment at least".into(),
            Keys::Zipf(theta) if !(0.0..1.0).contains(&theta) => format!("theta {theta} is not in [0, 1)"),
            _ => return Ok(()),
        };
        Err(Misuse::Option(reason).into())
    }
}
