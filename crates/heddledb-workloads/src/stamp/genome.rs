//! Genome: a gene is put together from overlapping segments of it.
//!
//! Three phases, between which all threads meet. In the first, segments are put into a set, by eight, so that each is there once.
//! In the second, by decreasing overlap, each segment that has no successor is linked to one that begins as it ends and has no
//! predecessor. In the third one thread walks along the links. Which segments fit is found in a table that the
//! first thread makes between steps; links are transactions.
//!
//! A base takes two bits, so a segment of up to 64 bases is a key. All segments begin at most a quarter of their length apart, and
//! the gene is drawn so that what two neighbours share is nowhere else in it: then there is one solution.

use super::{Application, Place};
use crate::Check;
use crate::random::{shuffle, stream};
use crate::verdict::{Verdict, equal};
use heddledb::internals::shared::SharedU32;
use heddledb::objects::{Element, TArray, TMap};
use heddledb::{Builder, Database, Misuse, Objects, Result, Session, Transaction};
use rand::RngExt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// The longest segment.
const SEGMENT_MAX: usize = 64;
/// Segments that are put into the set at a time.
const CHUNK: usize = 8;
/// No segment.
const NONE: u64 = u64::MAX;

/// What is known of a segment's place.
#[derive(Element, Clone, Copy, Debug)]
pub struct Link {
    /// Its successor.
    next: u64,
    /// How many bases it shares with that.
    overlap: u32,
    /// Whether it has a predecessor.
    follows: bool,
    /// Of the last segment of a chain: the first. Of the first: the last. So no chain becomes a circle.
    other_end: u64,
}

/// The objects.
#[derive(Objects)]
pub struct Sequencer {
    #[hash]
    segments: TMap<u128, bool>,
    links: TArray<Link>,
}

/// The parameters of [`Genome`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Bases of the gene; DRP has 16,384.
    pub gene: usize,
    /// Bases of a segment; DRP has 64.
    pub segment: usize,
    /// Segments; DRP has 16,777,216.
    pub segments: usize,
}

impl Default for Parameters {
    /// STAMP's small input.
    fn default() -> Self {
        Self { gene: 256, segment: 16, segments: 16_384 }
    }
}

/// Genome with its parameters.
#[derive(Debug)]
pub struct Genome {
    parameters: Parameters,
}

/// What a run knows.
pub struct State {
    /// Bases, each 0 to 3.
    gene: Vec<u8>,
    /// Those that are read, with repetitions.
    drawn: Vec<u128>,
    failed: SharedU32,
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    /// Each segment once.
    unique: Vec<u128>,
    /// Of the segments without predecessor, by how they begin.
    begins: BTreeMap<u128, Vec<u64>>,
    /// What the third phase gave.
    rebuilt: Vec<u8>,
}

/// Bases as a number, the first one in front.
fn packed(bases: &[u8]) -> u128 {
    bases.iter().fold(0, |packed, base| packed << 2 | u128::from(*base))
}

impl Genome {
    /// The application with `parameters`.
    ///
    /// # Errors
    /// [`Misuse::Option`] for parameters that make no sense.
    pub fn new(parameters: Parameters) -> Result<Self> {
        let Parameters { gene, segment, segments } = parameters;
        let reason = if !(8..=SEGMENT_MAX).contains(&segment) || gene < 2 * segment || gene > 1 << 20 {
            format!(
                "a segment has 8 to {SEGMENT_MAX} bases, and a gene from twice as many to 1048576: {segment} and {gene} are not"
            )
        } else if segment * 3 / 4 < 8 + (gene.ilog2() as usize).saturating_sub(8) {
            format!(
                "segments of {segment} bases are too short to tell where in a gene of {gene} they are; give longer ones"
            )
        } else if segments < gene / (segment / 4) + 2 {
            format!("{segments} segments do not cover a gene of {gene} bases; give more")
        } else {
            return Ok(Self { parameters });
        };
        Err(Misuse::Option(reason).into())
    }

    /// Draws a gene in which everything as long as what two neighbours share is once.
    fn gene(&self, seed: u64) -> Vec<u8> {
        let Parameters { gene, segment, .. } = self.parameters;
        let shared = segment - segment / 4;
        (0..)
            .map(|number| {
                let rng = &mut stream(seed, number);
                (0..gene).map(|_| rng.random_range(0..4u8)).collect::<Vec<u8>>()
            })
            .find(|gene| {
                let mut seen = BTreeSet::new();
                gene.windows(shared).all(|window| seen.insert(packed(window)))
            })
            .expect("such a gene is drawn at some time")
    }

    /// The first worker, behind the first phase: gives each segment its number.
    fn number(session: &mut Session, state: &State) -> Result<()> {
        // The set is not ordered, so it is asked for what was drawn.
        let mut unique: Vec<u128> = state.drawn.clone();
        unique.sort_unstable();
        unique.dedup();
        for some in unique.chunks(64) {
            session.run(|tx| {
                for segment in some {
                    if !Sequencer::segments.contains(tx, *segment)? {
                        return Err(heddledb::Error::user("a segment was not put into the set"));
                    }
                }
                let len = Sequencer::links.len(tx)?;
                let alone = |at| Link { next: NONE, overlap: 0, follows: false, other_end: at };
                for at in len..len + some.len() as u64 {
                    Sequencer::links.grow(tx, at + 1, alone(at))?;
                }
                Ok(())
            })?;
        }
        state.now().unique = unique;
        Ok(())
    }

    /// The first worker, before a step of the second phase: those without predecessor, by how they begin.
    fn table(&self, session: &mut Session, state: &State, overlap: usize) -> Result<()> {
        let links = session.run(|tx| Sequencer::links.collect(tx))?;
        let now = &mut *state.now();
        now.begins.clear();
        for at in (0..links.len()).filter(|at| !links[*at].follows) {
            let begin = now.unique[at] >> (2 * (self.parameters.segment - overlap));
            now.begins.entry(begin).or_default().push(at as u64);
        }
        Ok(())
    }

    /// One worker's part of a step of the second phase.
    fn link(place: &Place<'_>, session: &mut Session, state: &State, overlap: usize) -> Result<()> {
        let mine: Vec<(u64, Vec<u64>)> = {
            let now = state.now();
            let ends = |segment: u128| segment & ((1 << (2 * overlap)) - 1);
            let fits = |at: u64| now.begins.get(&ends(now.unique[at as usize])).cloned();
            let numbers = (place.worker as u64..now.unique.len() as u64).step_by(place.workers);
            numbers.filter_map(|at| Some((at, fits(at)?))).collect()
        };
        for (at, candidates) in mine {
            session.run(|tx| candidates.iter().try_for_each(|next| join(tx, at, *next, overlap as u32)))?;
        }
        Ok(())
    }

    /// The third phase.
    fn rebuild(&self, session: &mut Session, state: &State) -> Result<()> {
        let links = session.run(|tx| Sequencer::links.collect(tx))?;
        let now = &mut *state.now();
        let segment = self.parameters.segment;
        let mut rebuilt = Vec::new();
        let bases = |packed: u128, from: usize| {
            (from..segment).map(move |at| (packed >> (2 * (segment - 1 - at)) & 3) as u8)
        };
        for first in links.iter().enumerate().filter(|(_, link)| !link.follows).map(|(at, _)| at) {
            let (mut at, mut overlap, mut left) = (first, 0, links.len());
            loop {
                rebuilt.extend(bases(now.unique[at], overlap));
                left -= 1;
                if links[at].next == NONE || left == 0 {
                    break;
                }
                (at, overlap) = (links[at].next as usize, links[at].overlap as usize);
            }
        }
        now.rebuilt = rebuilt;
        Ok(())
    }
}

/// Links a segment to the next, if neither has such a neighbour yet and no circle comes of it.
fn join(tx: &mut impl Transaction, at: u64, next: u64, overlap: u32) -> Result<()> {
    let (one, other) = (Sequencer::links.get(tx, at)?, Sequencer::links.get(tx, next)?);
    if at == next || one.next != NONE || other.follows || one.other_end == next {
        return Ok(());
    }
    // Each is at an end of its chain, so it knows the other end.
    let (first, last) = (one.other_end, other.other_end);
    Sequencer::links.update(tx, at, |link| (link.next, link.overlap) = (next, overlap))?;
    Sequencer::links.update(tx, next, |link| link.follows = true)?;
    Sequencer::links.update(tx, first, |link| link.other_end = last)?;
    Sequencer::links.update(tx, last, |link| link.other_end = first)
}

impl State {
    fn now(&self) -> std::sync::MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Application for Genome {
    type State = State;

    fn name(&self) -> &'static str {
        "genome"
    }

    fn parameters(&self) -> Vec<(String, String)> {
        let p = &self.parameters;
        [("gene", p.gene), ("segment", p.segment), ("segments", p.segments)]
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .into()
    }

    fn tables(&self, builder: Builder) -> Builder {
        builder.objects::<Sequencer>()
    }

    fn load(&self, _db: &Database, seed: u64) -> Result<State> {
        let Parameters { gene: bases, segment, segments } = self.parameters;
        let gene = self.gene(seed);
        let rng = &mut stream(!seed, 0);
        let last = bases - segment;
        let covering = (0..last).step_by(segment / 4).chain([last]);
        let mut begins: Vec<usize> = covering.collect();
        while begins.len() < segments {
            begins.push(rng.random_range(0..=last));
        }
        shuffle(rng, &mut begins);
        let drawn = begins.iter().map(|begin| packed(&gene[*begin..*begin + segment])).collect();
        Ok(State { gene, drawn, failed: SharedU32::new(0), now: Mutex::default() })
    }

    fn work(&self, place: &Place<'_>, session: &mut Session, state: &State) -> Result<()> {
        let mut outcome = Ok(());
        // Once somebody has failed, nobody does anything any more but meet.
        let mut part = |work: &mut dyn FnMut() -> Result<()>| {
            if state.failed.load() == 0
                && let Err(error) = work()
            {
                state.failed.fetch_add(1);
                outcome = Err(error);
            }
            (place.meet)();
        };
        let is_first = place.worker == 0;
        part(&mut || {
            let mut chunks = state.drawn.chunks(CHUNK).skip(place.worker).step_by(place.workers);
            chunks.try_for_each(|some| {
                session.run(|tx| {
                    some.iter()
                        .try_for_each(|segment| Sequencer::segments.insert(tx, *segment, true).map(drop))
                })
            })
        });
        part(&mut || if is_first { Self::number(session, state) } else { Ok(()) });
        for overlap in (1..self.parameters.segment).rev() {
            part(&mut || if is_first { self.table(session, state, overlap) } else { Ok(()) });
            part(&mut || Self::link(place, session, state, overlap));
        }
        part(&mut || if is_first { self.rebuild(session, state) } else { Ok(()) });
        outcome
    }

    fn check(&self, db: &Database, state: &State) -> Result<Vec<Check>> {
        let now = state.now();
        let mut same = Verdict::new("the gene is what it was");
        same.require(now.rebuilt == state.gene, || {
            let same = now.rebuilt.iter().zip(&state.gene).take_while(|(one, other)| one == other).count();
            format!("{} bases, of which {same} are right, instead of {}", now.rebuilt.len(), state.gene.len())
        });
        let links = db.session()?.run(|tx| Sequencer::links.collect(tx))?;
        let mut once = Verdict::new("every segment but one has a successor, and is one of one segment");
        let mut followed: BTreeMap<u64, u32> = BTreeMap::new();
        links.iter().for_each(|link| *followed.entry(link.next).or_default() += 1);
        once.require(followed.values().all(|count| *count == 1) && followed.contains_key(&NONE), || {
            format!("{:?}", followed.iter().find(|(_, count)| **count > 1))
        });
        for (at, link) in links.iter().enumerate() {
            once.require(link.follows == followed.contains_key(&(at as u64)), || {
                format!("segment {at}: {link:?}")
            });
        }
        Ok(vec![
            same.finish(),
            once.finish(),
            equal(
                "every segment is there once",
                ("links", links.len() as i128),
                ("segments", now.unique.len() as i128),
            ),
        ])
    }
}
