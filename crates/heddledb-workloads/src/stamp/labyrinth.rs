//! Labyrinth: wires between pairs of points in a grid, none of which crosses another (Lee's routing).
//!
//! A worker pops a pair, copies the grid, searches the copy for a shortest way through free cells, and lays it in one transaction,
//! if its cells are still free; otherwise it copies the grid again. As in STAMP the copy is no part of that
//! transaction: it is read a layer's row at a time. A cell that is taken stays so, which is why a pair for which
//! there is no way in a copy, whose rows are of several moments, has none later either. Nothing is deferred: which
//! cells are written is known only when the grid is.

use super::{Application, Place};
use crate::Check;
use crate::random::stream;
use crate::verdict::{Verdict, equal};
use heddledb::internals::shared::SharedU64;
use heddledb::objects::{Element, TArray, TMap, TQueue};
use heddledb::{Builder, Database, Misuse, Objects, Result, Session};
use rand::RngExt;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Cells at most.
const CELLS_MAX: u64 = 1 << 24;
/// Nothing is in a cell.
const FREE: u32 = 0;
/// Cycles of a cell that a search comes to: six neighbours are looked at.
const CELL_CYCLES: u64 = 20;

/// Two points to be connected.
#[derive(Element, Clone, Copy, Debug)]
pub struct Pair {
    /// From 1 on; what the cells of its way hold.
    name: u32,
    from: u64,
    to: u64,
}

/// The objects.
#[derive(Objects)]
pub struct Maze {
    /// Pairs that nobody has taken.
    pairs: TQueue<Pair>,
    /// Of each cell the pair whose way goes through it, or 0.
    pub cells: TArray<u32>,
    /// How many cells a way has, by pair.
    lengths: TMap<u32, u64>,
}

/// The parameters of [`Labyrinth`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Cells of the grid in each direction; the third is that of layers.
    pub size: [u64; 3],
    /// Pairs of points.
    pub pairs: u32,
}

impl Default for Parameters {
    /// STAMP's small input.
    fn default() -> Self {
        Self { size: [32, 32, 3], pairs: 96 }
    }
}

/// Labyrinth with its parameters.
#[derive(Debug)]
pub struct Labyrinth {
    parameters: Parameters,
}

/// Ways by pair, as often as one was found; none where there is no way.
type Ways = BTreeMap<u32, Vec<Option<Vec<u64>>>>;

/// What a run knows.
pub struct State {
    pairs: Vec<Pair>,
    found: Mutex<Ways>,
    /// Ways that were in somebody's way.
    again: SharedU64,
}

impl Labyrinth {
    /// The application with `parameters`.
    ///
    /// # Errors
    /// [`Misuse::Option`] for parameters that make no sense.
    pub fn new(parameters: Parameters) -> Result<Self> {
        let Parameters { size, pairs } = parameters;
        let cells = size.iter().try_fold(1u64, |cells, length| cells.checked_mul(*length));
        match cells.filter(|cells| (1..=CELLS_MAX).contains(cells)) {
            None => {
                let reason = format!("a grid has 1 to {CELLS_MAX} cells; {size:?} has not");
                Err(Misuse::Option(reason).into())
            }
            Some(cells) if pairs == 0 || u64::from(pairs) * 2 > cells => {
                let reason = format!(
                    "there is a pair at least, and a cell for each point: {pairs} in {cells} cells are not"
                );
                Err(Misuse::Option(reason).into())
            }
            Some(_) => Ok(Self { parameters }),
        }
    }

    fn cells(&self) -> u64 {
        self.parameters.size.iter().product()
    }

    /// The cells beside one.
    fn beside(&self, cell: u64) -> impl Iterator<Item = u64> {
        let [x, y, z] = self.parameters.size;
        let steps = [(1, cell % x, x), (x, cell / x % y, y), (x * y, cell / (x * y), z)];
        steps.into_iter().flat_map(move |(step, at, length)| {
            let back = (at > 0).then(|| cell - step);
            let on = (at + 1 < length).then(|| cell + step);
            back.into_iter().chain(on)
        })
    }

    /// A shortest way through free cells, both ends included, and how many cells were looked at.
    fn route(&self, cells: &[u32], from: u64, to: u64) -> (Option<Vec<u64>>, u64) {
        const UNSEEN: u64 = u64::MAX;
        let is_free = |cell: u64| cells[cell as usize] == FREE;
        if !is_free(from) || !is_free(to) {
            return (None, 1);
        }
        let mut before = vec![UNSEEN; cells.len()];
        before[from as usize] = from;
        let mut next = VecDeque::from([from]);
        let mut looked = 0;
        while let Some(cell) = next.pop_front() {
            looked += 1;
            if cell == to {
                let mut way = vec![to];
                while way[way.len() - 1] != from {
                    way.push(before[way[way.len() - 1] as usize]);
                }
                way.reverse();
                return (Some(way), looked);
            }
            for other in self.beside(cell) {
                if before[other as usize] == UNSEEN && is_free(other) {
                    before[other as usize] = cell;
                    next.push_back(other);
                }
            }
        }
        (None, looked)
    }

    /// The grid, a row at a time.
    fn copy(&self, session: &mut Session) -> Result<Vec<u32>> {
        let (cells, row) = (self.cells(), self.parameters.size[0]);
        let mut copy = Vec::with_capacity(cells as usize);
        for first in (0..cells).step_by(row as usize) {
            let of_row: Vec<u32> = session.run(|tx| {
                (first..first + row).map(|cell| Maze::cells.get(tx, cell)).collect::<Result<_>>()
            })?;
            copy.extend(of_row);
        }
        Ok(copy)
    }

    /// Connects a pair; none if there is no way.
    fn connect(
        &self,
        place: &Place<'_>,
        session: &mut Session,
        state: &State,
        pair: Pair,
    ) -> Result<Option<Vec<u64>>> {
        loop {
            let (way, looked) = self.route(&self.copy(session)?, pair.from, pair.to);
            (place.compute)(looked * CELL_CYCLES);
            let Some(way) = way else { return Ok(None) };
            let is_laid = session.run(|tx| {
                for cell in &way {
                    if Maze::cells.get(tx, *cell)? != FREE {
                        return Ok(false);
                    }
                }
                way.iter().try_for_each(|cell| Maze::cells.set(tx, *cell, pair.name))?;
                Maze::lengths.insert(tx, pair.name, way.len() as u64)?;
                Ok(true)
            })?;
            if is_laid {
                return Ok(Some(way));
            }
            state.again.fetch_add(1);
        }
    }
}

impl State {
    fn found(&self) -> std::sync::MutexGuard<'_, Ways> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Application for Labyrinth {
    type State = State;

    fn name(&self) -> &'static str {
        "labyrinth"
    }

    fn parameters(&self) -> Vec<(String, String)> {
        let Parameters { size: [x, y, z], pairs } = self.parameters;
        [("size", format!("{x}x{y}x{z}")), ("pairs", pairs.to_string())]
            .map(|(name, value)| (name.to_string(), value))
            .into()
    }

    fn tables(&self, builder: Builder) -> Builder {
        builder.objects::<Maze>()
    }

    fn load(&self, db: &Database, seed: u64) -> Result<State> {
        let rng = &mut stream(seed, 0);
        let cells = self.cells();
        // The first of a shuffled list of cells are the points, all different.
        let mut points: Vec<u64> = (0..cells).collect();
        for at in 0..2 * self.parameters.pairs as usize {
            points.swap(at, rng.random_range(at..cells as usize));
        }
        let pairs: Vec<Pair> = (1..)
            .zip(points.chunks(2).take(self.parameters.pairs as usize))
            .map(|(number, ends)| Pair { name: number, from: ends[0], to: ends[1] })
            .collect();
        let mut session = db.session()?;
        for first in (0..cells).step_by(256) {
            session.run(|tx| Maze::cells.grow(tx, cells.min(first + 256), FREE))?;
        }
        for some in pairs.chunks(64) {
            session.run(|tx| some.iter().try_for_each(|pair| Maze::pairs.push(tx, *pair)))?;
        }
        Ok(State { pairs, found: Mutex::default(), again: SharedU64::new(0) })
    }

    fn work(&self, place: &Place<'_>, session: &mut Session, state: &State) -> Result<()> {
        while let Some(pair) = session.run(|tx| Maze::pairs.pop(tx))? {
            let way = self.connect(place, session, state, pair)?;
            state.found().entry(pair.name).or_default().push(way);
        }
        Ok(())
    }

    fn check(&self, db: &Database, state: &State) -> Result<Vec<Check>> {
        let found = state.found();
        let (cells, lengths, left) = {
            let mut session = db.session()?;
            let cells = self.copy(&mut session)?;
            let (lengths, left) = session.run(|tx| {
                let mut lengths = BTreeMap::new();
                Maze::lengths.for_each(tx, .., |pair, length| {
                    lengths.insert(pair, length);
                })?;
                Ok((lengths, Maze::pairs.len(tx)?))
            })?;
            (cells, lengths, left)
        };
        let mut once = Verdict::new("every pair was connected, or found to have no way, once");
        let mut whole =
            Verdict::new("every way leads from one end to the other, cell by cell within the grid");
        let mut laid = Verdict::new("every cell of a way holds it, and its length is noted");
        let mut hopeless = Verdict::new("whatever was found to have no way has none in the end");
        let mut taken = 0;
        for pair in &state.pairs {
            let ways = found.get(&pair.name).map_or(&[][..], |ways| &ways[..]);
            once.require(ways.len() == 1, || format!("{pair:?}: {} times", ways.len()));
            match ways.first() {
                None => {}
                Some(None) => {
                    let (way, _) = self.route(&cells, pair.from, pair.to);
                    hopeless.require(way.is_none(), || format!("{pair:?}: {way:?}"));
                }
                Some(Some(way)) => {
                    taken += way.len() as i128;
                    let ends = way.first() == Some(&pair.from) && way.last() == Some(&pair.to);
                    let steps = way.windows(2).all(|step| self.beside(step[0]).any(|cell| cell == step[1]));
                    let inside = way.iter().all(|cell| *cell < self.cells());
                    whole.require(ends && steps && inside, || format!("{pair:?}: {way:?}"));
                    let holds = way.iter().all(|cell| cells.get(*cell as usize) == Some(&pair.name));
                    let noted = lengths.get(&pair.name) == Some(&(way.len() as u64));
                    laid.require(holds && noted, || format!("{pair:?}: {way:?}"));
                }
            }
        }
        let connected = found.values().flatten().flatten().count();
        Ok(vec![
            once.finish(),
            whole.finish(),
            laid.finish(),
            hopeless.finish(),
            // Each way's cells hold it, so those that are shared would be missing here.
            equal(
                "no cell is of two ways or of none that was laid",
                ("taken", cells.iter().filter(|cell| **cell != FREE).count() as i128),
                ("in ways", taken),
            ),
            equal(
                "each way that was laid is noted",
                ("noted", lengths.len() as i128),
                ("laid", connected as i128),
            ),
            equal("no pair is left", ("queued", left.into()), ("expected", 0)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_the_shortest_and_go_around_what_is_taken() {
        let labyrinth = Labyrinth::new(Parameters { size: [4, 3, 1], pairs: 1 }).unwrap();
        let mut cells = vec![FREE; 12];
        assert_eq!(labyrinth.route(&cells, 0, 3).0, Some(vec![0, 1, 2, 3]));
        // A wall with a gap in the last row.
        (cells[2], cells[6]) = (7, 7);
        assert_eq!(labyrinth.route(&cells, 0, 3).0.map(|way| way.len()), Some(8));
        cells[10] = 7;
        assert_eq!(labyrinth.route(&cells, 0, 3).0, None);
        let layers = Labyrinth::new(Parameters { size: [4, 3, 2], pairs: 1 }).unwrap();
        cells.extend([FREE; 12]);
        assert_eq!(layers.route(&cells, 0, 3).0.map(|way| way.len()), Some(6));
        // Rows and layers have ends: no way leads around them.
        assert!(labyrinth.beside(3).eq([2, 7]) && labyrinth.beside(8).eq([9, 4]));
    }

    #[test]
    fn senseless_parameters_are_refused() {
        let default = Parameters::default();
        for wrong in [
            Parameters { pairs: 0, ..default },
            Parameters { size: [2, 2, 1], pairs: 3 },
            Parameters { size: [0, 2, 1], pairs: 1 },
            Parameters { size: [u64::MAX, 2, 1], pairs: 1 },
        ] {
            assert!(Labyrinth::new(wrong).is_err(), "{wrong:?}");
        }
    }
}
