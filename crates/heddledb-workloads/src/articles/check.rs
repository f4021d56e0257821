//! The checks: numbers of comments agree with comments and with the ledgers, and every row is as loaded or as a
//! committed transaction wrote it.

use super::population::{self, Counts};
use super::schema::{Article, Comment, TEXT_LENGTH, User};
use super::{Articles, Ledger, Parameters};
use crate::Check;
use crate::verdict::{Verdict, equal};
use heddledb::{Database, ReadTransaction, Result, Scan, Session, Text};

/// Articles, or users, of one transaction.
const CHUNK: usize = 64;

/// An article with all of its comments, as one transaction sees them.
pub struct Thread {
    /// The article.
    pub article: Article,
    /// Its comments, by number.
    pub comments: Vec<Comment>,
}

impl Thread {
    /// Reads an article, then its comments.
    ///
    /// # Errors
    /// As for [`ReadTransaction::get`].
    pub fn read<T: ReadTransaction>(tx: &mut T, article: u32) -> Result<Option<Self>> {
        let Some(article) = tx.get::<Article>(article)? else { return Ok(None) };
        let comments = tx.collect(Scan::<Comment>::prefix((article.id,)))?;
        Ok(Some(Self { article, comments }))
    }

    /// Whether there are as many comments as the article says.
    pub fn is_counted(&self) -> bool {
        self.comments.len() == self.article.num_comments as usize
    }

    /// Whether their numbers are 0 and so on, without a gap.
    pub fn is_contiguous(&self) -> bool {
        (0..).zip(&self.comments).all(|(index, comment)| comment.index == index)
    }
}

/// Checks the quiet database.
pub(super) fn check(workload: &Articles, db: &Database, ledgers: &[Ledger]) -> Result<Vec<Check>> {
    let mut session = db.session()?;
    let mut checks = articles(workload, &mut session, ledgers)?;
    checks.extend(users(&workload.parameters, &mut session, ledgers)?);
    let wrong: u64 = ledgers.iter().map(|ledger| ledger.wrong).sum();
    let mut shown = Verdict::new("every GetComments showed the first comments, in order");
    shown.require(wrong == 0, || format!("{wrong} did not"));
    checks.push(shown.finish());
    Ok(checks)
}

/// Articles and comments.
fn articles(workload: &Articles, session: &mut Session, ledgers: &[Ledger]) -> Result<Vec<Check>> {
    let (Parameters { articles, users, comment_cap, .. }, counts) = (workload.parameters, &workload.counts);
    let mut present = Verdict::new("every article is there, and no other");
    let mut intact = Verdict::new("every article is as loaded but for A_NUM_COMMENTS");
    let mut lawful = Verdict::new("A_NUM_COMMENTS is not below what was loaded, nor above the cap");
    let mut counted =
        Verdict::new("GetArticle and a count in one transaction agree: comments = A_NUM_COMMENTS");
    let mut contiguous = Verdict::new("comments of an article are numbered from 0 without a gap");
    let mut explained = Verdict::new("every comment is as loaded, or as a committed AddComment wrote it");
    let (mut loaded, mut sum) = (0i128, 0i128);
    let ids = 0..u64::from(articles) + CHUNK as u64;
    for first in ids.clone().step_by(CHUNK) {
        let chunk = first..ids.end.min(first + CHUNK as u64);
        let threads: Vec<Option<Thread>> =
            session.run(|tx| chunk.clone().map(|id| Thread::read(tx, id as u32)).collect())?;
        for (id, thread) in chunk.zip(threads) {
            present.require(thread.is_some() == (id < u64::from(articles)), || {
                format!("article {id}: present {}", thread.is_some())
            });
            let id = id as u32;
            let before = if id < articles { counts.of(id) } else { 0 };
            loaded += i128::from(before);
            let Some(thread) = thread else { continue };
            let (number, rows) = (thread.article.num_comments, thread.comments.len());
            sum += i128::from(number);
            intact.require(thread.article == population::article(id, number), || format!("article {id}"));
            lawful.require((before..=comment_cap).contains(&number), || {
                format!("article {id}: {number} comments, {before} loaded, at most {comment_cap}")
            });
            counted
                .require(thread.is_counted(), || format!("article {id}: {rows} comments, it says {number}"));
            contiguous.require(thread.is_contiguous(), || format!("article {id}"));
            for comment in &thread.comments {
                explained.require(explains(counts, users, ledgers, comment), || {
                    format!("comment {} of article {id}", comment.index)
                });
            }
        }
    }
    let rows = count_comments(session)?;
    let inserted: u64 = ledgers.iter().map(|ledger| ledger.inserted).sum();
    let verdicts = [present, intact, lawful, counted, contiguous, explained];
    let mut checks: Vec<Check> = verdicts.into_iter().map(Verdict::finish).collect();
    checks.push(equal(
        "sum of A_NUM_COMMENTS = loaded + committed AddComments that inserted",
        ("sum", sum),
        ("expected", loaded + i128::from(inserted)),
    ));
    checks.push(equal(
        "every comment is of an article",
        ("rows of COMMENTS", rows),
        ("of all articles", sum),
    ));
    Ok(checks)
}

/// Whether a comment is as loaded, or a committed transaction's.
fn explains(counts: &Counts, users: u32, ledgers: &[Ledger], comment: &Comment) -> bool {
    let Comment { article, index, user, text, .. } = *comment;
    if index < counts.of(article) {
        return *comment == population::loaded_comment(article, index, users);
    }
    let Some(tag) = committed(ledgers, &text) else { return false };
    user < users && *comment == population::comment(article, index, user, tag, text)
}

/// The tag of a text that a committed transaction wrote.
fn committed(ledgers: &[Ledger], text: &Text<TEXT_LENGTH>) -> Option<u64> {
    let wrote = |tag: &u64| ledgers.iter().any(|ledger| ledger.wrote(*tag));
    population::tag(text).filter(wrote)
}

/// All comments, whatever article they are of.
fn count_comments(session: &mut Session) -> Result<i128> {
    const ROWS: usize = 1024;
    let (mut rows, mut next) = (0, Some((0, 0)));
    while let Some(first) = next {
        let mut met = 0;
        session.run(|tx| {
            (met, next) = (0, None);
            tx.scan_columns(Scan::<Comment>::range(first..).limit(ROWS), Comment::user, |key, _| {
                met += 1;
                next = Some(key);
            })
        })?;
        rows += met;
        next = next.and_then(after);
    }
    Ok(rows)
}

/// The key after this one.
fn after((article, index): (u32, u32)) -> Option<(u32, u32)> {
    match index.checked_add(1) {
        Some(index) => Some((article, index)),
        None => article.checked_add(1).map(|article| (article, 0)),
    }
}

/// Users.
fn users(parameters: &Parameters, session: &mut Session, ledgers: &[Ledger]) -> Result<Vec<Check>> {
    let mut present = Verdict::new("every user is there, and no other");
    let mut intact = Verdict::new("every user is as loaded but for the last name");
    let mut named = Verdict::new("every last name is as loaded, or as a committed UpdateUserInfo wrote it");
    let end = u64::from(parameters.users) + CHUNK as u64;
    for first in (0..end).step_by(CHUNK) {
        let chunk = first..end.min(first + CHUNK as u64);
        let rows: Vec<Option<User>> =
            session.run(|tx| chunk.clone().map(|id| tx.get(id as u32)).collect())?;
        for (id, row) in chunk.zip(rows) {
            present.require(row.is_some() == (id < u64::from(parameters.users)), || {
                format!("user {id}: present {}", row.is_some())
            });
            let Some(row) = row else { continue };
            let loaded = population::user(id as u32);
            intact.require(row == User { last_name: row.last_name, ..loaded }, || format!("user {id}"));
            let is_known = row.last_name == loaded.last_name || committed(ledgers, &row.last_name).is_some();
            named.require(is_known, || format!("user {id}: {}", row.last_name));
        }
    }
    Ok(vec![present.finish(), intact.finish(), named.finish()])
}
