//! Sections 5.1 to 5.4, YCSB: writes, workers, skew, latency.

use super::settings::{GATHERED, KINDS, MOST, OTHERS, ahead, cores, is_best, point, quick_note};
use crate::failure::Failure;
use crate::report::html::chart::Spacing;
use crate::reproduce::figure::{
    Axis, Claim, Content, Figure, Finding, Measure, Missing, Results, Scope, Setting, above, near,
};
use crate::reproduce::settings::{CORES, by_kind, times, unusable};
use heddledb_simulator::point::Subject;
use heddledb_workloads::ycsb::{Parameters, Ycsb};

/// The skew, unless a figure says otherwise.
pub const THETA: f64 = 0.8;
/// The accesses of a transaction, unless a figure says otherwise.
pub const OPERATIONS: usize = 16;
/// The shares of writes: read to write is 4, 1 and 0.25.
const WRITES: [u8; 3] = [20, 50, 80];

/// Records of which some are frequent.
pub fn ycsb(scope: &Scope, theta: f64, writes: u8, operations: usize) -> Result<Subject, Failure> {
    let records = if scope.quick { 20_000 } else { 100_000 };
    let parameters =
        Parameters { records, theta, read_pct: u32::from(100 - writes), operations, ..Parameters::default() };
    Ok(Ycsb::new(parameters).map_err(unusable)?.into())
}

fn by_writes(scope: &Scope, operations: usize) -> Result<Content, Failure> {
    by_kind(&KINDS, Measure::Throughput, |kind| {
        let at = |writes: u8| {
            Ok((
                f64::from(writes),
                point(scope, &ycsb(scope, THETA, writes, operations)?, kind, MOST as usize),
            ))
        };
        WRITES.into_iter().map(at).collect()
    })
}

fn by_cores(scope: &Scope, theta: f64, measure: Measure) -> Result<Content, Failure> {
    by_kind(&KINDS, measure, |kind| {
        let at = |&count: &usize| {
            Ok((count as f64, point(scope, &ycsb(scope, theta, 50, OPERATIONS)?, kind, count)))
        };
        cores(scope).iter().map(at).collect()
    })
}

/// What is left of a protocol's throughput from one number to another.
fn kept(results: &Results, line: &str, from: f64, to: f64) -> Result<f64, Missing> {
    results.over(line, to, from)
}

/// The most that one of the others keeps.
fn others_keep(results: &Results, from: f64, to: f64) -> Result<f64, Missing> {
    OTHERS.iter().try_fold(0.0, |most: f64, line| Ok(most.max(kept(results, line, from, to)?)))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

const BY_WRITES: Axis = Axis { name: "share of writes, %", spacing: Spacing::Even };

/// Whether DGCC keeps more than the others.
fn is_resilient(results: &Results, from: f64, to: f64) -> Result<Finding, Missing> {
    let (dgcc, others) = (kept(results, "dgcc", from, to)?, others_keep(results, from, to)?);
    Ok(more_is_kept(dgcc, others))
}

fn more_is_kept(dgcc: f64, others: f64) -> Finding {
    let measured = format!("it keeps {}, the others {} at most", percent(dgcc), percent(others));
    Finding::new(above(dgcc, others), measured)
}

/// Whether DGCC keeps more than the others of what there is where few write, whose lines are named so.
pub fn is_resilient_at(results: &Results, x: f64, few_writes: &str) -> Result<Finding, Missing> {
    let keeps = |line: &str| Ok(results.at(line, x)? / results.at(&format!("{line}{few_writes}"), x)?);
    let others = OTHERS.iter().map(|line| keeps(line)).collect::<Result<Vec<f64>, Missing>>()?;
    Ok(more_is_kept(keeps("dgcc")?, others.into_iter().fold(0.0, f64::max)))
}

/// Figure 6.
pub fn figure_6(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "6",
        title: "YCSB, skew 0.8, 8 workers, by the share of writes",
        section: "§5.1",
        axis: BY_WRITES,
        content: by_writes(scope, OPERATIONS)?,
        notes: quick_note(scope),
        claims: vec![
            Claim::new(
                "As writes increase, the performance of 2PL, OCC and MVCC drops dramatically.",
                |results| {
                    let most = others_keep(results, 20.0, 80.0)?;
                    Ok(Finding::new(
                        most <= 0.5,
                        format!("from 20 to 80 % writes they keep {} at most", percent(most)),
                    ))
                },
            )
            .otherwise("a read of 2PL, OCC and MVCC costs less here than a write, and 8 cores are few"),
            Claim::new("DGCC is significantly more resilient to this increase.", |results| {
                is_resilient(results, 20.0, 80.0)
            })
            .otherwise(GATHERED),
            Claim::new(
                "Its throughput is four times that of the others at high contention (abstract).",
                |results| {
                    let ratio = ahead(results, 80.0)?;
                    Ok(Finding::new(
                        near(ratio, 4.0) || ratio > 4.0,
                        format!("{} the best of them", times(ratio)),
                    ))
                },
            )
            .otherwise(GATHERED),
        ],
    })
}

/// Figure 6 with the paper's vertices.
pub fn figure_6_why(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "6-why",
        title: "Figure 6 with transactions of one access: a vertex is what the paper's is",
        section: "§5.1",
        axis: BY_WRITES,
        content: by_writes(scope, 1)?,
        notes: quick_note(scope),
        claims: vec![
            Claim::new("DGCC is significantly more resilient to more writes.", |results| {
                is_resilient(results, 20.0, 80.0)
            })
            .otherwise("transactions of one access hardly conflict under any of them"),
            Claim::new(
                "There is little difference between reads or writes when the graph is constructed.",
                |results| {
                    let share = kept(results, "dgcc", 20.0, 80.0)?;
                    Ok(Finding::new(share >= 0.8, format!("it keeps {}", percent(share))))
                },
            ),
        ],
    })
}

/// Figure 7a.
pub fn figure_7a(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "7a",
        title: "YCSB, skew 0.5, by workers",
        section: "§5.2",
        axis: CORES,
        content: by_cores(scope, 0.5, Measure::Throughput)?,
        notes: quick_note(scope),
        claims: vec![two_phase_is_comparable(), others_scale()],
    })
}

/// What is said of 2PL without much skew.
pub fn two_phase_is_comparable() -> Claim {
    Claim::new("2PL has a comparable performance with DGCC.", |results| {
        let ratio = results.at("dl-detect", MOST)? / results.at("dgcc", MOST)?;
        Ok(Finding::new(near(ratio, 1.0), format!("it has {} of DGCC's", times(ratio))))
    })
    .otherwise("a call is told, linked and handed from one worker to another before it is executed; 2PL locks what it meets")
}

/// What is said of OCC and MVCC without much skew.
pub fn others_scale() -> Claim {
    Claim::new("OCC and MVCC scale well with the number of workers.", |results| {
        let (occ, mvcc) = (results.over("ts-alloc", MOST, 1.0)?, results.over("hekaton", MOST, 1.0)?);
        let measured = format!("8 workers: OCC {} one, MVCC {}", times(occ), times(mvcc));
        Ok(Finding::new(occ >= MOST / 2.0 && mvcc >= MOST / 2.0, measured))
    })
    .otherwise(
        "operations are so cheap here that what moves from one core to another, counter of times and hot records, is half of a transaction; figure 7a-why has \
         operations that take longer",
    )
}

/// Figure 7d.
pub fn figure_7d(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "7d",
        title: "YCSB, skew 0.8, by workers",
        section: "§5.2",
        axis: CORES,
        content: by_cores(scope, THETA, Measure::Throughput)?,
        notes: quick_note(scope),
        claims: vec![
            Claim::new("DGCC shows the best performance under different contention rates.", |results| {
                is_best(results, MOST)
            })
            .otherwise(GATHERED),
        ],
    })
}

/// Figure 9.
pub fn figure_9(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "9",
        title: "YCSB, skew 0.8: the median latency, in microseconds, by workers",
        section: "§5.4",
        axis: CORES,
        content: by_cores(scope, THETA, Measure::Latency)?,
        notes: quick_note(scope),
        claims: vec![latency_is_comparable(|results| is_as_fast(results, MOST))],
    })
}

/// What is said of latencies.
pub fn latency_is_comparable(judge: fn(&Results) -> Result<Finding, Missing>) -> Claim {
    Claim::new("The latency of DGCC is comparable with the others', or smaller.", judge)
        .otherwise("with queues of the same length latency is the inverse of throughput")
}

/// Whether DGCC's latency is comparable with the least of the others', or smaller.
pub fn is_as_fast(results: &Results, x: f64) -> Result<Finding, Missing> {
    let others = OTHERS.iter().map(|line| results.at(line, x)).collect::<Result<Vec<_>, _>>()?;
    let least = others.into_iter().fold(f64::INFINITY, f64::min);
    let ratio = results.at("dgcc", x)? / least;
    Ok(Finding::new(ratio <= 1.0 || near(ratio, 1.0), format!("{} the least of theirs", times(ratio))))
}

/// Over the skew of keys.
pub const BY_SKEW: Axis = Axis { name: "skew", spacing: Spacing::Even };

/// On all cores, by skew.
pub fn by_skew(scope: &Scope, skews: &[f64], of: impl Fn(Setting) -> Setting) -> Result<Content, Failure> {
    by_kind(&KINDS, Measure::Throughput, |kind| {
        let at = |&theta: &f64| {
            Ok((theta, of(point(scope, &ycsb(scope, theta, 50, OPERATIONS)?, kind, MOST as usize))))
        };
        skews.iter().map(at).collect()
    })
}

/// What is said of skew.
pub fn is_less_sensitive() -> Claim {
    Claim::new("DGCC is significantly less sensitive to contention than 2PL, OCC and MVCC.", |results| {
        is_resilient(results, 0.0, 0.8)
    })
    .otherwise(GATHERED)
}

/// Figure 11.
pub fn figure_11(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "11",
        title: "YCSB, 8 workers, by skew",
        section: "§5.3",
        axis: BY_SKEW,
        content: by_skew(scope, &[0.0, 0.5, 0.6, 0.7, 0.8], |setting| setting)?,
        notes: quick_note(scope),
        claims: vec![
            is_less_sensitive(),
            Claim::new("Without skew is the ideal case for all of them.", |results| {
                let lines = OTHERS.iter().chain(&["dgcc"]);
                let falls = |line: &&str| Ok(results.at(line, 0.0)? >= results.at(line, 0.8)?);
                let all = lines.map(falls).collect::<Result<Vec<bool>, Missing>>()?;
                let count = all.iter().filter(|falls| **falls).count();
                Ok(Finding::new(count == all.len(), format!("{count} of {} fall with skew", all.len())))
            }),
        ],
    })
}
