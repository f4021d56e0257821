//! Texts that come with the crate: inputs, by name. Their results are computed. And IC3's study of web applications.

use crate::study::Study;

/// A text by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// What to call it by.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// The text.
    pub text: &'static str,
}

macro_rules! builtin {
    ($name:literal, $about:literal) => {
        Builtin { name: $name, about: $about, text: include_str!(concat!("../workloads/", $name, ".txt")) }
    };
}

/// All texts.
pub const ALL: &[Builtin] = &[
    builtin!("tpcc", "TPC-C: New-Order, Payment, Delivery, and IC3's last-order-status"),
    builtin!("tpcc-spec", "TPC-C's New-Order in the order of its specification: a merge in two types"),
    builtin!("tpcc-fused", "TPC-C with Delivery's loop in one, as in code derived from IC3"),
    builtin!("tpce", "TPC-E: the four types that write"),
    builtin!("micro", "IC3's microbenchmark: ten tables, always in the same order"),
    builtin!("micro-reversed", "the same beside a type that goes backwards: a single piece is left"),
    builtin!("smallbank", "SmallBank"),
    builtin!("articles", "Articles: a counter around an insert"),
    builtin!("articles-insert-last", "the same with the insert last: it need not be merged"),
    builtin!("figure1a", "IC3 figure 1a and 2: two tables, each read and then written"),
    builtin!("figure1b", "IC3 figure 1b: a dependency over three types"),
    builtin!("figure3", "IC3 figure 3 and 4: two tables in opposite orders, then a third"),
    builtin!("figure5", "IC3 figure 5: what an optimistic constraint lets through"),
    builtin!("figure6", "IC3 figure 6 and 7: a rendezvous piece"),
    builtin!("figure9", "IC3 figure 9 and 10: a new type forces a merge in an old one"),
    builtin!("apps/publify", "the transactions of a blog (see --apps)"),
    builtin!("apps/diaspora", "the transactions of a social network (see --apps)"),
    builtin!("apps/onebody", "the transactions of a church portal (see --apps)"),
    builtin!("apps/community_engine", "the transactions of another social network (see --apps)"),
];

/// The text of that name.
pub fn find(name: &str) -> Option<&'static Builtin> {
    ALL.iter().find(|one| one.name == name)
}

/// An application of IC3's study of web applications, October 2015 (IC3 §6.11, table 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Application {
    /// What it is called.
    pub name: &'static str,
    /// What it is for.
    pub domain: &'static str,
    /// What the paper counts.
    pub paper: Study,
    /// What its description rests on, where there is one.
    pub described: Option<Description>,
}

/// A description of an application's transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The repository, the commit, and what was read there.
    pub rests_on: &'static str,
    /// The text's name.
    pub name: &'static str,
}

const fn paper(total: usize, multi_table: usize, deadlock_prone: usize, interleaved: usize) -> Study {
    Study { total, multi_table, deadlock_prone, interleaved }
}

macro_rules! application {
    ($name:literal, $domain:literal, $paper:expr) => {
        Application { name: $name, domain: $domain, paper: $paper, described: None }
    };
    ($name:literal, $domain:literal, $paper:expr, $file:literal, $rests_on:literal) => {
        Application {
            name: $name,
            domain: $domain,
            paper: $paper,
            described: Some(Description { rests_on: $rests_on, name: concat!("apps/", $file) }),
        }
    };
}

/// The study's applications, in its order. Only those are described whose sources of that time were read block by
/// block; the others have the paper's numbers alone.
pub const APPLICATIONS: &[Application] = &[
    application!("Canvas LMS", "education", paper(46, 30, 12, 20)),
    application!("Discourse", "discussion", paper(36, 28, 3, 26)),
    application!("Spree", "e-commerce", paper(7, 3, 0, 3)),
    application!(
        "Diaspora",
        "social network",
        paper(2, 1, 0, 1),
        "diaspora",
        "diaspora/diaspora at 65e466f1e21f (2015-10-30): both blocks, with what models declare for their destruction, one level"
    ),
    application!("Redmine", "project management", paper(17, 8, 0, 8)),
    application!(
        "OneBody",
        "church portal",
        paper(2, 1, 0, 1),
        "onebody",
        "seven1m/onebody at f7905ff7ffbd (2015-10-29): both blocks, with validations and callbacks of the models' own files"
    ),
    application!(
        "Community Engine",
        "social network",
        paper(2, 0, 0, 0),
        "community_engine",
        "bborn/communityengine at fcd6a51ff3e6 (2015-10-21): three blocks, with User's callbacks, which count users by area"
    ),
    application!(
        "Publify",
        "blogging",
        paper(5, 1, 0, 1),
        "publify",
        "publify/publify at 50909944e588 (2015-09-16): all five blocks, with validations and Article's callbacks"
    ),
    application!("Browser CMS", "content management", paper(4, 3, 0, 3)),
    application!("GitLab", "code management", paper(8, 5, 0, 5)),
    application!("Insoshi", "social network", paper(3, 0, 0, 0)),
    application!("Teambox", "project management", paper(4, 1, 0, 1)),
    application!("Radiant", "content management", paper(2, 0, 0, 0)),
    application!("GitLab CI", "continuous integration", paper(2, 0, 0, 0)),
];
