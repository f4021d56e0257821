//! K-means: points are put to the nearest of `k` centres, and centres to the middle of their points, until few points change.
//!
//! In each phase threads take points, three at a time, by a shared index (transaction B), find the nearest centre among
//! copies that do not change meanwhile, and add the point to the centre's accumulator (transaction A): a count and
//! 32 sums. At its end a thread adds how many of its points have changed (transaction C). All that is deferred: keys
//! are known, nothing is read. Between phases the threads meet, and the first one moves the centres.
//!
//! **Exact.** Coordinates are whole numbers of a millionth of a standard deviation, so sums do not depend on an order, and are
//! compared exactly. The input is drawn as STAMP's `random-n..-d32-c16`: 16 middles, evenly in a cube, and points about them
//! with a deviation of (1/16)^3, then each coordinate to mean 0 and deviation 1.
//!
//! STAMP lets a thread begin at its own number; here all points come by the shared index.

use super::{Application, Place};
use crate::Check;
use crate::random::stream;
use crate::verdict::{Verdict, equal};
use heddledb::internals::shared::{SharedU32, SharedU64};
use heddledb::objects::{Element, TArray, TBox, TCounter};
use heddledb::table::{ColumnType, ColumnValue, Words, WordsMut};
use heddledb::{Builder, Database, Error, Misuse, Objects, Result, Session};
use rand::RngExt;
use rand::rngs::SmallRng;
use std::sync::{Mutex, PoisonError};

/// Coordinates of a point.
pub const DIMENSIONS: usize = 32;
/// Middles about which points are drawn.
const MIDDLES: usize = 16;
/// Points that a worker takes at a time.
const CHUNK: u64 = 3;
/// Phases at most.
const PHASES_MAX: u32 = 500;
/// Words of an accumulator.
const WORDS: usize = 1 + DIMENSIONS;
/// Cycles of a point's distance from a centre: a multiplication takes one, and what is around them is hidden.
const NEAREST_CYCLES: u64 = 40;
/// Units of a standard deviation.
const UNIT: f64 = 1e6;

/// A point, in units; or the sum of points.
type Point = [i64; DIMENSIONS];

/// Sums of coordinates, as a column of as many words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sums(Point);

impl ColumnValue for Sums {
    const TYPE: ColumnType = ColumnType::Bytes(8 * DIMENSIONS);
    #[inline]
    fn load(source: &impl Words, offset: usize) -> Self {
        Self(std::array::from_fn(|at| source.word(offset / 8 + at) as i64))
    }
    #[inline]
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        self.0.iter().enumerate().for_each(|(at, sum)| target.set_word(offset / 8 + at, *sum as u64));
    }
}

/// A centre's accumulator.
#[derive(Element, Clone, Copy, Debug)]
pub struct Accumulator {
    len: u64,
    sums: Sums,
}

const EMPTY: Accumulator = Accumulator { len: 0, sums: Sums([0; DIMENSIONS]) };

/// The objects.
#[derive(Objects)]
pub struct Means {
    /// Where the points of this phase are added up, by their centre.
    accumulators: TArray<Accumulator>,
    /// The next point that nobody has taken.
    next: TBox<u64>,
    /// How many points have changed in this phase.
    changed: TCounter,
}

/// The parameters of [`Kmeans`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Points.
    pub points: usize,
    /// The largest number of centres that is tried.
    pub most: usize,
    /// The smallest.
    pub least: usize,
    /// As many points may change in the last phase, as a share of all.
    pub threshold: f64,
    /// Transactions read and write at once, and do not defer.
    pub eager: bool,
    /// One worker adds to plain numbers, without a database: what speed-ups are over.
    pub plain: bool,
}

impl Parameters {
    /// DRP's low contention: 160 centres; but for the points, of which the paper has 262,144.
    pub const LOW: Self =
        Self { points: 16_384, most: 160, least: 160, threshold: 0.001, eager: false, plain: false };
    /// DRP's high contention: 40 centres, and until nothing changes any more.
    pub const HIGH: Self = Self { most: 40, least: 40, threshold: 0.00001, ..Self::LOW };
    /// The points of the paper.
    pub const POINTS_OF_THE_PAPER: usize = 262_144;
}

/// K-means with its parameters.
#[derive(Debug)]
pub struct Kmeans {
    parameters: Parameters,
}

impl Kmeans {
    /// The application with `parameters`.
    ///
    /// # Errors
    /// [`Misuse::Option`] for parameters that make no sense.
    pub fn new(parameters: Parameters) -> Result<Self> {
        let Parameters { points, most, least, threshold, .. } = parameters;
        let reason = if least == 0 || least > most || most > points {
            format!(
                "there are 1 to as many centres as points, and the least number is not above the most: {least} to {most} of {points} are not"
            )
        } else if !(0.0..1.0).contains(&threshold) {
            format!("the threshold is a share, from 0 to below 1, not {threshold}")
        } else {
            return Ok(Self { parameters });
        };
        Err(Misuse::Option(reason).into())
    }
}

/// What a run knows.
pub struct State {
    points: Vec<Point>,
    /// Of each point the centre that it is put to; `u32::MAX` before the first phase.
    membership: Vec<SharedU32>,
    /// Of each point the last phase in which it was taken.
    taken: Vec<SharedU32>,
    /// Points that were taken twice in a phase.
    twice: SharedU64,
    /// What a plain run adds to: a centre's count and sums, one after the other.
    plain: Vec<SharedU64>,
    /// The next point of a plain run.
    plain_next: SharedU64,
    /// How many points have changed in a plain run's phase.
    plain_changed: SharedU64,
    /// Workers that have failed: then all end after the phase.
    failed: SharedU32,
    /// What the first worker has set for the next phase.
    now: Mutex<Now>,
}

#[derive(Clone, Default)]
struct Now {
    /// From 1 on.
    phase: u32,
    /// The phase among those with as many centres.
    attempt: u32,
    centres: Vec<Point>,
    /// The centres of the last phase, by which its memberships were found.
    last: Vec<Point>,
    /// The memberships before this phase.
    before: Vec<u32>,
    is_over: bool,
    verdicts: Vec<Check>,
}

/// Of a standard normal distribution, by the polar method.
fn normal(random: &mut SmallRng) -> f64 {
    loop {
        let (x, y) = (random.random::<f64>() * 2.0 - 1.0, random.random::<f64>() * 2.0 - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * square.ln() / square).sqrt();
        }
    }
}

/// Draws the points.
fn points(count: usize, seed: u64) -> Vec<Point> {
    let random = &mut stream(seed, 0);
    let middles: Vec<[f64; DIMENSIONS]> =
        (0..MIDDLES).map(|_| std::array::from_fn(|_| random.random::<f64>())).collect();
    let deviation = (1.0 / MIDDLES as f64).powi(3);
    let drawn: Vec<[f64; DIMENSIONS]> = (0..count)
        .map(|_| {
            let middle = middles[random.random_range(0..MIDDLES)];
            middle.map(|coordinate| coordinate + deviation * normal(random))
        })
        .collect();
    let mut points = vec![[0; DIMENSIONS]; count];
    for at in 0..DIMENSIONS {
        let mean = drawn.iter().map(|point| point[at]).sum::<f64>() / count as f64;
        let variance = drawn.iter().map(|point| (point[at] - mean).powi(2)).sum::<f64>() / count as f64;
        // All the same where there is one point.
        let scale = if variance > 0.0 { UNIT / variance.sqrt() } else { 0.0 };
        for (point, drawn) in points.iter_mut().zip(&drawn) {
            point[at] = ((drawn[at] - mean) * scale).round() as i64;
        }
    }
    points
}

/// The nearest centre; the first of several.
fn nearest(point: &Point, centres: &[Point]) -> u32 {
    let distance = |centre: &Point| -> i128 {
        // In 64 bits: differences are of some millions, and there are 32.
        let square = |(one, other): (&i64, &i64)| (one - other).pow(2);
        point.iter().zip(centre).map(square).sum::<i64>().into()
    };
    let nearest = centres.iter().enumerate().min_by_key(|(_, centre)| distance(centre));
    nearest.map_or(0, |(at, _)| at as u32)
}

impl State {
    /// The plain accumulators of the centres that there are, and the changes; both are cleared.
    fn collect(&self, centres: usize) -> (Vec<Accumulator>, i64) {
        let cleared = |number: &SharedU64| {
            let value = number.load();
            number.store(0);
            value
        };
        cleared(&self.plain_next);
        let accumulator = |words: &[SharedU64]| Accumulator {
            len: cleared(&words[0]),
            sums: Sums(std::array::from_fn(|at| cleared(&words[1 + at]) as i64)),
        };
        let all = self.plain.chunks(WORDS).take(centres).map(accumulator).collect();
        (all, cleared(&self.plain_changed) as i64)
    }

    fn now(&self) -> std::sync::MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kmeans {
    /// Transaction B: takes some points.
    fn take(&self, session: &mut Session, state: &State) -> Result<u64> {
        let take = |next: &mut u64| {
            *next += CHUNK;
            *next - CHUNK
        };
        if self.parameters.plain {
            let next = state.plain_next.load();
            state.plain_next.store(next + CHUNK);
            return Ok(next);
        }
        if self.parameters.eager {
            return session.run(|tx| Means::next.update(tx, take));
        }
        let first = session.defer(|tx| Means::next.update_later(tx, (), move |next, ()| take(next)))?;
        first.ok_or_else(|| Error::user("the index was not made"))
    }

    /// Transaction A: adds a point to its centre.
    fn add(&self, session: &mut Session, state: &State, centre: u32, point: Point) -> Result<()> {
        if self.parameters.plain {
            let [len, sums @ ..] = &state.plain[centre as usize * WORDS..][..WORDS] else { return Ok(()) };
            len.store(len.load() + 1);
            let add =
                |(sum, coordinate): (&SharedU64, i64)| sum.store(sum.load().wrapping_add_signed(coordinate));
            sums.iter().zip(point).for_each(add);
            return Ok(());
        }
        let centre = u64::from(centre);
        let add = move |to: &mut Accumulator| {
            to.len += 1;
            to.sums.0.iter_mut().zip(&point).for_each(|(sum, coordinate)| *sum += coordinate);
        };
        if self.parameters.eager {
            return session.run(|tx| Means::accumulators.update(tx, centre, add));
        }
        session
            .defer(|tx| Means::accumulators.update_later(tx, centre, (), move |to, ()| add(to)))?
            .ok_or_else(|| Error::user("there is no such centre"))
    }

    /// Transaction C: counts changes.
    fn count(&self, session: &mut Session, state: &State, changed: i64) -> Result<()> {
        if self.parameters.plain {
            state.plain_changed.store(changed as u64);
            return Ok(());
        }
        if self.parameters.eager {
            return session.run(|tx| Means::changed.add(tx, changed));
        }
        session.defer(|tx| Means::changed.add_later(tx, changed)).map(drop)
    }

    /// One worker's part of a phase.
    fn phase(
        &self,
        place: &Place<'_>,
        session: &mut Session,
        state: &State,
        phase: u32,
        centres: &[Point],
    ) -> Result<()> {
        let mut changed = 0;
        loop {
            let first = self.take(session, state)? as usize;
            if first >= state.points.len() {
                break;
            }
            for at in first..state.points.len().min(first + CHUNK as usize) {
                let point = state.points[at];
                let centre = nearest(&point, centres);
                (place.compute)(centres.len() as u64 * NEAREST_CYCLES);
                if state.taken[at].fetch_max(phase) >= phase {
                    state.twice.fetch_add(1);
                }
                if state.membership[at].load() != centre {
                    changed += 1;
                    state.membership[at].store(centre);
                }
                self.add(session, state, centre, point)?;
            }
        }
        self.count(session, state, changed)
    }

    /// The first worker, between phases: checks the last one, moves the centres, and says how to go on.
    fn between(&self, session: &mut Session, state: &State) -> Result<()> {
        let now = &mut *state.now();
        let (accumulators, changed) = if self.parameters.plain {
            state.collect(now.centres.len())
        } else {
            session.run(|tx| {
                let all = Means::accumulators.collect(tx)?;
                for at in 0..all.len() as u64 {
                    Means::accumulators.set(tx, at, EMPTY)?;
                }
                Means::next.set(tx, 0)?;
                let changed = Means::changed.get(tx)?;
                Means::changed.add(tx, -changed)?;
                Ok((all, changed))
            })?
        };
        self.judge(now, state, &accumulators, changed);
        now.last = now.centres.clone();
        for (centre, Accumulator { len, sums }) in now.centres.iter_mut().zip(&accumulators) {
            if *len > 0 {
                *centre = sums.0.map(|sum| sum / *len as i64);
            }
        }
        let share = changed as f64 / state.points.len() as f64;
        now.attempt += 1;
        if share <= self.parameters.threshold || now.attempt >= PHASES_MAX {
            // On to one centre more.
            let more = now.centres.len() + 1;
            now.is_over = more > self.parameters.most;
            if !now.is_over {
                begin(now, state, more, now.phase.into());
                state.membership.iter().for_each(|membership| membership.store(u32::MAX));
                session.run(|tx| Means::accumulators.grow(tx, more as u64, EMPTY))?;
            }
        }
        now.phase += 1;
        now.before = state.membership.iter().map(SharedU32::load).collect();
        Ok(())
    }

    /// Checks a phase; what has failed stays, and of what has held the last.
    fn judge(&self, now: &mut Now, state: &State, accumulators: &[Accumulator], changed: i64) {
        let (phase, count) = (now.phase, state.points.len() as i128);
        let taken = state.taken.iter().filter(|taken| taken.load() == phase).count();
        let mut once = Verdict::new("in each phase every point is taken once");
        let twice = state.twice.load();
        once.require(taken as i128 == count && twice == 0, || {
            format!("phase {phase}: {taken} of {count} were taken, {twice} more than once")
        });
        let len: u64 = accumulators.iter().map(|accumulator| accumulator.len).sum();
        let mut summed = Verdict::new("in each phase the centres' sums are those of all points");
        for at in 0..DIMENSIONS {
            let of_centres: i64 = accumulators.iter().map(|accumulator| accumulator.sums.0[at]).sum();
            let of_points: i64 = state.points.iter().map(|point| point[at]).sum();
            summed.require(of_centres == of_points, || {
                format!(
                    "phase {phase}, coordinate {at}: {of_centres} of the centres, {of_points} of the points"
                )
            });
        }
        let moved = state.membership.iter().zip(&now.before).filter(|(now, before)| now.load() != **before);
        let checks = [
            once.finish(),
            equal(
                "in each phase the centres count every point once",
                ("counted", len.into()),
                ("points", count),
            ),
            summed.finish(),
            equal(
                "in each phase the changes are those of the memberships",
                ("counted", changed.into()),
                ("found", moved.count() as i128),
            ),
        ];
        for check in checks {
            match now.verdicts.iter_mut().find(|known| known.name == check.name) {
                None => now.verdicts.push(check),
                Some(known) if known.ok => *known = check,
                Some(_) => {}
            }
        }
    }
}

/// Begins anew with so many centres, which are points.
fn begin(now: &mut Now, state: &State, centres: usize, seed: u64) {
    let random = &mut stream(seed, centres as u64);
    let mut chosen: Vec<usize> = Vec::new();
    while chosen.len() < centres {
        let at = random.random_range(0..state.points.len());
        if !chosen.contains(&at) {
            chosen.push(at);
        }
    }
    now.centres = chosen.into_iter().map(|at| state.points[at]).collect();
    now.attempt = 0;
}

impl Application for Kmeans {
    type State = State;

    fn name(&self) -> &'static str {
        "kmeans"
    }

    fn parameters(&self) -> Vec<(String, String)> {
        let p = &self.parameters;
        [
            ("points", p.points.to_string()),
            ("dimensions", DIMENSIONS.to_string()),
            ("most_centres", p.most.to_string()),
            ("least_centres", p.least.to_string()),
            ("threshold", p.threshold.to_string()),
            ("eager", p.eager.to_string()),
            ("plain", p.plain.to_string()),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into()
    }

    fn tables(&self, builder: Builder) -> Builder {
        builder.objects::<Means>()
    }

    fn load(&self, db: &Database, seed: u64) -> Result<State> {
        let Parameters { points: count, least, .. } = self.parameters;
        let shared = |value: u32| -> Vec<SharedU32> { (0..count).map(|_| SharedU32::new(value)).collect() };
        let state = State {
            points: points(count, seed),
            membership: shared(u32::MAX),
            taken: shared(0),
            twice: SharedU64::new(0),
            plain: (0..self.parameters.most * WORDS).map(|_| SharedU64::new(0)).collect(),
            plain_next: SharedU64::new(0),
            plain_changed: SharedU64::new(0),
            failed: SharedU32::new(0),
            now: Mutex::default(),
        };
        {
            let now = &mut *state.now();
            begin(now, &state, least, seed);
            (now.phase, now.before) = (1, vec![u32::MAX; count]);
        }
        db.session()?.run(|tx| Means::accumulators.grow(tx, least as u64, EMPTY))?;
        Ok(state)
    }

    fn work(&self, place: &Place<'_>, session: &mut Session, state: &State) -> Result<()> {
        let mut outcome = Ok(());
        let mut note = |result: Result<()>| {
            if result.is_err() {
                state.failed.fetch_add(1);
                outcome = std::mem::replace(&mut outcome, Ok(())).and(result);
            }
        };
        loop {
            let Now { phase, centres, .. } = state.now().clone();
            note(match self.parameters.plain && place.workers > 1 {
                true => Err(Error::user("plain numbers have one worker")),
                false => self.phase(place, session, state, phase, &centres),
            });
            (place.meet)();
            if place.worker == 0 && state.failed.load() == 0 {
                note(self.between(session, state));
            }
            (place.meet)();
            if state.failed.load() > 0 || state.now().is_over {
                return outcome;
            }
        }
    }

    fn beside(&self, state: &State) -> u64 {
        let points = state.points.len() as u64;
        // In each phase a transaction for each point, for each time that points are taken or there are none, and for the changes.
        let of_phase = points + points.div_ceil(CHUNK) + 2;
        if self.parameters.plain { u64::from(state.now().phase - 1) * of_phase } else { 0 }
    }

    fn check(&self, db: &Database, state: &State) -> Result<Vec<Check>> {
        let now = state.now();
        let mut checks = now.verdicts.clone();
        let mut put = Verdict::new("every point is with the centre that was the nearest in the last phase");
        for (at, point) in state.points.iter().enumerate() {
            let (found, expected) = (state.membership[at].load(), nearest(point, &now.last));
            put.require(found == expected, || {
                format!("point {at} is with {found}, and {expected} is nearest")
            });
        }
        checks.push(put.finish());
        let (left, next) = db.session()?.run(|tx| {
            let all = Means::accumulators.collect(tx)?;
            Ok((all.iter().map(|accumulator| accumulator.len).sum::<u64>(), Means::next.get(tx)?))
        })?;
        checks.push(equal(
            "nothing is left behind the last phase",
            ("left", left.into()),
            ("index", next.into()),
        ));
        let mut over = Verdict::new("the run came to its end");
        over.require(now.is_over, || format!("it ended in phase {}", now.phase));
        checks.push(over.finish());
        Ok(checks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_normal_in_each_coordinate_and_lie_about_their_middles() {
        let points = points(2_000, 5);
        for at in 0..DIMENSIONS {
            let mean = points.iter().map(|point| point[at] as f64).sum::<f64>() / 2_000.0;
            let square = points.iter().map(|point| (point[at] as f64).powi(2)).sum::<f64>() / 2_000.0;
            assert!(mean.abs() < 1.0 && (square.sqrt() / UNIT - 1.0).abs() < 1e-3, "{at}: {mean}, {square}");
        }
        // Those of a middle are nearer to one another than to any other.
        let middles: Vec<Point> = points.iter().fold(Vec::new(), |mut middles, point| {
            let is_near = |middle: &Point| middle.iter().zip(point).all(|(a, b)| (a - b).abs() < 20_000);
            if !middles.iter().any(is_near) {
                middles.push(*point);
            }
            middles
        });
        assert_eq!(middles.len(), MIDDLES);
    }

    #[test]
    fn senseless_parameters_are_refused() {
        for wrong in [
            Parameters { least: 0, ..Parameters::LOW },
            Parameters { least: 161, ..Parameters::LOW },
            Parameters { points: 159, ..Parameters::LOW },
            Parameters { threshold: 1.0, ..Parameters::LOW },
        ] {
            assert!(Kmeans::new(wrong).is_err(), "{wrong:?}");
        }
    }
}
