//! Transactional objects: what each returned is what a model returns in the order in which the transactions took effect.

use super::Test;
use super::load::{lawful, on_threads};
use super::random::seeds;
use heddledb::internals::random::Random;
use heddledb::objects::{TArray, TBox, TCounter, TList, TMap, TQueue, TVector};
use heddledb::protocol::Kind;
use heddledb::{Database, Deferring, Error, Objects, Result, Session, Transaction};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "objects_as_a_model_says", run: in_order },
        Test { name: "objects_queue_loses_nothing", run: queue },
    ]
}

#[derive(Objects)]
struct World {
    /// Says in which order transactions took effect.
    turn: TBox<u64>,
    one: TBox<i64>,
    sum: TCounter,
    array: TArray<i64>,
    vector: TVector<i64>,
    map: TMap<(u8, u8), i64>,
    #[hash]
    hashed: TMap<u64, i64>,
    queue: TQueue<i64>,
    list: TList<i64>,
    /// By the two threads that push, and for those who pop.
    jobs: TQueue<(u64, u64)>,
    done: TVector<(u64, u64)>,
}

const LEN: u64 = 4;

fn open(kind: Kind) -> Database {
    let builder = Database::builder().protocol(kind).sessions(kind.sessions_max().min(16));
    let db = lawful(builder.objects::<World>().open());
    lawful(lawful(db.session()).run(|tx| World::array.grow(tx, LEN, 0)));
    db
}

/// The same objects, for one at a time.
#[derive(Clone, Default)]
struct Model {
    one: i64,
    sum: i64,
    array: [i64; LEN as usize],
    vector: Vec<i64>,
    map: BTreeMap<(u8, u8), i64>,
    hashed: BTreeMap<u64, i64>,
    queue: VecDeque<i64>,
    /// With the numbers of the elements.
    list: Vec<(u64, i64)>,
    made: u64,
}

/// Something to do with an object; the number is a place, or says which.
#[derive(Clone, Copy, Debug)]
enum Step {
    AddToOne(i64),
    Count(i64),
    ArrayAdd(u64, i64),
    ArraySum,
    Push(i64),
    Pop,
    Insert(u64, i64),
    Remove(u64),
    Range(u64),
    Hashed(u64, i64),
    Enqueue(i64),
    Dequeue,
    Queued,
    ListFront(i64),
    ListBack(i64),
    /// Behind the element at this place, if there are so many.
    ListAfter(u64, i64),
    ListRemove(u64),
    ListAll,
}

impl Step {
    fn draw(random: &mut Random) -> Self {
        let (at, value) = (random.below(LEN), random.below(100) as i64);
        match random.below(22) {
            0 => Self::AddToOne(value),
            1 => Self::Count(value),
            2 | 3 => Self::ArrayAdd(at, value),
            4 => Self::ArraySum,
            5 | 6 => Self::Push(value),
            7 => Self::Pop,
            8 | 9 => Self::Insert(at, value),
            10 => Self::Remove(at),
            11 => Self::Range(at),
            12 => Self::Hashed(at, value),
            13 | 14 => Self::Enqueue(value),
            15 | 16 => Self::Dequeue,
            17 => Self::Queued,
            18 => Self::ListFront(value),
            19 => {
                if value < 50 {
                    Self::ListBack(value)
                } else {
                    Self::ListAfter(at, value)
                }
            }
            20 => Self::ListRemove(at),
            _ => Self::ListAll,
        }
    }

    fn key(at: u64) -> (u8, u8) {
        ((at / 2) as u8, (at % 2) as u8)
    }

    /// On the model; what it returns, as one number.
    fn model(self, world: &mut Model) -> i64 {
        let number = |world: &mut Model| {
            world.made += 1;
            world.made
        };
        match self {
            Self::AddToOne(value) => {
                world.one += value;
                world.one
            }
            Self::Count(value) => {
                world.sum += value;
                0
            }
            Self::ArrayAdd(at, value) => {
                world.array[at as usize] += value;
                world.array[at as usize]
            }
            Self::ArraySum => world.array.iter().sum(),
            Self::Push(value) => {
                world.vector.push(value);
                world.vector.len() as i64 - 1
            }
            Self::Pop => world.vector.pop().unwrap_or(-1),
            Self::Insert(at, value) => world.map.insert(Self::key(at), value).unwrap_or(-1),
            Self::Remove(at) => world.map.remove(&Self::key(at)).unwrap_or(-1),
            Self::Range(at) => world.map.range((at as u8 / 2, 0)..).fold(0, |hash, ((a, b), value)| {
                mixed(hash, i64::from(*a) * 100 + i64::from(*b) * 10 + *value)
            }),
            Self::Hashed(at, value) => {
                let before = world.hashed.remove(&at);
                if before.is_none() {
                    world.hashed.insert(at, value);
                }
                before.unwrap_or(-1)
            }
            Self::Enqueue(value) => {
                world.queue.push_back(value);
                0
            }
            Self::Dequeue => world.queue.pop_front().unwrap_or(-1),
            Self::Queued => {
                world.queue.iter().fold(world.queue.len() as i64, |hash, value| mixed(hash, *value))
            }
            Self::ListFront(value) => {
                let number = number(world);
                world.list.insert(0, (number, value));
                number as i64
            }
            Self::ListBack(value) => {
                let number = number(world);
                world.list.push((number, value));
                number as i64
            }
            Self::ListAfter(at, value) => {
                if at as usize >= world.list.len() {
                    return -1;
                }
                let number = number(world);
                world.list.insert(at as usize + 1, (number, value));
                number as i64
            }
            Self::ListRemove(at) => {
                if at as usize >= world.list.len() {
                    -1
                } else {
                    world.list.remove(at as usize).1
                }
            }
            Self::ListAll => {
                world.list.iter().fold(0, |hash, (number, value)| mixed(mixed(hash, *number as i64), *value))
            }
        }
    }

    /// The number of the element at a place of the list.
    fn listed(tx: &mut impl Transaction, at: u64) -> Result<Option<u64>> {
        let mut number = World::list.first(tx)?;
        for _ in 0..at {
            let Some(before) = number else { break };
            number = World::list.next(tx, before)?;
        }
        Ok(number)
    }

    /// On the objects.
    fn execute(self, tx: &mut impl Transaction) -> Result<i64> {
        Ok(match self {
            Self::AddToOne(value) => World::one.update(tx, |one| {
                *one += value;
                *one
            })?,
            Self::Count(value) => {
                World::sum.add(tx, value)?;
                0
            }
            Self::ArrayAdd(at, value) => World::array.update(tx, at, |element| {
                *element += value;
                *element
            })?,
            Self::ArraySum => World::array.collect(tx)?.iter().sum(),
            Self::Push(value) => World::vector.push(tx, value)? as i64,
            Self::Pop => World::vector.pop(tx)?.unwrap_or(-1),
            Self::Insert(at, value) => World::map.insert(tx, Self::key(at), value)?.unwrap_or(-1),
            Self::Remove(at) => World::map.remove(tx, Self::key(at))?.unwrap_or(-1),
            Self::Range(at) => {
                let mut hash = 0;
                World::map.for_each(tx, (at as u8 / 2, 0).., |(a, b), value| {
                    hash = mixed(hash, i64::from(a) * 100 + i64::from(b) * 10 + value);
                })?;
                hash
            }
            Self::Hashed(at, value) => {
                let before = World::hashed.remove(tx, at)?;
                if before.is_none() {
                    World::hashed.insert(tx, at, value)?;
                }
                before.unwrap_or(-1)
            }
            Self::Enqueue(value) => {
                World::queue.push(tx, value)?;
                0
            }
            Self::Dequeue => World::queue.pop(tx)?.unwrap_or(-1),
            Self::Queued => {
                let mut hash = World::queue.len(tx)? as i64;
                World::queue.for_each(tx, |value| hash = mixed(hash, value))?;
                hash
            }
            Self::ListFront(value) => World::list.push_front(tx, value)? as i64,
            Self::ListBack(value) => World::list.push_back(tx, value)? as i64,
            Self::ListAfter(at, value) => match Self::listed(tx, at)? {
                Some(number) => World::list.insert_after(tx, number, value)? as i64,
                None => -1,
            },
            Self::ListRemove(at) => match Self::listed(tx, at)? {
                Some(number) => World::list.remove(tx, number)?.unwrap_or(-2),
                None => -1,
            },
            Self::ListAll => {
                let mut hash = 0;
                World::list.for_each(tx, |number, value| hash = mixed(mixed(hash, number as i64), value))?;
                hash
            }
        })
    }
}

fn mixed(hash: i64, value: i64) -> i64 {
    hash.wrapping_mul(31).wrapping_add(value)
}

/// A transaction that committed: its turn, what it did, and what that returned.
type Done = (u64, Vec<Step>, Vec<i64>);

/// Executes steps, and says when they took effect; with `later`, some of them are deferred, and return nothing.
fn run(session: &mut Session, steps: &[Step], later: bool) -> Result<(u64, Vec<i64>)> {
    if !later {
        return session.run(|tx| {
            let results = steps.iter().map(|step| step.execute(tx)).collect::<Result<Vec<i64>>>()?;
            let turn = World::turn.update(tx, |turn| {
                *turn += 1;
                *turn
            })?;
            Ok((turn, results))
        });
    }
    let (turn, results) = session.defer(|tx| {
        let results = steps.iter().map(|step| match *step {
            Step::AddToOne(value) => {
                let one = World::one.update_later(tx, (), move |one, ()| {
                    *one += value;
                    *one
                })?;
                tx.map(one, |one| one.unwrap_or(-9))
            }
            Step::Count(value) => {
                let sum = World::sum.add_later(tx, value)?;
                tx.map(sum, |sum| sum.map_or(-9, |_| 0))
            }
            Step::ArrayAdd(at, value) => {
                let element = World::array.update_later(tx, at, (), move |element, ()| {
                    *element += value;
                    *element
                })?;
                tx.map(element, |element| element.unwrap_or(-9))
            }
            Step::Insert(at, value) => {
                let before = World::map.look(tx, Step::key(at))?;
                World::map.insert_later(tx, Step::key(at), (), move |()| value)?;
                tx.map(before, |before| before.unwrap_or(-1))
            }
            Step::Remove(at) => {
                let before = World::map.look(tx, Step::key(at))?;
                World::map.remove_later(tx, Step::key(at))?;
                tx.map(before, |before| before.unwrap_or(-1))
            }
            Step::Push(value) => {
                let index = World::vector.push_later(tx, (), move |()| value)?;
                tx.map(index, |index| index as i64)
            }
            Step::Enqueue(value) => {
                World::queue.push_later(tx, (), move |()| value)?;
                tx.map((), |()| 0)
            }
            other => {
                let result = other.execute(tx)?;
                tx.map((), move |()| result)
            }
        });
        let results = results.collect::<Result<Vec<_>>>()?;
        let turn = World::turn.update_later(tx, (), |turn, ()| {
            *turn += 1;
            *turn
        })?;
        Ok((turn, results))
    })?;
    Ok((turn.expect("the box was made"), results))
}

/// Random transactions of several threads, each of which takes a turn at its commit, return what the model returns in the order of
/// these turns; and then the objects are as the model is.
fn in_order(kind: Kind) {
    for seed in seeds(8) {
        let db = open(kind);
        let done: Mutex<Vec<Done>> = Mutex::default();
        on_threads(kind, &db, 3, |session, random, number| {
            *random = Random::new(seed * 3 + number as u64 + 1);
            for _ in 0..150 {
                let steps: Vec<Step> = (0..1 + random.below(4)).map(|_| Step::draw(random)).collect();
                // Now and then a transaction gives up, and leaves nothing.
                if random.below(10) == 0 {
                    let gave_up = session.run(|tx| {
                        steps.iter().try_for_each(|step| step.execute(tx).map(drop))?;
                        Err::<(), _>(Error::user("given up"))
                    });
                    assert!(matches!(gave_up, Err(Error::User(_))), "{kind}, seed {seed}: {gave_up:?}");
                }
                let (turn, results) = lawful(run(session, &steps, random.below(2) == 0));
                done.lock().unwrap().push((turn, steps, results));
            }
        });
        let mut done = done.into_inner().unwrap();
        done.sort_unstable_by_key(|(turn, ..)| *turn);
        let mut world = Model::default();
        for (at, (turn, steps, results)) in done.iter().enumerate() {
            assert_eq!(*turn, at as u64 + 1, "{kind}, seed {seed}: a turn is lost");
            let expected: Vec<i64> = steps.iter().map(|step| step.model(&mut world)).collect();
            assert_eq!(*results, expected, "{kind}, HEDDLE_SEED={seed}, turn {turn}: {steps:?}");
        }
        let mut session = lawful(db.session());
        lawful(session.run(|tx| {
            assert_eq!(World::sum.get(tx)?, world.sum, "{kind}, seed {seed}");
            assert_eq!(World::vector.collect(tx)?, world.vector, "{kind}, seed {seed}");
            assert_eq!(World::queue.collect(tx)?, Vec::from(world.queue.clone()), "{kind}, seed {seed}");
            let list: Vec<i64> = world.list.iter().map(|(_, value)| *value).collect();
            assert_eq!(World::list.collect(tx)?, list, "{kind}, seed {seed}");
            let mut backwards = Vec::new();
            let mut number = World::list.last(tx)?;
            while let Some(at) = number {
                backwards.extend(World::list.get(tx, at)?);
                number = World::list.previous(tx, at)?;
            }
            assert!(backwards.iter().rev().eq(&list), "{kind}, seed {seed}: {backwards:?}, {list:?}");
            Ok(())
        }));
    }
}

/// Two push, two pop and note what: every element is popped once, in the order in which its thread pushed it.
fn queue(kind: Kind) {
    const EACH: u64 = 400;
    let db = open(kind);
    let push = |session: &mut Session, number: u64| {
        for job in 0..EACH {
            // The one at once, the other at the commit.
            lawful(match number {
                0 => session.run(|tx| World::jobs.push(tx, (number, job))),
                _ => session.defer(|tx| World::jobs.push_later(tx, (), move |()| (number, job))),
            });
        }
    };
    let pop = |session: &mut Session, count: u64| {
        let mut popped = 0;
        while popped < count {
            let job = lawful(session.run(|tx| {
                let job = World::jobs.pop(tx)?;
                job.map_or(Ok(()), |job| World::done.push(tx, job).map(drop))?;
                Ok(job)
            }));
            popped += u64::from(job.is_some());
        }
    };
    if kind.sessions_max() < 4 {
        let mut session = lawful(db.session());
        push(&mut session, 0);
        push(&mut session, 1);
        pop(&mut session, 2 * EACH);
    } else {
        on_threads(kind, &db, 4, |session, _, number| match number {
            0 | 1 => push(session, number as u64),
            _ => pop(session, EACH),
        });
    }
    let done = lawful(lawful(db.session()).run(|tx| {
        assert!(World::jobs.is_empty(tx)?, "{kind}: an element is left");
        World::done.collect(tx)
    }));
    for number in 0..2 {
        let jobs: Vec<u64> = done.iter().filter(|(by, _)| *by == number).map(|(_, job)| *job).collect();
        assert!(
            jobs.iter().copied().eq(0..EACH),
            "{kind}: thread {number} pushed 0..{EACH}, popped were {jobs:?}"
        );
    }
}
