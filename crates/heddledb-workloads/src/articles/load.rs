//! Filling the tables, on as many threads as there are cores and sessions.

use super::Parameters;
use super::population::{self, Counts};
use crate::batch::Batch;
use heddledb::internals::sync::in_parallel;
use heddledb::{Database, Result, Session};
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;

/// After so many articles progress is told.
const STEP: u32 = 1024;

/// Fills the tables. Each thread loads a range of articles with their comments, and the first one the users. On
/// virtual cores only the calling core loads.
pub(super) fn load(
    parameters: &Parameters,
    counts: &Counts,
    on_threads: bool,
    db: &Database,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<()> {
    let Parameters { articles, users, .. } = *parameters;
    let most = if on_threads { available_parallelism().map_or(1, NonZero::get) } else { 1 };
    let mut sessions = vec![db.session()?];
    // A database may have fewer sessions than there are cores.
    sessions.extend((1..most).map_while(|_| db.session().ok()));
    let parts = sessions.len() as u64;
    let first = |part: u64| (u64::from(articles) * part / parts) as u32;
    // Relaxed: it only counts.
    let loaded = AtomicU64::new(0);
    let told = |count: u32| {
        let loaded = loaded.fetch_add(u64::from(count), Ordering::Relaxed) + u64::from(count);
        progress(loaded as f64 / f64::from(articles));
    };
    in_parallel(sessions, |part, mut session| {
        if part == 0 {
            load_users(&mut session, users)?;
        }
        let part = part as u64;
        load_articles(&mut session, counts, users, first(part)..first(part + 1), &told)
    })?;
    Ok(())
}

fn load_users(session: &mut Session, users: u32) -> Result<()> {
    let mut rows = Batch::new();
    for id in 0..users {
        rows.push(session, population::user(id))?;
    }
    rows.flush(session)
}

fn load_articles(
    session: &mut Session,
    counts: &Counts,
    users: u32,
    articles: std::ops::Range<u32>,
    told: &dyn Fn(u32),
) -> Result<()> {
    let (mut rows, mut comments) = (Batch::new(), Batch::new());
    let mut untold = 0;
    for id in articles {
        let count = counts.of(id);
        rows.push(session, population::article(id, count))?;
        for index in 0..count {
            comments.push(session, population::loaded_comment(id, index, users))?;
        }
        untold += 1;
        if untold == STEP {
            told(std::mem::take(&mut untold));
        }
    }
    rows.flush(session)?;
    comments.flush(session)?;
    told(untold);
    Ok(())
}
