//! The arguments of the four transactions, and what they return.

use super::schema::TEXT_LENGTH;
use heddledb::Text;

/// The names of the transaction types, in the order of [`Input`].
pub(super) const KINDS: [&str; 4] = ["get-article", "get-comments", "add-comment", "update-user-info"];

/// Of a hundred transactions, how many are of each type (H-Store).
pub(super) const WEIGHTS: [u32; 4] = [35, 35, 20, 10];

/// The arguments of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Shows an article.
    GetArticle {
        /// Which.
        article: u32,
    },
    /// Shows the first comments of an article.
    GetComments {
        /// Which.
        article: u32,
    },
    /// Adds a comment to an article.
    AddComment(AddComment),
    /// Changes a user's last name.
    UpdateUserInfo(UpdateUserInfo),
}

/// Arguments of AddComment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddComment {
    /// The article.
    pub article: u32,
    /// Who comments.
    pub user: u32,
    /// Used by no other transaction; the attributes follow from it, and the text.
    pub tag: u64,
    /// What is said.
    pub text: Text<TEXT_LENGTH>,
}

/// Arguments of UpdateUserInfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateUserInfo {
    /// The user.
    pub user: u32,
    /// Used by no other transaction; the name follows from it.
    pub tag: u64,
    /// The new last name.
    pub last_name: Text<TEXT_LENGTH>,
}

impl Input {
    /// The type's place among them.
    pub fn kind(&self) -> usize {
        match self {
            Self::GetArticle { .. } => 0,
            Self::GetComments { .. } => 1,
            Self::AddComment(_) => 2,
            Self::UpdateUserInfo(_) => 3,
        }
    }
}

impl Default for Input {
    fn default() -> Self {
        Self::GetArticle { article: 0 }
    }
}

/// What a committed transaction returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// GetArticle.
    Article {
        /// How many comments it has.
        comments: u32,
    },
    /// GetComments.
    Comments {
        /// How many were shown.
        rows: u32,
        /// Whether they were the first ones, and in order.
        first: bool,
    },
    /// AddComment.
    Added {
        /// The comment's number; `None` if the article had room for no more.
        index: Option<u32>,
    },
    /// UpdateUserInfo.
    Updated,
}
