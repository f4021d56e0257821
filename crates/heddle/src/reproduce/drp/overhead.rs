//! Section 7.1: what intentions, locks and dependencies cost where there is no contention.

use super::settings::{cores, point, ratios, to};
use crate::failure::Failure;
use crate::reproduce::figure::{
    Claim, Content, Figure, Finding, Measure, Missing, Results, Scope, Series, Setting, above, near,
};
use crate::reproduce::settings::{CORES, times, unusable, window};
use heddledb::protocol::Kind;
use heddledb_simulator::point::Subject;
use heddledb_workloads::ReadOnly;
use heddledb_workloads::array::{self, Array};

/// What a program without transactions is called.
pub const SEQUENTIAL: &str = "sequential";
/// Bytes of an element of the array, to that program.
const ELEMENT: f64 = 8.0;

/// Elements of the array.
pub fn elements(scope: &Scope) -> u64 {
    if scope.quick { 20_000 } else { 200_000 }
}

/// Says how many they are.
pub fn elements_note(scope: &Scope) -> String {
    format!(
        "{} elements of 8 bytes instead of a million. {SEQUENTIAL}: the same increments of plain numbers, one after the other.",
        elements(scope)
    )
}

fn array(scope: &Scope, eager: bool, plain: bool) -> Result<Subject, Failure> {
    let parameters =
        array::Parameters { elements: elements(scope), eager, plain, ..array::Parameters::default() };
    Ok(Array::new(parameters).map_err(unusable)?.into())
}

fn curves(scope: &Scope, measure: Measure, counts: &[usize]) -> Result<Vec<Series>, Failure> {
    let run = |workload: &Subject, kind, cores: usize| -> (f64, Setting) {
        let window = window(scope, cores, 16, 1_000, 4_000);
        (cores as f64, point(workload, kind, cores, ReadOnly::Serializable, window))
    };
    let mut series = Vec::new();
    for (kind, eager) in [(Kind::Drp, false), (Kind::Silo, true)] {
        let workload = array(scope, eager, false)?;
        let points = counts.iter().map(|cores| run(&workload, kind, *cores)).collect();
        series.push(Series { name: kind.name().to_owned(), measure, points });
    }
    if measure == Measure::Throughput {
        let plain = array(scope, true, true)?;
        let points = vec![run(&plain, Kind::Unprotected, 1)];
        series.push(Series { name: SEQUENTIAL.to_owned(), measure, points });
    }
    Ok(series)
}

/// The share of OCC's throughput that DRP has, lowest and highest.
pub fn shares(results: &Results) -> Result<(f64, f64), Missing> {
    let shares: Vec<f64> = ratios(results, "drp", "silo", 0.0)?.into_iter().map(|(share, _)| share).collect();
    let lowest = shares.iter().copied().reduce(f64::min).ok_or_else(|| Missing("drp".into()))?;
    Ok((lowest, shares.into_iter().fold(lowest, f64::max)))
}

/// The claim on throughput.
pub fn consistently() -> Claim {
    Claim::new("DRP consistently achieves 47 to 53 % of OCC's throughput.", |results| {
        let (lowest, highest) = shares(results)?;
        let measured = format!("{:.0} to {:.0} %", lowest * 100.0, highest * 100.0);
        Ok(Finding::new(near(lowest, 0.5) && near(highest, 0.5), measured))
    })
}

/// Figure 1.
pub fn figure_1(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "1",
        title: "The array: 50 increments of each core's own elements, by cores",
        section: "§7.1",
        axis: CORES,
        content: Content::Points(curves(scope, Measure::Throughput, cores(scope))?),
        notes: vec![elements_note(scope)],
        claims: vec![
            consistently(),
            Claim::new("Both scale with the cores: nothing is contended (by the figure).", |results| {
                let x = results.widest()?;
                let (drp, occ) = (results.over("drp", x, 1.0)?, results.over("silo", x, 1.0)?);
                let measured = format!("on {x} cores DRP {} one, OCC {}", times(drp), times(occ));
                Ok(Finding::new(drp >= x / 2.0 && occ >= x / 2.0, measured))
            }),
        ],
    })
}

/// What the text says of memory.
pub fn memory(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "1-memory",
        title: "The array: bytes of an element (in the text)",
        section: "§7.1",
        axis: CORES,
        content: Content::Points(curves(scope, Measure::MemoryEach(elements(scope)), &[1])?),
        notes: vec![elements_note(scope)],
        claims: vec![
            Claim::new("DRP uses 2.1 times more memory than OCC (50 MB to 24 MB).", |results| {
                let ratio = to(results, "drp", "silo", 1.0)?;
                Ok(Finding::new(near(ratio, 2.1), times(ratio)))
            })
            .otherwise(
                "a queue is one word in each record, and intentions are in the memory of workers, not of rows: less than in the paper",
            ),
            Claim::new("OCC uses 2.4 times more than the sequential program (24 MB to 10 MB).", |results| {
                let ratio = results.at("silo", 1.0)? / ELEMENT;
                Ok(Finding::new(near(ratio, 2.4), times(ratio)))
            })
            .otherwise("an element is a row here: words for stamps, versions and locks in front of a number"),
        ],
    })
}

/// What the paper has nothing of: the same array with elements that all want.
pub fn hot(scope: &Scope) -> Result<Figure, Failure> {
    let mut series = Vec::new();
    for (kind, eager) in
        [(Kind::Drp, false), (Kind::Deferred2pl, false), (Kind::Silo, true), (Kind::Tl2, true)]
    {
        let parameters = array::Parameters {
            elements: elements(scope),
            accesses: 10,
            shared: true,
            theta: 0.9,
            eager,
            ..array::Parameters::default()
        };
        let workload: Subject = Array::new(parameters).map_err(unusable)?.into();
        let at = |&cores: &usize| {
            let window = window(scope, cores, 16, 1_000, 4_000);
            (cores as f64, point(&workload, kind, cores, ReadOnly::Serializable, window))
        };
        let points = cores(scope).iter().map(at).collect();
        series.push(Series { name: kind.name().to_owned(), measure: Measure::Throughput, points });
    }
    Ok(Figure {
        id: "1-why",
        title: "The array shared, ten increments of elements drawn by a zipfian distribution of 0.9, by cores",
        section: "§7.1",
        axis: CORES,
        content: Content::Points(series),
        notes: vec![elements_note(scope)],
        claims: vec![
            Claim::new(
                "DRP's lack of aborts and its concurrency outweigh its overhead under contention.",
                |results| {
                    let x = results.widest()?;
                    let (drp, occ) = (to(results, "drp", "silo", x)?, to(results, "drp", "silo", 1.0)?);
                    let measured = format!("{} of OCC on one core, {} on {x}", times(occ), times(drp));
                    Ok(Finding::new(above(drp, 1.0) && above(drp, occ), measured))
                },
            ),
            Claim::new("Pipelining gains on locks that are held to the end (by figure 7).", |results| {
                let x = results.widest()?;
                let ratio = to(results, "drp", "deferred-2pl", x)?;
                Ok(Finding::new(above(ratio, 1.0), times(ratio)))
            }),
        ],
    })
}
