//! What a report says, in one sentence that is computed from its figures.

use super::model::{Driver, Measurement, ORDER_MARGIN, Report};
use super::{microseconds, percent, rate};

/// Which protocol is the fastest on the most threads, and by how much; or that the figures mean nothing.
///
/// A lead counts if it is more than [`ORDER_MARGIN`] and more than the runs of the two lie apart.
pub fn conclusion(report: &Report) -> String {
    let checks = report.check_count();
    if checks.failed > 0 {
        return format!("{checks}, so these figures mean nothing.");
    }
    let best = contenders(report);
    let (Some(first), unit) = (best.first(), report.unit()) else {
        return "No transaction committed, so there is nothing to compare.".into();
    };
    let place = match first.threads {
        1 => format!("On 1 {}", unit.trim_end_matches('s')),
        count => format!("On {count} {unit}"),
    };
    if let Some(asked) = first.driver.as_ref().and_then(Driver::rate) {
        return at_rate(&place, asked, &best);
    }
    let name = first.label();
    let fastest = format!("{} transactions a second", rate(first.throughput_tps));
    let Some(second) = best.get(1) else {
        return format!("{place} {name} commits {fastest}{}.", growth(report, first));
    };
    let next = second.label();
    let lead = first.throughput_tps / second.throughput_tps;
    if lead - 1.0 <= ORDER_MARGIN.max(first.spread()).max(second.spread()) {
        return format!(
            "{place} there is no clear winner: {name} has {fastest}, and {next} {}.",
            rate(second.throughput_tps)
        );
    }
    let by = match lead {
        _ if lead < 2.0 => format!("{} more than {next}, the next", percent(lead - 1.0)),
        _ => format!("{lead:.1} times {next}, the next"),
    };
    format!("{place} {name} is the fastest of {}: it commits {fastest}, {by}.", best.len())
}

/// Of an open loop, whose rate is given: which keep up with it, and which of these is the quickest.
fn at_rate(place: &str, asked: f64, results: &[&Measurement]) -> String {
    let keeps_up = |result: &&&Measurement| {
        result.calls.and_then(|calls| calls.open).is_some_and(|open| open.keeps_up())
    };
    let p99 = |result: &Measurement| result.latency_us.p99;
    let asked = format!("{} calls a second", rate(asked));
    let keeping: Vec<&&Measurement> = results.iter().filter(keeps_up).collect();
    match keeping.iter().min_by(|one, other| p99(one).total_cmp(&p99(other))) {
        None => format!("{place} nothing keeps up with {asked}."),
        Some(best) => format!(
            "{place} {} of {} keep up with {asked}; of these {} has the lowest p99, {}.",
            keeping.len(),
            results.len(),
            best.label(),
            microseconds(p99(best))
        ),
    }
}

/// What is compared, the fastest first: the results on the most threads, with the costs between cores as they
/// are. `unprotected` is no contender, as it controls nothing.
fn contenders(report: &Report) -> Vec<&Measurement> {
    let takes_part = |result: &&Measurement| {
        result.throughput_tps > 0.0 && result.coherence() == 1.0 && result.protocol != "unprotected"
    };
    let most = report.results.iter().filter(takes_part).map(|result| result.threads).max();
    let mut best: Vec<&Measurement> =
        report.results.iter().filter(takes_part).filter(|result| Some(result.threads) == most).collect();
    best.sort_by(|one, other| other.throughput_tps.total_cmp(&one.throughput_tps));
    best
}

/// How far the rate of a protocol has grown from the fewest threads.
fn growth(report: &Report, result: &Measurement) -> String {
    let mine = |other: &&Measurement| other.label() == result.label() && other.throughput_tps > 0.0;
    let Some(least) = report.results.iter().filter(mine).min_by_key(|other| other.threads) else {
        return String::new();
    };
    if least.threads == result.threads {
        return String::new();
    }
    format!(", {:.2} times its rate on {}", result.throughput_tps / least.throughput_tps, least.threads)
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::{sample, simulated};
    use super::*;
    use crate::report::model::CheckResult;

    #[test]
    fn the_fastest_on_the_most_threads_leads_by_what_the_next_has() {
        let mut report = sample();
        for result in &mut report.results {
            result.throughput_range_tps = [result.throughput_tps; 2];
        }
        let told = conclusion(&report);
        let expected = "On 2 threads silo is the fastest of 4: it commits 200 k transactions a second, 4.71 % more than \
                        tictoc, the next.";
        assert_eq!(told, expected);
        report
            .results
            .iter_mut()
            .find(|result| result.label() == "tictoc" && result.threads == 2)
            .unwrap()
            .throughput_tps = 5e5;
        assert!(conclusion(&report).contains("tictoc is the fastest of 4"), "{}", conclusion(&report));
        assert!(conclusion(&report).contains("2.5 times silo, the next"), "{}", conclusion(&report));
    }

    #[test]
    fn a_lead_within_the_spread_of_the_runs_is_none() {
        let told = conclusion(&sample());
        assert!(told.starts_with("On 2 threads there is no clear winner: silo has 200 k"), "{told}");
    }

    #[test]
    fn a_sweep_is_judged_by_the_costs_as_they_are() {
        let told = conclusion(&simulated());
        assert!(told.starts_with("On 64 cores silo is the fastest of 2: "), "{told}");
        assert!(told.ends_with("20.0 % more than tictoc, the next."), "{told}");
    }

    #[test]
    fn one_protocol_none_and_failed_checks_are_told_too() {
        let mut report = sample();
        report.results.retain(|result| result.label() == "silo");
        assert!(conclusion(&report).ends_with(", 2.00 times its rate on 1."), "{}", conclusion(&report));
        report.results.clear();
        assert!(conclusion(&report).starts_with("No transaction committed"));
        let mut report = sample();
        report.results[0].runs[0].checks[0] =
            CheckResult { name: "orders add up".into(), ok: false, detail: "3 != 4".into() };
        assert_eq!(conclusion(&report), "1 of 27 checks failed, so these figures mean nothing.");
    }
}
