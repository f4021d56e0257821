//! Section 2.2: how much room a region has, on virtual cores with the first-level cache of the paper's processor.

use crate::failure::{Failure, chain};
use crate::report::html::chart::Spacing;
use crate::report::percent;
use crate::reproduce::figure::{Axis, Claim, Content, Facts, Figure, Finding};
use heddledb::internals::sync::LINE;
use heddledb::internals::sync::probe::Trial;
use heddledb_simulator::regions;
use heddledb_simulator::simulation::{Costs, L1};

const AXIS: Axis = Axis { name: "bytes", spacing: Spacing::Even };
const REGIONS: u32 = 40;

/// The share of regions that abort.
fn aborted(writes: bool, random: bool, bytes: usize) -> Result<f64, Failure> {
    let trial = Trial { writes, random, lines: bytes / LINE, regions: REGIONS, seed: 1 };
    let costs = L1::EightWay.of(Costs::default());
    let metrics = regions::run(trial, costs).map_err(|failure| Failure::run(chain(&failure)))?;
    Ok(metrics.aborted() as f64 / f64::from(REGIONS))
}

/// A table of such shares by bytes, and some of them as facts.
fn facts(writes: bool, random: bool, sizes: &[(usize, &'static str)]) -> Result<Facts, Failure> {
    let mut facts = Facts { titles: vec!["bytes", "regions that abort"], ..Facts::default() };
    for &(bytes, name) in sizes {
        let share = aborted(writes, random, bytes)?;
        facts.rows.push(vec![bytes.to_string(), percent(share)]);
        facts.values.push((name, share));
    }
    Ok(facts)
}

const KIB: usize = 1 << 10;

fn in_sequence() -> Result<Facts, Failure> {
    let writes = [
        (4 * KIB, "writes 4"),
        (16 * KIB, "writes 16"),
        (24 * KIB, "writes 24"),
        (31 * KIB, "writes 31"),
        (32 * KIB, "writes 32"),
    ];
    let reads =
        [(32 * KIB, "reads 32"), (256 * KIB, "reads 256"), (1 << 20, "reads 1024"), (4 << 20, "reads 4096")];
    let mut all = facts(true, false, &writes)?;
    let reads = facts(false, false, &reads)?;
    all.titles = vec!["accesses in sequence, bytes", "regions that abort"];
    all.rows.iter_mut().for_each(|row| row[0] = format!("stores, {}", row[0]));
    all.rows.extend(reads.rows.into_iter().map(|row| vec![format!("loads, {}", row[0]), row[1].clone()]));
    all.values.extend(reads.values);
    Ok(all)
}

fn at_random() -> Result<Facts, Failure> {
    let sizes = [
        (448, "448"),
        (4 * KIB, "4 K"),
        (8 * KIB, "8 K"),
        (12 * KIB, "12 K"),
        (16 * KIB, "16 K"),
        (24 * KIB, "24 K"),
    ];
    facts(true, true, &sizes)
}

/// Figure 1a.
pub fn figure_1a() -> Figure {
    Figure {
        id: "1a",
        title: "Regions that abort, by the bytes that they access in sequence",
        section: "§2.2",
        axis: AXIS,
        content: Content::Facts(in_sequence),
        notes: vec!["Virtual cores with `--l1 8-way`: 64 sets of 8 lines, in which the stack has four.".into()],
        claims: vec![
            Claim::new("A region can write 31 KB at most.", |results| {
                let (most, more) = (results.fact("writes 31")?, results.fact("writes 32")?);
                let measured = format!("{} abort with 31 KB, {} with 32 KB", percent(most), percent(more));
                Ok(Finding::new(most < 1.0 && more == 1.0, measured))
            }),
            Claim::new("A region can read 4 MB at most, and so far more than it can write.", |results| {
                let (all, some) = (results.fact("reads 4096")?, results.fact("reads 256")?);
                let measured = format!("{} abort with 256 KB, {} with 4 MB", percent(some), percent(all));
                Ok(Finding::new(some < all && (0.5..1.0).contains(&all), measured))
            }),
            Claim::new("The abort rate increases exponentially with the writes, especially above 16 KB.", |results| {
                let (half, more) = (results.fact("writes 16")?, results.fact("writes 24")?);
                let measured = format!("{} abort with 16 KB, {} with 24 KB", percent(half), percent(more));
                Ok(Finding::new(more > half, measured))
            })
            .otherwise(
                "lines in sequence fill the sets of the model evenly; nothing else is in its cache, so there is room for all of them or for none: \
                 at random places it does increase, see figure 1b",
            ),
        ],
    }
}

/// Figure 1b.
pub fn figure_1b() -> Figure {
    Figure {
        id: "1b",
        title: "Regions that abort, by the bytes that they write at random places of 4 MB",
        section: "§2.2",
        axis: AXIS,
        content: Content::Facts(at_random),
        notes: vec![
            "Virtual cores with `--l1 8-way`. What fills sets unevenly, here the places, is in figure 1a maybe what else was in the cache.".into(),
        ],
        claims: vec![
            Claim::new("More than 90 % of the regions abort after 448 bytes.", |results| {
                let share = results.fact("448")?;
                Ok(Finding::new(share > 0.9, percent(share)))
            })
            .otherwise("seven lines do not fill a set of eight; all places were touched before here, and if the paper's were not, page faults abort as well"),
            Claim::new("Places at random limit the room further: a set is full before the cache is.", |results| {
                let share = results.fact("16 K")?;
                Ok(Finding::new(share > 0.5, format!("{} abort with half of the cache", percent(share))))
            }),
            Claim::new("Figure 1a's, at random places: the abort rate increases with the writes, and not at once.", |results| {
                let shares = [results.fact("12 K")?, results.fact("16 K")?, results.fact("24 K")?];
                let measured = shares.map(percent).join(", ") + " abort with 12, 16, 24 KB";
                let rises = shares[0] < 0.5 && shares[1] > shares[0] && shares[2] > shares[1];
                Ok(Finding::new(rises, measured))
            }),
        ],
    }
}
