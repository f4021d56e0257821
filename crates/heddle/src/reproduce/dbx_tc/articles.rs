//! Section 6.7: Articles.

use super::contention::CHEAP_SOFTWARE;
use super::settings::{DBX_TC, MOST, OTHERS, System, cores, gains};
use crate::failure::Failure;
use crate::reproduce::figure::{Claim, Content, Figure, Finding, Measure, Scope, Series};
use crate::reproduce::settings::{CORES, times, unusable};
use heddledb_simulator::point::Subject;
use heddledb_workloads::ReadOnly;
use heddledb_workloads::articles::{Articles, Parameters, Readers};

/// Articles: transactions that only read are procedures, or apart from these.
fn articles(scope: &Scope, readers: Readers) -> Result<Subject, Failure> {
    let articles = if scope.quick { 20_000 } else { 100_000 };
    let parameters = Parameters { articles, readers, ..Parameters::default() };
    Ok(Articles::new(parameters).map_err(unusable)?.into())
}

fn by_system(scope: &Scope, workload: &Subject, systems: &[System]) -> Content {
    let series = systems.iter().map(|system| {
        let at = |&count: &usize| (count as f64, system.run(scope, workload, count));
        Series {
            name: system.name.to_owned(),
            measure: Measure::Throughput,
            points: cores(scope).iter().map(at).collect(),
        }
    });
    Content::Points(series.collect())
}

/// Nothing here is deferred.
fn systems() -> Vec<System> {
    [&[DBX_TC], &OTHERS[..]].concat()
}

/// Says what is smaller.
fn notes(scope: &Scope, note: &str) -> Vec<String> {
    let mut notes = vec![note.to_owned()];
    if scope.quick {
        notes.push("Quick: 20,000 articles.".to_owned());
    }
    notes
}

const SNAPSHOTS: &str = "seven in ten transactions read on a snapshot, which costs the same under all of these. \
                         Figure 15-why has these transactions among the writers";

fn over_dbx() -> Claim {
    Claim::new("DBX-TC outperforms DBX by about 10 %.", |results| gains(results, "dbx-tc", "dbx", MOST, 0.1))
}

fn over_two_phase() -> Claim {
    Claim::new("It outperforms Silo-2PL by 30 %.", |results| {
        gains(results, "dbx-tc", "ordered-2pl", MOST, 0.3)
    })
}

fn others_scale() -> Claim {
    Claim::new("All other systems scale to 8 cores.", |results| {
        let lines = ["dbx-tc", "dbx", "silo", "ordered-2pl"];
        let ratios = lines.map(|line| results.over(line, MOST, 1.0));
        let ratios = ratios.into_iter().collect::<Result<Vec<f64>, _>>()?;
        let least = ratios.into_iter().fold(f64::INFINITY, f64::min);
        Ok(Finding::new(least >= MOST * 0.6, format!("8 cores make {} of one or more", times(least))))
    })
}

/// Figure 15.
pub fn figure_15(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "15",
        title: "Articles, by cores",
        section: "§6.7",
        axis: CORES,
        content: by_system(scope, &articles(scope, Readers::Apart)?, &systems()),
        notes: notes(
            scope,
            "Uniform keys; articles and comments are read on snapshots, under htm in regions.",
        ),
        claims: vec![
            over_dbx().otherwise(SNAPSHOTS),
            over_two_phase().otherwise(SNAPSHOTS),
            Claim::new(
                "Naively applying HTM cannot scale, due to large amounts of capacity aborts.",
                |results| {
                    let ratio = results.over("htm", MOST, 1.0)?;
                    Ok(Finding::new(ratio <= MOST / 2.0, format!("8 cores make {} of one", times(ratio))))
                },
            )
            .otherwise("all transactions of Articles fit in a region here: see figure 1c"),
            others_scale().otherwise(SNAPSHOTS),
        ],
    })
}

/// Figure 15 without snapshots.
pub fn figure_15_why(scope: &Scope) -> Result<Figure, Failure> {
    let among_writers = |system| System { read_only: ReadOnly::Serializable, ..system };
    let systems: Vec<System> = systems().into_iter().map(among_writers).collect();
    Ok(Figure {
        id: "15-why",
        title: "Articles, by cores: nothing is read on snapshots",
        section: "§6.7",
        axis: CORES,
        content: by_system(scope, &articles(scope, Readers::Called)?, &systems),
        notes: notes(scope, "Uniform keys; articles and comments are read among the writers, by procedures."),
        claims: vec![
            over_dbx().otherwise(CHEAP_SOFTWARE),
            over_two_phase().otherwise(CHEAP_SOFTWARE),
            others_scale(),
        ],
    })
}
