//! The three tables of Articles, as H-Store has them.
//!
//! All columns are there at their full width, texts of 100 bytes and attributes of 8, so rows have H-Store's
//! sizes. A comment's key takes one word, which holds the same bits as H-Store's `(article << 32) | index`, and
//! H-Store's index on the article is a prefix of it.
//!
//! The two columns that are ever written have a column group each: an article's number of comments, and a user's
//! last name. So AddComment stores and logs one word of an article's 43, and conflicts with no reader of the
//! rest.
#![allow(
    missing_docs,
    reason = "the columns have the names that H-Store gives them, without the table's letter"
)]

use heddledb::{Table, Text};

/// Bytes that a text has room for.
pub const TEXT_LENGTH: usize = 100;
/// Attributes of a user, and of an article.
pub const ATTRIBUTES: usize = 15;
/// Attributes of a comment.
pub const COMMENT_ATTRIBUTES: usize = 10;

/// USERS.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash, name = "users")]
pub struct User {
    #[key]
    pub id: u32,
    pub first_name: Text<TEXT_LENGTH>,
    #[group(name)]
    pub last_name: Text<TEXT_LENGTH>,
    pub password: Text<TEXT_LENGTH>,
    pub email: Text<TEXT_LENGTH>,
    pub attr01: u64,
    pub attr02: u64,
    pub attr03: u64,
    pub attr04: u64,
    pub attr05: u64,
    pub attr06: u64,
    pub attr07: u64,
    pub attr08: u64,
    pub attr09: u64,
    pub attr10: u64,
    pub attr11: u64,
    pub attr12: u64,
    pub attr13: u64,
    pub attr14: u64,
    pub attr15: u64,
}

/// ARTICLES.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash, name = "articles")]
pub struct Article {
    #[key]
    pub id: u32,
    pub title: Text<TEXT_LENGTH>,
    pub text: Text<TEXT_LENGTH>,
    #[group(count)]
    pub num_comments: u32,
    pub attr01: u64,
    pub attr02: u64,
    pub attr03: u64,
    pub attr04: u64,
    pub attr05: u64,
    pub attr06: u64,
    pub attr07: u64,
    pub attr08: u64,
    pub attr09: u64,
    pub attr10: u64,
    pub attr11: u64,
    pub attr12: u64,
    pub attr13: u64,
    pub attr14: u64,
    pub attr15: u64,
}

/// COMMENTS. The article's count numbers them, so no two inserts have the same key.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(name = "comments", append_only)]
pub struct Comment {
    #[key]
    pub article: u32,
    #[key]
    pub index: u32,
    pub user: u32,
    pub text: Text<TEXT_LENGTH>,
    pub attr01: u64,
    pub attr02: u64,
    pub attr03: u64,
    pub attr04: u64,
    pub attr05: u64,
    pub attr06: u64,
    pub attr07: u64,
    pub attr08: u64,
    pub attr09: u64,
    pub attr10: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use heddledb::table::Relation;

    /// In words, by column group: 13 for a text, 1 for an attribute, and for keys and short columns as many as they fill.
    #[test]
    fn rows_have_the_sizes_of_h_store() {
        let words = |definition: &heddledb::table::Definition| {
            let layout = definition.layout;
            (layout.words, layout.groups.iter().map(|group| group.span.len()).collect::<Vec<_>>())
        };
        assert_eq!(words(User::definition()), (68, vec![55, 13]));
        assert_eq!(words(Article::definition()), (43, vec![42, 1]));
        assert_eq!(words(Comment::definition()), (25, vec![25]));
    }
}
