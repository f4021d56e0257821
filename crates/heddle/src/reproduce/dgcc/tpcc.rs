//! Sections 5.2, 5.4 and 5.5, TPC-C: mixes, latency, sizes of batches.

use super::settings::{KINDS, MOST, OTHERS, WHOLE, ahead, cores, is_best, point};
use super::ycsb::{is_as_fast, latency_is_comparable};
use crate::failure::Failure;
use crate::report::html::chart::Spacing;
use crate::reproduce::figure::{
    Axis, Claim, Content, Figure, Finding, Measure, Missing, Results, Scope, Series, Setting, VirtualSetting,
    near,
};
use crate::reproduce::settings::{CORES, by_kind, scale, scale_note, times, tpcc};
use heddledb::protocol::Kind;
use heddledb_simulator::point::{Queue, Subject};
use heddledb_workloads::tpcc::{Mix, Parameters};
use std::num::NonZeroU32;

/// One warehouse.
pub fn orders(scope: &Scope, mix: Mix) -> Result<Subject, Failure> {
    tpcc(Parameters { scale: scale(scope), ..of_mix(mix) })
}

fn of_mix(mix: Mix) -> Parameters {
    Parameters { mix, ..Parameters::default() }
}

/// All protocols, by workers.
pub fn by_cores(scope: &Scope, parameters: Parameters, measure: Measure) -> Result<Content, Failure> {
    let subject = tpcc(Parameters { scale: scale(scope), ..parameters })?;
    by_kind(&KINDS, measure, |kind| {
        let at = |&count: &usize| Ok((count as f64, point(scope, &subject, kind, count)));
        cores(scope).iter().map(at).collect()
    })
}

/// Figure 8a.
pub fn figure_8a(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "8a",
        title: "TPC-C, 1 warehouse, the complete mix, by workers",
        section: "§5.2",
        axis: CORES,
        content: by_cores(scope, Parameters::default(), Measure::Throughput)?,
        notes: scale_note(scope),
        claims: vec![
            Claim::new("DGCC is the best; Payments are still the bottleneck for the others.", |results| {
                is_best(results, MOST)
            })
            .otherwise(WHOLE),
        ],
    })
}

/// Why it is not so here, in New-Orders.
const CHEAP_IN_VAIN: &str = "what OCC executes in vain is cheap here, so that it comes before 2PL; in figure 8b-why operations take longer";

/// Figure 8b.
pub fn figure_8b(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "8b",
        title: "TPC-C, 1 warehouse, New-Order only, by workers",
        section: "§5.2",
        axis: CORES,
        content: by_cores(scope, of_mix(Mix::NEW_ORDER), Measure::Throughput)?,
        notes: scale_note(scope),
        claims: vec![
            two_phase_is_second(|results| is_followed_by_two_phase(results, MOST)).otherwise(CHEAP_IN_VAIN),
        ],
    })
}

/// What is said of New-Orders.
pub fn two_phase_is_second(judge: fn(&Results) -> Result<Finding, Missing>) -> Claim {
    Claim::new("DGCC achieves the best performance, and 2PL comes in a close second.", judge)
}

/// Whether DGCC is ahead of the others, and 2PL the best of these and close.
pub fn is_followed_by_two_phase(results: &Results, x: f64) -> Result<Finding, Missing> {
    let ratio = ahead(results, x)?;
    let two_phase = results.at("dl-detect", x)? / results.best(&OTHERS, x)?;
    let measured = format!("DGCC {} the best of the others, 2PL {}", times(ratio), times(two_phase));
    Ok(Finding::new(ratio > 1.0 && near(ratio, 1.0) && two_phase >= 1.0, measured))
}

/// Figure 8c.
pub fn figure_8c(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "8c",
        title: "TPC-C, 1 warehouse, Payment only, by workers",
        section: "§5.2",
        axis: CORES,
        content: by_cores(scope, of_mix(Mix::PAYMENT), Measure::Throughput)?,
        notes: scale_note(scope),
        claims: vec![payments_are_serial()],
    })
}

/// What is said of payments.
pub fn payments_are_serial() -> Claim {
    Claim::new("Payments have to be done serially, which affects DGCC's scalability as a result.", |results| {
        let ratio = results.over("dgcc", MOST, 1.0)?;
        Ok(Finding::new(ratio < 2.0, format!("8 workers make {} of one", times(ratio))))
    })
    .otherwise(
        "a payment only adds to its warehouse's and its district's sums, and calls that add go side by side here; figure 8c-why has payments that \
         read them",
    )
}

/// Figure 10.
pub fn figure_10(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "10",
        title: "TPC-C, 1 warehouse, the complete mix: the median latency, in microseconds, by workers",
        section: "§5.4",
        axis: CORES,
        content: by_cores(scope, Parameters::default(), Measure::Latency)?,
        notes: scale_note(scope),
        claims: vec![latency_is_comparable(|results| is_as_fast(results, MOST))],
    })
}

/// The sizes of batches.
fn sizes(scope: &Scope) -> &'static [u32] {
    if scope.quick { &[10, 100, 800] } else { &[10, 100, 300, 500, 800, 1_000, 5_000] }
}

/// One warehouse under DGCC, by the size of batches.
pub fn by_sizes(scope: &Scope, measure: Measure) -> Result<Content, Failure> {
    let workload = orders(scope, Mix::FULL)?;
    let workers: &[usize] = if scope.quick { &[2, 8] } else { &[2, 4, 8] };
    let series = workers.iter().map(|&count| {
        let at = |&size: &u32| {
            let Setting::Virtual(setting) = point(scope, &workload, Kind::Dgcc, count) else {
                unreachable!("it is on virtual cores")
            };
            let queue = Queue { batch: NonZeroU32::new(size), ..setting.queue };
            (f64::from(size), Setting::Virtual(VirtualSetting { queue, ..setting }))
        };
        Series { name: format!("{count} workers"), measure, points: sizes(scope).iter().map(at).collect() }
    });
    Ok(Content::Points(series.collect()))
}

/// What those are over.
pub const BY_SIZES: Axis = Axis { name: "most calls of a batch", spacing: Spacing::Logarithmic };

/// The size from which on larger batches bring hardly anything.
fn saturates(results: &Results, line: &str) -> Result<f64, Missing> {
    results.scales_to(&[line])
}

/// Figure 12a.
pub fn figure_12(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "12a",
        title: "TPC-C, 1 warehouse, by the size of batches",
        section: "§5.5",
        axis: BY_SIZES,
        content: by_sizes(scope, Measure::Throughput)?,
        notes: scale_note(scope),
        claims: vec![
            Claim::new(
                "Throughput increases with the batch size, until the resources are fully used.",
                |results| {
                    let (from, to) = (results.at("8 workers", 10.0)?, saturates(results, "8 workers")?);
                    let ratio = results.at("8 workers", to)? / from;
                    Ok(Finding::new(
                        ratio >= 1.1,
                        format!("8 workers: {} from 10 to {to} calls", times(ratio)),
                    ))
                },
            ),
            Claim::new("When there are more workers, it needs a larger size.", |results| {
                let (few, many) = (saturates(results, "2 workers")?, saturates(results, "8 workers")?);
                Ok(Finding::new(many > few, format!("2 workers {few} calls, 8 workers {many}")))
            }),
        ],
    })
}

/// Figure 12b.
pub fn figure_12_latency(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "12b",
        title: "TPC-C, 1 warehouse: the median latency, in microseconds, by the size of batches",
        section: "§5.5",
        axis: BY_SIZES,
        content: by_sizes(scope, Measure::Latency)?,
        notes: scale_note(scope),
        claims: vec![larger_batches_take_longer()],
    })
}

/// What is said of the latency of large batches.
pub fn larger_batches_take_longer() -> Claim {
    Claim::new("From saturation onwards, a larger graph leads to higher latency.", |results| {
        let (x, line) = (results.widest()?, "8 workers");
        let points = results.lines.iter().find(|known| known.name == line);
        let values = points.into_iter().flat_map(|line| &line.points).filter_map(|dot| dot.value);
        let ratio = results.at(line, x)? / values.fold(f64::INFINITY, f64::min);
        Ok(Finding::new(ratio >= 1.02, format!("at {x} calls {} the least", times(ratio))))
    })
    .otherwise(
        "queues are of the same length, whatever a batch takes of them, so latency is the inverse of throughput; in figure 12b-why they are \
         as long as batches",
    )
}
