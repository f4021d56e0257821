//! The four transactions, as procedures.
//!
//! # Why AddComment inserts last
//!
//! H-Store reads the article's count n, inserts comment n, and writes the count. Both accesses of the article
//! conflict with those of every other AddComment, so whatever stands between them is part of the same piece:
//! the whole transaction is one ([`add_comment_as_written`]). [`add_comment`], the default, inserts last. The
//! insert needs nothing but n, and n belongs to this transaction alone once the count is written:
//!
//! ```text
//!   as written:  [ read n | insert comment n | write n + 1 ]
//!   insert last: [ read n | write n + 1 ]  [ insert comment n ]   another AddComment may run in between
//! ```
//!
//! IC3 makes two pieces of it in any case. Transaction chopping does so only if GetComments is left out of the
//! analysis and runs on snapshots. Otherwise a GetComments between the pieces of one AddComment could find the
//! comment of the next one and not its own, so chopping merges them.
//! Test: `an_insert_that_comes_last_is_a_piece`.
//!
//! Neither form gives up: the article exists, and comment n does not. A full article is left unchanged, so it is
//! only read.
//!
//! # What calls announce
//!
//! The key of a new comment is known only in the body, so AddComment announces the range of all comments of its
//! article, as GetComments does. The mark `#[later]` would require each single access to be announced, so
//! AddComment has none, and `deterministic-lazy` runs all of it in its turn.
//!
//! What a reader would show goes to [`black_box`], so that the compiler cannot drop the reads.

use super::input::{self, Output};
use super::population;
use super::schema::{Article, Comment, TEXT_LENGTH, User};
use crate::missing::OrMissing;
use heddledb::procedure::Announcement;
use heddledb::{ReadTransaction, Result, Scan, Text, Transaction, procedure};
use std::hint::black_box;

/// How many comments GetComments reads.
pub const SHOWN: usize = 5;

fn article_is_shown(to: &mut Announcement<'_>, article: u32) {
    to.reads_row::<Article>(article);
}

/// GetArticle: reads a whole article.
#[procedure(announce = article_is_shown)]
pub fn get_article(tx: &mut impl ReadTransaction, article: u32) -> Result<Output> {
    let found = tx.get::<Article>(article)?.or_missing("articles")?;
    black_box(&found);
    Ok(Output::Article { comments: found.num_comments })
}

fn comments_are_shown(to: &mut Announcement<'_>, article: u32) {
    to.scans(Scan::<Comment>::prefix((article,)));
}

/// GetComments: reads the first comments of an article.
#[procedure(announce = comments_are_shown)]
pub fn get_comments(tx: &mut impl ReadTransaction, article: u32) -> Result<Output> {
    let (mut rows, mut first) = (0, true);
    tx.scan(Scan::<Comment>::prefix((article,)).limit(SHOWN), |comment| {
        black_box(&comment);
        first &= comment.index == rows;
        rows += 1;
    })?;
    Ok(Output::Comments { rows, first })
}

fn comment_is_added(to: &mut Announcement<'_>, input: &input::AddComment, _cap: u32) {
    to.writes(input.article, Article::num_comments);
    to.scans(Scan::<Comment>::prefix((input.article,)));
}

/// AddComment, with the insert last.
#[procedure(announce = comment_is_added)]
pub fn add_comment(tx: &mut impl Transaction, input: &input::AddComment, cap: u32) -> Result<Output> {
    let index;
    #[no_abort]
    #[piece]
    {
        index = tx.get_columns(input.article, Article::num_comments)?.or_missing("articles")?;
        if index >= cap {
            return Ok(Output::Added { index: None });
        }
        tx.set_columns(input.article, Article::num_comments, index + 1)?;
    }
    tx.insert::<Comment>(new_comment(input, index))?;
    Ok(Output::Added { index: Some(index) })
}

/// AddComment, with the insert between the two accesses of the article.
#[procedure(announce = comment_is_added)]
pub fn add_comment_as_written(
    tx: &mut impl Transaction,
    input: &input::AddComment,
    cap: u32,
) -> Result<Output> {
    #[no_abort]
    let index = tx.get_columns(input.article, Article::num_comments)?.or_missing("articles")?;
    if index >= cap {
        return Ok(Output::Added { index: None });
    }
    tx.insert::<Comment>(new_comment(input, index))?;
    tx.set_columns(input.article, Article::num_comments, index + 1)?;
    Ok(Output::Added { index: Some(index) })
}

#[inline]
fn new_comment(input: &input::AddComment, index: u32) -> Comment {
    population::comment(input.article, index, input.user, input.tag, input.text)
}

fn name_is_set(to: &mut Announcement<'_>, user: u32, _last_name: Text<TEXT_LENGTH>) {
    to.writes(user, User::last_name);
}

/// UpdateUserInfo: overwrites a last name without reading it.
#[procedure(announce = name_is_set)]
pub fn update_user_info(
    tx: &mut impl Transaction,
    user: u32,
    last_name: Text<TEXT_LENGTH>,
) -> Result<Output> {
    #[no_abort]
    tx.set_columns(user, User::last_name, last_name)?;
    Ok(Output::Updated)
}
