//! Articles with few of them: under every protocol, every variant, with rows corrupted on purpose, and with articles
//! counted while comments are added.

mod run;

use heddledb::protocol::Kind;
use heddledb::{ReadTransaction, Result, Session, Text, Transaction, Txn};
use heddledb_workloads::articles::schema::{Article, Comment, User};
use heddledb_workloads::articles::{
    Articles, Input, Keys, Ledger, Order, Output, Parameters, Readers, Thread,
};
use heddledb_workloads::{ReadOnly, Workload};
use run::{Corruption, assert_ok, assert_reported, kinds, loaded, run, run_reading};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

fn small() -> Parameters {
    Parameters { articles: 40, users: 5, ..Parameters::default() }
}

fn total(ledgers: &[Ledger], part: impl Fn(&Ledger) -> u64) -> u64 {
    ledgers.iter().map(part).sum()
}

fn run_and_check(kind: Kind, parameters: Parameters, threads: usize, count: usize) -> Vec<Ledger> {
    let place = format!("{kind} on {threads} threads, {parameters:?}");
    let articles = Articles::new(parameters).unwrap();
    let db = loaded(&articles, kind, threads);
    assert_ok(&format!("{place}, loaded"), &articles.check(&db, &[]).unwrap());
    let (mut ledgers, aborts) = run(&articles, &db, threads, count, 7);
    let (more, _) = run_reading(ReadOnly::Snapshot, &articles, &db, threads, count / 4, 8);
    ledgers.extend(more);
    assert_ok(&place, &articles.check(&db, &ledgers).unwrap());

    assert_eq!(aborts, 0, "{place}: no transaction gives up");
    let commits = |kind: usize| total(&ledgers, |ledger| ledger.commits[kind]);
    assert_eq!((0..4).map(commits).sum::<u64>(), (threads * (count + count / 4)) as u64, "{place}");
    assert!((0..4).all(|kind| commits(kind) > 0), "{place}");
    assert_eq!(total(&ledgers, |ledger| ledger.inserted + ledger.full), commits(2), "{place}");
    assert!(total(&ledgers, |ledger| ledger.inserted) > 0, "{place}");
    // The checks need the ledgers: without the first of them something must not add up.
    let checks = articles.check(&db, &ledgers[1..]).unwrap();
    assert_reported(&place, &checks, &["sum of A_NUM_COMMENTS", "every comment is as loaded"]);
    ledgers
}

#[test]
fn every_protocol_counts_every_comment() {
    for threads in [1, 2] {
        for kind in kinds(threads) {
            run_and_check(kind, Parameters { articles: 4, ..small() }, threads, 1000);
        }
    }
}

#[test]
fn every_variant_passes() {
    let base = small();
    for parameters in [
        Parameters { order: Order::AsWritten, ..base },
        Parameters { readers: Readers::Apart, ..base },
        Parameters { order: Order::AsWritten, readers: Readers::Apart, ..base },
        Parameters { keys: Keys::Zipf(0.9), ..base },
        Parameters { keys: Keys::PowerLaw, ..base },
        Parameters { keys: Keys::PowerLaw, order: Order::AsWritten, users: 1, ..base },
    ] {
        for kind in kinds(2) {
            run_and_check(kind, parameters, 2, 300);
        }
    }
}

#[test]
fn a_full_article_is_left_as_it_is() {
    for order in [Order::InsertLast, Order::AsWritten] {
        let parameters = Parameters { articles: 2, comment_cap: 30, order, ..small() };
        for kind in kinds(2) {
            let ledgers = run_and_check(kind, parameters, 2, 300);
            assert!(total(&ledgers, |ledger| ledger.full) > 0, "{kind}");
        }
    }
}

/// Loading takes all sessions that it can get, and comes to the same whatever their number.
#[test]
fn any_number_of_sessions_loads_the_same() {
    let articles = Articles::new(Parameters { articles: 500, ..small() }).unwrap();
    let rows = [1, 2, 3].map(|sessions| {
        let db = loaded(&articles, Kind::Silo, sessions);
        assert_ok("loaded", &articles.check(&db, &[]).unwrap());
        let mut session = db.session().unwrap();
        (0..500).map(|id| read(&mut session, id)).map(|thread| thread.comments).collect::<Vec<_>>()
    });
    assert!(rows[0].iter().flatten().count() > 500);
    assert!(rows[0] == rows[1] && rows[0] == rows[2]);
}

fn read(session: &mut Session, article: u32) -> Thread {
    session.run(|tx| Thread::read(tx, article)).unwrap().unwrap()
}

/// While comments are added, in one transaction each: an article, and a count of its comments.
#[test]
fn an_article_and_its_comments_agree_at_any_time() {
    let base = Parameters { articles: 3, comment_cap: 100_000, ..small() };
    let apart = Parameters { readers: Readers::Apart, ..base };
    for parameters in [base, apart, Parameters { order: Order::AsWritten, ..base }] {
        let articles = Articles::new(parameters).unwrap();
        for kind in kinds(2) {
            let place = format!("{kind}, {parameters:?}");
            // One for each who adds, one for who counts.
            let db = loaded(&articles, kind, 2);
            let done = AtomicBool::new(false);
            let ledger = std::thread::scope(|scope| {
                let adds = scope.spawn(|| {
                    let (ledgers, _) = run(&articles, &db, 1, 1500, 11);
                    done.store(true, Ordering::Release);
                    ledgers
                });
                let mut session = db.session().unwrap();
                for article in (0..3).cycle() {
                    let thread = read(&mut session, article);
                    assert!(thread.is_counted() && thread.is_contiguous(), "{place}, article {article}");
                    let seen = session.read(|snapshot| Thread::read(snapshot, article)).unwrap().unwrap();
                    assert!(seen.is_counted() && seen.is_contiguous(), "{place}, snapshot of {article}");
                    if done.load(Ordering::Acquire) {
                        break;
                    }
                }
                drop(session);
                adds.join().unwrap()
            });
            assert_ok(&place, &articles.check(&db, &ledger).unwrap());
        }
    }
}

/// The first article with several comments.
fn commented(tx: &mut Txn) -> Result<u32> {
    for article in 0.. {
        let count = tx.get_columns(article, Article::num_comments)?;
        if count.is_none_or(|count| count > 1) {
            return Ok(article);
        }
    }
    unreachable!("behind the last article there is none")
}

/// Its first comment.
fn first_comment(tx: &mut Txn) -> Result<Comment> {
    let article = commented(tx)?;
    Ok(tx.get((article, 0))?.unwrap())
}

/// What is done to a loaded database, and the checks that must report it.
const CORRUPTIONS: &[Corruption] = &[
    (
        "a comment that is not counted",
        |tx| {
            let comment = Comment { index: 2000, ..first_comment(tx)? };
            tx.insert(comment)
        },
        &[
            "GetArticle and a count",
            "comments of an article",
            "every comment is as loaded",
            "every comment is of",
        ],
    ),
    (
        "a count without a comment",
        |tx| {
            let article = commented(tx)?;
            tx.update_columns(article, Article::num_comments, |count| *count += 1)
        },
        &["GetArticle and a count", "sum of A_NUM_COMMENTS", "every comment is of"],
    ),
    (
        "a comment lost, and its count with it",
        |tx| {
            let article = commented(tx)?;
            assert!(tx.delete::<Comment>((article, 0))?);
            tx.update_columns(article, Article::num_comments, |count| *count -= 1)
        },
        &["A_NUM_COMMENTS is not below", "comments of an article", "sum of A_NUM_COMMENTS"],
    ),
    (
        "a comment of no article",
        |tx| {
            let comment = Comment { article: u32::MAX, index: u32::MAX, ..first_comment(tx)? };
            tx.insert(comment)
        },
        &["every comment is of"],
    ),
    (
        "a torn comment",
        |tx| {
            let article = commented(tx)?;
            tx.update_columns((article, 1), Comment::attr07, |attribute| *attribute ^= 1)
        },
        &["every comment is as loaded"],
    ),
    (
        "a torn article",
        |tx| tx.update_columns(3, Article::text, |text| *text = torn(text)),
        &["every article is as loaded"],
    ),
    (
        "an article lost",
        |tx| tx.delete::<Article>(7).map(|there| assert!(there)),
        &["every article is there"],
    ),
    (
        "a torn user",
        |tx| tx.update_columns(3, User::attr15, |attribute| *attribute ^= 1),
        &["every user is as loaded"],
    ),
    (
        "a name that nobody gave",
        |tx| tx.update_columns(3, User::last_name, |name| *name = torn(name)),
        &["every last name"],
    ),
    ("a user lost", |tx| tx.delete::<User>(4).map(|there| assert!(there)), &["every user is there"]),
];

fn torn<const N: usize>(text: &Text<N>) -> Text<N> {
    Text::truncated(&format!("{}x", &text.as_str()[..N - 1]))
}

/// Every check but that of what GetComments showed, which is of ledgers alone: it is below.
#[test]
fn every_check_can_report() {
    let articles = Articles::new(small()).unwrap();
    let (mut reported, mut all) = (BTreeSet::new(), BTreeSet::new());
    for (what, corrupt, names) in CORRUPTIONS {
        let db = loaded(&articles, Kind::Silo, 1);
        db.session().unwrap().run(corrupt).unwrap();
        let checks = articles.check(&db, &[]).unwrap();
        assert_reported(what, &checks, names);
        for check in checks {
            if !check.ok {
                reported.insert(check.name.clone());
            }
            all.insert(check.name);
        }
    }
    let never: Vec<_> = all.difference(&reported).map(String::as_str).collect();
    assert_eq!(never, ["every GetComments showed the first comments, in order"]);
}

#[test]
fn comments_out_of_place_are_reported_by_who_shows_them() {
    let articles = Articles::new(small()).unwrap();
    let db = loaded(&articles, Kind::Silo, 1);
    let mut session = db.session().unwrap();
    let article = session.run(commented).unwrap();
    let (input, mut ledger) = (Input::GetComments { article }, Ledger::default());
    let show = |session: &mut Session, ledger: &mut Ledger| {
        let output = articles.call(session, &input).unwrap();
        articles.record(ledger, &input, output);
        output
    };
    let output = show(&mut session, &mut ledger);
    assert!(matches!(output, Output::Comments { rows: 2.., first: true }), "{output:?}");
    assert_eq!(ledger.wrong, 0);
    session.run(|tx| tx.delete::<Comment>((article, 0))).unwrap();
    show(&mut session, &mut ledger);
    assert_eq!(ledger.wrong, 1);
    drop(session);
    assert_reported("one lost", &articles.check(&db, &[ledger]).unwrap(), &["every GetComments"]);
}

#[test]
fn an_overwrite_by_nobody_is_reported() {
    let articles = Articles::new(small()).unwrap();
    let db = loaded(&articles, Kind::Silo, 1);
    let (ledgers, _) = run(&articles, &db, 1, 200, 1);
    assert_ok("renamed", &articles.check(&db, &ledgers).unwrap());
    assert_reported("a name that nobody gave", &articles.check(&db, &[]).unwrap(), &["every last name"]);
}
