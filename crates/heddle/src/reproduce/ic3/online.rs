//! Section 6.9: transaction types that are added while others run.

use crate::report::html::chart::Spacing;
use crate::report::{microseconds, percent, rate};
use crate::reproduce::figure::{Axis, Claim, Content, Figure, Finding, Missing, Results, Scope, above};
use crate::reproduce::settings::{scale, scale_note};
use heddledb_simulator::timeline::{Load, Scheme};
use heddledb_workloads::tpcc;
use std::time::Duration;

/// Figure 22 of IC3.
pub fn figure_22(scope: &Scope) -> Figure {
    let (cores, slices) = if scope.quick { (16, 6) } else { (64, 15) };
    let load = Load {
        cores,
        seed: 0,
        tpcc: tpcc::Parameters { scale: scale(scope), ..Default::default() },
        slice: Duration::from_micros(500),
        slices,
        epoch_interval: Duration::from_millis(10),
    };
    /// The mean over the middle of a third of the time.
    fn steady(results: &Results, scheme: Scheme, third: usize) -> Result<f64, Missing> {
        let line = results.lines.iter().find(|line| line.name == scheme.name());
        let points = line.map(|line| line.points.as_slice()).unwrap_or_default();
        let length = points.len() / 3;
        let middle = points.get(third * length + length / 3..(third + 1) * length).unwrap_or_default();
        let values: Vec<f64> = middle.iter().filter_map(|dot| dot.value).collect();
        match values.len() {
            0 => Err(Missing(format!("rate of `{}`", scheme.name()))),
            count => Ok(values.iter().sum::<f64>() / count as f64),
        }
    }
    let mut notes = scale_note(scope);
    notes.push(
        "Milliseconds stand for seconds: Payment comes after the first third, Delivery after the second. Read-only types          run on snapshots."
            .into(),
    );
    Figure {
        id: "22",
        title: "Online analysis: TPC-C while types are added, by how that is done",
        section: "§6.9",
        axis: Axis { name: "virtual milliseconds", spacing: Spacing::Even },
        content: Content::Timeline(load),
        notes,
        claims: vec![
            Claim::new(
                "At the beginning, analysing all types at the start is slower: New-Order has more conflict pieces than it needs.",
                |results| {
                    let [at_start, barrier, transition] = Scheme::ALL;
                    let all = steady(results, at_start, 0)?;
                    let (stop, online) = (steady(results, barrier, 0)?, steady(results, transition, 0)?);
                    let measured = format!(
                        "{} against {} and {} a second",
                        rate(all),
                        rate(stop),
                        rate(online)
                    );
                    Ok(Finding::new(above(stop, all) && above(online, all), measured))
                },
            ),
            Claim::new("Stopping the world for a new graph degrades the throughput seriously at that moment.", |results| {
                let [_, barrier, transition] = Scheme::ALL;
                let gap = |scheme: Scheme| results.fact(&format!("{}: ns without a commit", scheme.name()));
                let (stop, online) = (gap(barrier)?, gap(transition)?);
                let measured = format!(
                    "nobody commits for {} behind the barrier, for {} in a transition",
                    microseconds(stop / 1e3),
                    microseconds(online / 1e3)
                );
                Ok(Finding::new(stop >= 100_000.0 && stop >= 2.0 * online, measured))
            })
            .otherwise("the barrier lasts as long as the longest transaction, which is short here; the analysis runs before it"),
            Claim::new("Changing the graph by a transition keeps the throughput.", |results| {
                let [_, _, transition] = Scheme::ALL;
                let line = results.lines.iter().find(|line| line.name == transition.name());
                let points = line.map(|line| line.points.as_slice()).unwrap_or_default();
                let length = points.len() / 3;
                let mut kept = f64::INFINITY;
                for third in [1, 2] {
                    let Some(value) = points.get(third * length).and_then(|dot| dot.value) else {
                        return Err(Missing("rate while a type is added".into()));
                    };
                    kept = kept.min(value / steady(results, transition, third - 1)?.min(steady(results, transition, third)?));
                }
                let given_up = results.fact(&format!("{}: waits given up", transition.name()))?;
                let measured = format!(
                    "the slice in which a type is added has {} of the lower rate before and after; {given_up} waits were given up",
                    percent(kept)
                );
                Ok(Finding::new(kept >= 0.8, measured))
            }),
            Claim::new("In the end all three are alike.", |results| {
                let rates = Scheme::ALL.map(|scheme| steady(results, scheme, 2));
                let mut all = Vec::new();
                for rate in rates {
                    all.push(rate?);
                }
                let (low, high) = all.iter().fold((f64::INFINITY, 0.0f64), |(low, high), rate| (low.min(*rate), high.max(*rate)));
                Ok(Finding::new(high <= low * 1.1, format!("{} to {} a second", rate(low), rate(high))))
            }),
        ],
    }
}
