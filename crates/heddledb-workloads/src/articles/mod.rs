//! Articles: readers and commentators of a news site, as in H-Store and in DBX-TC (§6.7).
//!
//! | transaction | weight | what it does |
//! |---|---|---|
//! | GetArticle | 35 | reads an article |
//! | GetComments | 35 | reads the first five comments of an article |
//! | AddComment | 20 | reads the number of comments, adds one, and counts it; does nothing if there is no room |
//! | UpdateUserInfo | 10 | overwrites a user's last name |
//!
//! The choice of keys alone decides how often transactions meet ([`Keys`]). H-Store's puts more than half of the
//! accesses on article 0, which is soon full ([`Parameters::comment_cap`]) and then only read. DBX-TC reports low
//! contention and that all systems scale, so its keys must have been spread more evenly: the default is uniform.
//!
//! AddComment inserts last, unlike in H-Store: [`transactions`] says why, [`Order`] offers both.

mod check;
mod input;
mod keys;
mod load;
mod parameters;
mod population;
pub mod schema;
pub mod transactions;

pub use check::Thread;
pub use input::{AddComment, Input, Output, UpdateUserInfo};
pub use keys::Keys;
pub use parameters::{Order, Parameters, Readers};

use crate::random::stream;
use crate::{Check, Workload};
use heddledb::internals::BuilderInternals;
use heddledb::internals::shared::SharedU64;
use heddledb::{Builder, Database, Error, ReadTransaction, Result, Session, Transaction};
use input::{KINDS, WEIGHTS};
use keys::Chooser;
use population::{Counts, text};
use rand::RngExt;
use rand::rngs::SmallRng;
use schema::{Article, Comment, User};

/// Draws inputs for one worker.
#[derive(Clone, Debug)]
pub struct Generator {
    rng: SmallRng,
    tag: u64,
}

impl Generator {
    /// A tag that nobody else uses.
    fn next_tag(&mut self) -> u64 {
        self.tag += 1;
        self.tag
    }
}

/// Tags: the generator's number above this bit, its sequence below.
const SEQUENCE_BITS: u32 = 40;

/// The sum of one worker's committed effects.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Commits of each type.
    pub commits: [u64; 4],
    /// AddComments that inserted.
    pub inserted: u64,
    /// AddComments that found the article full.
    pub full: u64,
    /// GetComments that found other comments than the first ones, or in another order.
    pub wrong: u64,
    /// For each generator whose tags are in here: the first that was written, and one past the last.
    tags: Vec<(u64, u64)>,
}

impl Ledger {
    /// Whether the tag is one of those that were written.
    fn wrote(&self, tag: u64) -> bool {
        self.tags.iter().any(|(first, end)| (*first..*end).contains(&tag))
    }

    fn write(&mut self, tag: u64) {
        match self.tags.iter_mut().find(|(first, _)| *first >> SEQUENCE_BITS == tag >> SEQUENCE_BITS) {
            Some((first, end)) => (*first, *end) = ((*first).min(tag), (*end).max(tag + 1)),
            None => self.tags.push((tag, tag + 1)),
        }
    }
}

/// Articles with its parameters.
#[derive(Debug)]
pub struct Articles {
    parameters: Parameters,
    counts: Counts,
    articles: Chooser,
    users: Chooser,
    /// How many generators there have been; each gets a number of its own for tags.
    generators: SharedU64,
    /// 1 if the database runs on threads, so that several may load it.
    on_threads: SharedU64,
}

impl Articles {
    /// The workload with `parameters`. By zipf it takes time in proportion to the articles.
    ///
    /// # Errors
    /// [`Misuse::Option`](heddledb::Misuse::Option) for parameters that make no sense.
    pub fn new(parameters: Parameters) -> Result<Self> {
        parameters.validate()?;
        Ok(Self {
            parameters,
            counts: Counts::new(parameters.comment_cap),
            articles: Chooser::new(parameters.keys, parameters.articles),
            users: Chooser::new(parameters.keys, parameters.users),
            generators: SharedU64::new(0),
            on_threads: SharedU64::new(0),
        })
    }

    /// The parameters in effect.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }
}

impl Workload for Articles {
    type Generator = Generator;
    type Input = Input;
    type Output = Output;
    type Ledger = Ledger;

    fn name(&self) -> &'static str {
        "articles"
    }

    fn parameters(&self) -> Vec<(String, String)> {
        let p = &self.parameters;
        let mut list = vec![
            ("articles", p.articles.to_string()),
            ("users", p.users.to_string()),
            ("keys", p.keys.name().to_string()),
            ("comment_cap", p.comment_cap.to_string()),
            ("order", p.order.name().to_string()),
            ("readers", p.readers.name().to_string()),
        ];
        if let Keys::Zipf(theta) = p.keys {
            list.push(("theta", theta.to_string()));
        }
        list.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn tables(&self, builder: Builder) -> Builder {
        let Parameters { articles, users, order, readers, .. } = self.parameters;
        self.on_threads.store(builder.is_native().into());
        let articles = articles as usize;
        let builder = builder
            .table::<User>(users as usize)
            .table::<Article>(articles)
            .table::<Comment>(articles * Counts::MEAN)
            .procedure::<transactions::UpdateUserInfo>();
        let builder = match order {
            Order::InsertLast => builder.procedure::<transactions::AddComment>(),
            Order::AsWritten => builder.procedure::<transactions::AddCommentAsWritten>(),
        };
        match readers {
            Readers::Called => {
                builder.procedure::<transactions::GetArticle>().procedure::<transactions::GetComments>()
            }
            Readers::Apart => builder,
        }
    }

    /// The content of a row is a hash of its key, so the seed does not matter.
    fn load(&self, db: &Database, _seed: u64, progress: &(dyn Fn(f64) + Sync)) -> Result<()> {
        load::load(&self.parameters, &self.counts, self.on_threads.load() == 1, db, progress)
    }

    fn generator(&self, worker: usize, _workers: usize, seed: u64) -> Generator {
        let number = self.generators.fetch_add(1) + 1;
        Generator { rng: stream(seed, worker as u64), tag: number << SEQUENCE_BITS }
    }

    fn draw(&self, generator: &mut Generator, input: &mut Input) {
        let tag = generator.next_tag();
        let rng = &mut generator.rng;
        let [show, list, add, _] = WEIGHTS;
        let share = rng.random_range(0..WEIGHTS.iter().sum());
        *input = if share < show {
            Input::GetArticle { article: self.articles.draw(rng) }
        } else if share < show + list {
            Input::GetComments { article: self.articles.draw(rng) }
        } else if share < show + list + add {
            let (article, user) = (self.articles.draw(rng), self.users.draw(rng));
            Input::AddComment(AddComment { article, user, tag, text: text(tag) })
        } else {
            Input::UpdateUserInfo(UpdateUserInfo { user: self.users.draw(rng), tag, last_name: text(tag) })
        };
    }

    /// Texts are new at each use, so that a check can tell who wrote one.
    fn refresh(&self, generator: &mut Generator, input: &mut Input) {
        let next = generator.next_tag();
        match input {
            Input::AddComment(add) => (add.tag, add.text) = (next, text(next)),
            Input::UpdateUserInfo(update) => (update.tag, update.last_name) = (next, text(next)),
            Input::GetArticle { .. } | Input::GetComments { .. } => {}
        }
    }

    fn kind(&self, input: &Input) -> usize {
        input.kind()
    }

    #[inline]
    fn execute<T: Transaction>(&self, tx: &mut T, input: &Input) -> Result<Output> {
        let cap = self.parameters.comment_cap;
        match input {
            Input::AddComment(add) => match self.parameters.order {
                Order::InsertLast => transactions::add_comment(tx, add, cap),
                Order::AsWritten => transactions::add_comment_as_written(tx, add, cap),
            },
            Input::UpdateUserInfo(update) => {
                transactions::update_user_info(tx, update.user, update.last_name)
            }
            Input::GetArticle { .. } | Input::GetComments { .. } => self.look(tx, input),
        }
    }

    #[inline]
    fn call(&self, session: &mut Session, input: &Input) -> Result<Output> {
        let cap = self.parameters.comment_cap;
        match input {
            Input::AddComment(add) => match self.parameters.order {
                Order::InsertLast => session.call(transactions::AddComment, (add, cap)),
                Order::AsWritten => session.call(transactions::AddCommentAsWritten, (add, cap)),
            },
            Input::UpdateUserInfo(update) => {
                session.call(transactions::UpdateUserInfo, (update.user, update.last_name))
            }
            Input::GetArticle { article } if self.parameters.readers == Readers::Called => {
                session.call(transactions::GetArticle, *article)
            }
            Input::GetComments { article } if self.parameters.readers == Readers::Called => {
                session.call(transactions::GetComments, *article)
            }
            Input::GetArticle { .. } | Input::GetComments { .. } => session.run(|tx| self.look(tx, input)),
        }
    }

    #[inline]
    fn only_reads(&self, input: &Input) -> bool {
        matches!(input, Input::GetArticle { .. } | Input::GetComments { .. })
    }

    #[inline]
    fn look<T: ReadTransaction>(&self, tx: &mut T, input: &Input) -> Result<Output> {
        match input {
            Input::GetArticle { article } => transactions::get_article(tx, *article),
            Input::GetComments { article } => transactions::get_comments(tx, *article),
            Input::AddComment(_) | Input::UpdateUserInfo(_) => Err(Error::user("this transaction writes")),
        }
    }

    fn record(&self, ledger: &mut Ledger, input: &Input, output: Output) {
        ledger.commits[input.kind()] += 1;
        match (input, output) {
            (Input::AddComment(add), Output::Added { index: Some(_) }) => {
                ledger.inserted += 1;
                ledger.write(add.tag);
            }
            (Input::AddComment(_), _) => ledger.full += 1,
            (Input::UpdateUserInfo(update), _) => ledger.write(update.tag),
            (Input::GetComments { .. }, Output::Comments { first, .. }) => ledger.wrong += u64::from(!first),
            (Input::GetArticle { .. } | Input::GetComments { .. }, _) => {}
        }
    }

    fn check(&self, db: &Database, ledgers: &[Ledger]) -> Result<Vec<Check>> {
        check::check(self, db, ledgers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_h_store_and_tags_are_unique() {
        let articles = Articles::new(Parameters { articles: 50, users: 7, ..Parameters::default() }).unwrap();
        let (mut generator, mut input) = (articles.generator(0, 1, 5), Input::default());
        let (mut counts, mut tags) = ([0u32; 4], std::collections::BTreeSet::new());
        for round in 0..20_000 {
            articles.draw(&mut generator, &mut input);
            if round % 2 == 0 {
                let kind = articles.kind(&input);
                articles.refresh(&mut generator, &mut input);
                assert_eq!(articles.kind(&input), kind);
            }
            counts[articles.kind(&input)] += 1;
            assert_eq!(articles.only_reads(&input), articles.kind(&input) < 2);
            let (article, user, written) = match &input {
                Input::GetArticle { article } | Input::GetComments { article } => (*article, 0, None),
                Input::AddComment(add) => (add.article, add.user, Some((add.tag, add.text))),
                Input::UpdateUserInfo(update) => (0, update.user, Some((update.tag, update.last_name))),
            };
            assert!(article < 50 && user < 7);
            if let Some((tag, found)) = written {
                assert_eq!(found, text(tag));
                assert!(tags.insert(tag), "{tag} twice");
            }
        }
        for (count, weight) in counts.into_iter().zip(WEIGHTS) {
            assert!(count.abs_diff(weight * 200) < 300, "{counts:?}");
        }
        let other = articles.generator(1, 2, 5).next_tag();
        assert!(!tags.contains(&other) && other >> SEQUENCE_BITS == 2);
    }

    #[test]
    fn a_ledger_knows_what_it_wrote() {
        let (mut ledger, mut other) = (Ledger::default(), Ledger::default());
        for tag in [5, 3, 4] {
            ledger.write(1 << SEQUENCE_BITS | tag);
        }
        other.write(2 << SEQUENCE_BITS | 4);
        assert!(ledger.wrote(1 << SEQUENCE_BITS | 3) && ledger.wrote(1 << SEQUENCE_BITS | 5));
        assert!(!ledger.wrote(1 << SEQUENCE_BITS | 6) && !ledger.wrote(2 << SEQUENCE_BITS | 4));
        assert!(other.wrote(2 << SEQUENCE_BITS | 4) && !other.wrote(0));
    }

    #[test]
    fn senseless_parameters_are_refused() {
        let default = Parameters::default();
        for wrong in [
            Parameters { articles: 0, ..default },
            Parameters { users: 0, ..default },
            Parameters { comment_cap: 0, ..default },
            Parameters { keys: Keys::Zipf(1.0), ..default },
        ] {
            assert!(Articles::new(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn names_read_as_they_print() {
        for order in [Order::InsertLast, Order::AsWritten] {
            assert_eq!(order.name().parse(), Ok(order));
        }
        for readers in [Readers::Called, Readers::Apart] {
            assert_eq!(readers.name().parse(), Ok(readers));
        }
        assert!("first".parse::<Order>().unwrap_err().contains("give insert-last or as-written"));
        assert!("away".parse::<Readers>().unwrap_err().contains("give called or apart"));
    }
}
