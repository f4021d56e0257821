//! Sections 5.1 to 5.5 again, with one thing changed: how long an operation takes, what Payments read, which types there are, how
//! many transactions are queued.

use super::settings::{KINDS, MOST, ahead, is_best, point, quick_note};
use super::tpcc::{
    BY_SIZES, by_cores, by_sizes, is_followed_by_two_phase, larger_batches_take_longer, orders,
    payments_are_serial, two_phase_is_second,
};
use super::ycsb::{
    BY_SKEW, OPERATIONS, THETA, by_skew, is_as_fast, is_less_sensitive, is_resilient_at,
    latency_is_comparable, others_scale, two_phase_is_comparable, ycsb,
};
use crate::failure::Failure;
use crate::report::html::chart::Spacing;
use crate::reproduce::figure::{
    Axis, Claim, Content, Figure, Finding, Measure, Missing, Results, Scope, Setting, above, near,
};
use crate::reproduce::settings::{CORES, by_kind, scale_note, times};
use heddledb_simulator::simulation::Costs;
use heddledb_workloads::tpcc::{Mix, Parameters};

/// Cycles of an operation: 1,000 are 0.4 us.
const DEAR: u64 = 1_000;
const DEARER: u64 = 3_000;
const WORK: Axis = Axis { name: "cycles of an operation", spacing: Spacing::Even };

/// The same point where each operation takes so many cycles. Where fewer transactions end, it is looked at for longer.
fn working(setting: Setting, cycles: u64) -> Setting {
    let Setting::Virtual(mut setting) = setting else { return setting };
    setting.costs.operation = cycles;
    setting.window *= if cycles < DEAR { 1 } else { 4 };
    Setting::Virtual(setting)
}

/// YCSB on all cores, by what an operation takes.
fn by_work(scope: &Scope, writes: u8, measure: Measure) -> Result<Content, Failure> {
    by_kind(&KINDS, measure, |kind| {
        let subject = ycsb(scope, THETA, writes, OPERATIONS)?;
        Ok(at_each_work(&point(scope, &subject, kind, MOST as usize)))
    })
}

fn at_each_work(setting: &Setting) -> Vec<(f64, Setting)> {
    let at = |cycles| (cycles as f64, working(setting.clone(), cycles));
    [Costs::default().operation, DEAR, DEARER].map(at).to_vec()
}

/// DGCC over the best of the others, with cheap operations and with the dearest.
fn ahead_by_work(results: &Results) -> Result<(f64, f64), Missing> {
    Ok((ahead(results, Costs::default().operation as f64)?, ahead(results, DEARER as f64)?))
}

fn work_notes(scope: &Scope) -> Vec<String> {
    let mut notes = quick_note(scope);
    notes.push(work_note());
    notes
}

/// Where all operations of a figure take longer.
fn dear_notes(scope: &Scope) -> Vec<String> {
    let mut notes = work_notes(scope);
    notes.push(format!("Here it takes {DEAR} cycles."));
    notes
}

fn work_note() -> String {
    format!(
        "Elsewhere an operation takes {} cycles beside its accesses to memory; 1,000 cycles are 0.4 us.",
        Costs::default().operation
    )
}

/// Figure 6 with operations that take longer.
pub fn figure_6_work(scope: &Scope) -> Result<Figure, Failure> {
    let mut content = by_work(scope, 20, Measure::Throughput)?;
    if let (Content::Points(few), Content::Points(many)) =
        (&mut content, by_work(scope, 80, Measure::Throughput)?)
    {
        few.iter_mut().for_each(|series| series.name += FEW_WRITES);
        few.extend(many);
    }
    Ok(Figure {
        id: "6-work-why",
        title: "YCSB, skew 0.8, 8 workers, 20 and 80 % writes, by what an operation takes",
        section: "§5.1",
        axis: WORK,
        content,
        notes: work_notes(scope),
        claims: vec![
            Claim::new("DGCC is significantly more resilient to more writes.", |results| {
                is_resilient_at(results, DEARER as f64, FEW_WRITES)
            })
            .otherwise("with dear operations the others keep as much"),
            Claim::new(
                "Its throughput is four times that of the others at high contention (abstract).",
                |results| {
                    let (cheap, dear) = ahead_by_work(results)?;
                    let measured =
                        format!("{} the best of them, {} with dear operations", times(cheap), times(dear));
                    Ok(Finding::new(near(dear, 4.0) || dear > 4.0, measured))
                },
            )
            .otherwise("an abort of OCC costs a second execution, and 8 workers abort about half: it is not behind by more than twice"),
            Claim::new("Our own: the dearer operations are, the more DGCC is ahead.", |results| {
                let (cheap, dear) = ahead_by_work(results)?;
                Ok(Finding::new(above(dear, cheap), format!("{} and {}", times(cheap), times(dear))))
            }),
        ],
    })
}

const FEW_WRITES: &str = ", 20 % writes";

/// Figure 7a with operations that take longer.
pub fn figure_7a_work(scope: &Scope) -> Result<Figure, Failure> {
    let content = by_kind(&KINDS, Measure::Throughput, |kind| {
        let subject = ycsb(scope, 0.5, 50, OPERATIONS)?;
        let at = |count: usize| (count as f64, working(point(scope, &subject, kind, count), DEAR));
        Ok([1, MOST as usize].map(at).to_vec())
    });
    Ok(Figure {
        id: "7a-why",
        title: "YCSB, skew 0.5, by workers, where an operation takes longer",
        section: "§5.2",
        axis: CORES,
        content: content?,
        notes: dear_notes(scope),
        claims: vec![two_phase_is_comparable(), others_scale()],
    })
}

/// Figure 7d with operations that take longer.
pub fn figure_7d_work(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "7d-why",
        title: "YCSB, skew 0.8, 8 workers, by what an operation takes",
        section: "§5.2",
        axis: WORK,
        content: by_work(scope, 50, Measure::Throughput)?,
        notes: work_notes(scope),
        claims: vec![
            Claim::new("DGCC shows the best performance under different contention rates.", |results| {
                is_best(results, DEARER as f64)
            })
            .otherwise("telling, linking and handing over cost more than what the others execute in vain"),
        ],
    })
}

/// Figure 9 with operations that take longer.
pub fn figure_9_work(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "9-why",
        title: "YCSB, skew 0.8, 8 workers: the median latency, in microseconds, by what an operation takes",
        section: "§5.4",
        axis: WORK,
        content: by_work(scope, 50, Measure::Latency)?,
        notes: work_notes(scope),
        claims: vec![latency_is_comparable(|results| is_as_fast(results, DEARER as f64))],
    })
}

/// Shares of Deliveries, and of Stock-Levels, in percent.
const LONG: [u8; 3] = [0, 2, 4];
const LONG_AXIS: Axis = Axis { name: "Deliveries, and Stock-Levels, in percent", spacing: Spacing::Even };

fn by_long(scope: &Scope, measure: Measure) -> Result<Content, Failure> {
    by_kind(&KINDS, measure, |kind| {
        let at = |share: u8| {
            let subject = orders(scope, Mix([53 - 2 * share, 43, 4, share, share]))?;
            Ok((f64::from(share), point(scope, &subject, kind, MOST as usize)))
        };
        LONG.into_iter().map(at).collect()
    })
}

/// What is left with Deliveries and Stock-Levels of what there is without.
fn with_long(results: &Results, line: &str) -> Result<f64, Missing> {
    results.over(line, 4.0, 0.0)
}

/// Figure 8a without the two long types.
pub fn figure_8a_long(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "8a-why",
        title: "TPC-C, 1 warehouse, 8 workers, by the share of Deliveries and of Stock-Levels",
        section: "§5.2",
        axis: LONG_AXIS,
        content: by_long(scope, Measure::Throughput)?,
        notes: scale_note(scope),
        claims: vec![
            Claim::new("DGCC is the best; Payments are still the bottleneck for the others.", |results| {
                is_best(results, 0.0)
            })
            .otherwise("a vertex is a whole transaction; what OCC executes in vain is cheap here"),
            Claim::new(
                "Our own: Deliveries and Stock-Levels, for which nobody waits, cost DGCC less than 2PL and OCC.",
                |results| {
                    let dgcc = with_long(results, "dgcc")?;
                    let most = with_long(results, "dl-detect")?.max(with_long(results, "ts-alloc")?);
                    let measured =
                        format!("it keeps {:.0} %, these {:.0} % at most", dgcc * 100.0, most * 100.0);
                    Ok(Finding::new(above(dgcc, most), measured))
                },
            ),
        ],
    })
}

/// Figure 8b with operations that take longer.
pub fn figure_8b_work(scope: &Scope) -> Result<Figure, Failure> {
    let mut notes = scale_note(scope);
    notes.push(work_note());
    Ok(Figure {
        id: "8b-why",
        title: "TPC-C, 1 warehouse, New-Order only, 8 workers, by what an operation takes",
        section: "§5.2",
        axis: WORK,
        content: by_kind(&KINDS, Measure::Throughput, |kind| {
            Ok(at_each_work(&point(scope, &orders(scope, Mix::NEW_ORDER)?, kind, MOST as usize)))
        })?,
        notes,
        claims: vec![two_phase_is_second(|results| is_followed_by_two_phase(results, DEAR as f64))],
    })
}

/// Figure 8c with Payments that read what they add to.
pub fn figure_8c_sums(scope: &Scope) -> Result<Figure, Failure> {
    let parameters = Parameters { commutative: false, ..Parameters::default() };
    Ok(Figure {
        id: "8c-why",
        title: "TPC-C, 1 warehouse, Payment only, by workers, where it reads the sums that it adds to",
        section: "§5.2",
        axis: CORES,
        content: by_cores(scope, Parameters { mix: Mix::PAYMENT, ..parameters }, Measure::Throughput)?,
        notes: scale_note(scope),
        claims: vec![payments_are_serial()],
    })
}

/// Figure 10 without the two long types.
pub fn figure_10_long(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "10-why",
        title: "TPC-C, 1 warehouse, 8 workers: the median latency, in microseconds, by the share of Deliveries and of Stock-Levels",
        section: "§5.4",
        axis: LONG_AXIS,
        content: by_long(scope, Measure::Latency)?,
        notes: scale_note(scope),
        claims: vec![latency_is_comparable(|results| is_as_fast(results, 0.0))],
    })
}

/// Figure 11 with operations that take longer.
pub fn figure_11_work(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "11-why",
        title: "YCSB, 8 workers, by skew, where an operation takes longer",
        section: "§5.3",
        axis: BY_SKEW,
        content: by_skew(scope, &[0.0, 0.8], |setting| working(setting, DEAR))?,
        notes: dear_notes(scope),
        claims: vec![is_less_sensitive()],
    })
}

/// Figure 12b with queues that are as long as batches.
pub fn figure_12b_queues(scope: &Scope) -> Result<Figure, Failure> {
    let mut content = by_sizes(scope, Measure::Latency)?;
    content.change(|setting| {
        let most = setting.queue.batch.map_or(0, |size| size.get() as usize);
        setting.queue.length = most.div_ceil(setting.cores).max(1);
    });
    Ok(Figure {
        id: "12b-why",
        title: "TPC-C, 1 warehouse: the median latency, in microseconds, by the size of batches, with as many transactions queued",
        section: "§5.5",
        axis: BY_SIZES,
        content,
        notes: scale_note(scope),
        claims: vec![larger_batches_take_longer()],
    })
}
