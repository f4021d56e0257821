//! Section 7.3: STAMP's applications.

use super::overhead::SEQUENTIAL;
use super::settings::{most, point, to};
use crate::failure::Failure;
use crate::report::html::chart::Spacing;
use crate::reproduce::figure::{
    Axis, Claim, Content, Figure, Finding, Measure, Missing, Results, Scope, Series, Setting,
};
use crate::reproduce::settings::{times, unusable, window};
use heddledb::protocol::Kind;
use heddledb_simulator::point::Subject;
use heddledb_workloads::ReadOnly;
use heddledb_workloads::stamp::bayes::{self, Bayes};
use heddledb_workloads::stamp::genome::{self, Genome};
use heddledb_workloads::stamp::intruder::{self, Intruder};
use heddledb_workloads::stamp::kmeans::{self, Kmeans};
use heddledb_workloads::stamp::labyrinth::{self, Labyrinth};
use heddledb_workloads::stamp::vacation::{self, Vacation};
use std::time::Duration;

/// K-means with low contention, on the axis of the figures.
pub const KMEANS: f64 = 1.0;
/// K-means with high contention.
pub const KMEANS_HI: f64 = 2.0;
/// Vacation with low contention.
pub const VACATION: f64 = 3.0;
/// Vacation with high contention.
pub const VACATION_HI: f64 = 4.0;

/// The parameters of k-means: of low or high contention, on fewer points.
pub fn kmeans_of(scope: &Scope, high: bool, plain: bool) -> kmeans::Parameters {
    let preset = if high { kmeans::Parameters::HIGH } else { kmeans::Parameters::LOW };
    kmeans::Parameters { points: if scope.quick { 320 } else { 4_096 }, plain, ..preset }
}

/// The parameters of vacation: of low or high contention, on fewer relations.
pub fn vacation_of(scope: &Scope, high: bool) -> vacation::Parameters {
    if high {
        // As the paper prints them; a small agency would be a hotter one.
        let relations = if scope.quick { 20_000 } else { 184_857 };
        vacation::Parameters { relations, ..vacation::Parameters::HIGH }
    } else {
        vacation::Parameters {
            relations: if scope.quick { 4_000 } else { 65_536 },
            ..vacation::Parameters::LOW
        }
    }
}

/// Says how large they are, and what the sequential programs are.
pub fn sizes(scope: &Scope) -> Vec<String> {
    let (points, low, high) = (
        kmeans_of(scope, true, false).points,
        vacation_of(scope, false).relations,
        vacation_of(scope, true).relations,
    );
    vec![
        format!(
            "{points} points instead of 262,144; {low} and {high} relations instead of 1,048,576 and 184,857 (n 4, q 1, u 90)."
        ),
        format!(
            "{SEQUENTIAL}: k-means on plain numbers; vacation under `unprotected`, which has rows and indexes, but no concurrency control."
        ),
    ]
}

fn kmeans(scope: &Scope, high: bool, plain: bool) -> Result<Subject, Failure> {
    Ok(Kmeans::new(kmeans_of(scope, high, plain)).map_err(unusable)?.into())
}

fn vacation(scope: &Scope, high: bool, eager: bool) -> Result<Subject, Failure> {
    let parameters = vacation::Parameters { eager, ..vacation_of(scope, high) };
    Ok(Vacation::new(parameters).map_err(unusable)?.into())
}

fn at(scope: &Scope, subject: &Subject, kind: Kind, cores: usize) -> Setting {
    let window = match subject.ends() {
        true => Duration::from_millis(1),
        false => window(scope, cores, 64, 2_000, 8_000),
    };
    point(subject, kind, cores, ReadOnly::Serializable, window)
}

/// Both ported applications, twice each.
fn ported(scope: &Scope, kind: Kind, cores: usize, plain: bool) -> Result<Vec<(f64, Setting)>, Failure> {
    let eager = kind != Kind::Drp;
    let subjects = [
        (KMEANS, kmeans(scope, false, plain)?),
        (KMEANS_HI, kmeans(scope, true, plain)?),
        (VACATION, vacation(scope, false, eager)?),
        (VACATION_HI, vacation(scope, true, eager)?),
    ];
    Ok(subjects.iter().map(|(x, subject)| (*x, at(scope, subject, kind, cores))).collect())
}

fn curve(name: &str, measure: Measure, points: Vec<(f64, Setting)>) -> Series {
    Series { name: name.to_owned(), measure, points }
}

const PORTED: Axis =
    Axis { name: "1 kmeans, 2 kmeans-hi, 3 vacation, 4 vacation-hi", spacing: Spacing::Even };

/// The speed-ups of one over the sequential program, in words.
fn speed_ups(results: &Results, line: &str) -> Result<String, Missing> {
    let ratios = [KMEANS, KMEANS_HI, VACATION, VACATION_HI].map(|x| to(results, line, SEQUENTIAL, x));
    let words: Vec<String> =
        ratios.into_iter().map(|ratio| Ok(format!("{:.2}", ratio?))).collect::<Result<_, Missing>>()?;
    Ok(format!("{line} {}", words.join(", ")))
}

fn comparable(results: &Results, x: f64) -> Result<Finding, Missing> {
    let ratio = to(results, "drp", "tl2", x)?;
    Ok(Finding::new((1.0 / 1.5..=1.5).contains(&ratio), times(ratio)))
}

fn significant(results: &Results, x: f64) -> Result<Finding, Missing> {
    let ratio = to(results, "drp", "tl2", x)?;
    Ok(Finding::new(ratio > 2.0 / 1.5, times(ratio)))
}

/// Why STM-TL2 is not there.
const NO_WORDS: &str = "STM-TL2 locks single words of memory; there is no such engine here";

/// Figure 8a or 8b: on 16 or 32 cores.
pub fn figure_8(id: &'static str, scope: &Scope) -> Result<Figure, Failure> {
    let few = id == "8a";
    let cores = if few { 16 } else { 32 };
    let mut claims = vec![Claim::new("On vacation DRP is comparable to STO-TL2.", |results| {
        comparable(results, VACATION)
    })];
    if few {
        claims.push(Claim::new("On kmeans at 16 cores DRP is comparable to STO-TL2.", |results| {
            comparable(results, KMEANS)
        }));
    }
    claims.extend([
        Claim::new("On kmeans-hi DRP's gain is significant, above 2 times.", |results| {
            significant(results, KMEANS_HI)
        }),
        Claim::new("On vacation-hi DRP's gain is significant, above 2 times.", |results| {
            significant(results, VACATION_HI)
        })
        .otherwise("tl2 aborts few of its attempts (7 % on 32 cores), which leaves little to gain"),
        Claim::new("DRP outperforms STO-TL2 by up to 3.6 times.", |results| {
            let (most, _) = most(results, "drp", "tl2", 0.0)?;
            Ok(Finding::new(most >= 3.6 / 1.5, times(most)))
        }),
        Claim::new(
            "Cores speed the applications up over the sequential program (by the figure).",
            |results| {
                let measured = format!("{}; {}", speed_ups(results, "drp")?, speed_ups(results, "tl2")?);
                let slowest = [KMEANS, VACATION].map(|x| to(results, "drp", SEQUENTIAL, x));
                let slowest =
                    slowest.into_iter().try_fold(f64::MAX, |least: f64, ratio| Ok(least.min(ratio?)))?;
                Ok(Finding::new(slowest > 1.0, measured))
            },
        ),
        Claim::unreachable("STO is faster than STM-TL2 everywhere, as it does not lock words.", NO_WORDS),
    ]);
    Ok(Figure {
        id,
        title: if few { "STAMP's applications on 16 cores" } else { "STAMP's applications on 32 cores" },
        section: "§7.3",
        axis: PORTED,
        content: Content::Points(vec![
            curve("drp", Measure::Speed, ported(scope, Kind::Drp, cores, false)?),
            curve("tl2", Measure::Speed, ported(scope, Kind::Tl2, cores, false)?),
            curve(SEQUENTIAL, Measure::Speed, ported(scope, Kind::Unprotected, 1, true)?),
        ]),
        notes: sizes(scope),
        claims,
    })
}

/// What the text says of memory.
pub fn memory_of_applications(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "8-memory",
        title: "STAMP's applications: bytes of records (in the text)",
        section: "§7.3",
        axis: PORTED,
        content: Content::Points(vec![
            curve("drp", Measure::Memory, ported(scope, Kind::Drp, 16, false)?),
            curve("tl2", Measure::Memory, ported(scope, Kind::Tl2, 16, false)?),
        ]),
        notes: sizes(scope),
        claims: vec![Claim::new("DRP's memory consumption is less than 5 % higher than STO's.", |results| {
            let (most, _) = most(results, "drp", "tl2", 0.0)?;
            Ok(Finding::new(most < 1.05, format!("{} at most", times(most))))
        })
        .otherwise("a record here has one word more for each column group, which small rows feel; what an object of STO has beside its value was not compared")],
    })
}

/// The applications that DRP runs as they are; and the same on one core.
pub fn eager(id: &'static str, scope: &Scope) -> Result<Figure, Failure> {
    let is_alone = id == "8-eager-why";
    let cores = if is_alone { 1 } else { 8 };
    let intruder = intruder::Parameters {
        flows: if scope.quick { 60 } else { 1_000 },
        ..intruder::Parameters::default()
    };
    let genome = genome::Parameters {
        segments: if scope.quick { 300 } else { 8_192 },
        gene: if scope.quick { 128 } else { 1024 },
        segment: if scope.quick { 16 } else { 32 },
    };
    let labyrinth = match scope.quick {
        true => labyrinth::Parameters { size: [12, 12, 2], pairs: 12 },
        false => labyrinth::Parameters::default(),
    };
    let bayes = match scope.quick {
        true => bayes::Parameters { variables: 10, records: 128, ..bayes::Parameters::default() },
        false => bayes::Parameters::default(),
    };
    let subjects: Vec<Subject> = vec![
        Intruder::new(intruder).map_err(unusable)?.into(),
        Genome::new(genome).map_err(unusable)?.into(),
        Labyrinth::new(labyrinth).map_err(unusable)?.into(),
        Bayes::new(bayes).map_err(unusable)?.into(),
    ];
    let series = [Kind::Drp, Kind::Tl2].map(|kind| {
        let points = (1..).zip(&subjects);
        let points = points.map(|(x, subject)| (f64::from(x), at(scope, subject, kind, cores))).collect();
        curve(kind.name(), Measure::Speed, points)
    });
    Ok(Figure {
        id,
        title: match is_alone {
            true => "Applications that defer nothing, on one core",
            false => "Applications that defer nothing, on 8 cores (in the text)",
        },
        section: "§7.3",
        axis: Axis { name: "1 intruder, 2 genome, 3 labyrinth, 4 bayes", spacing: Spacing::Even },
        content: Content::Points(series.into()),
        notes: vec!["Much smaller inputs than the paper's.".into()],
        claims: vec![if is_alone { dearer_alone() } else { as_fast() }],
    })
}

/// DRP's speed as a share of TL2's in each application, and in words.
fn of_tl2(results: &Results) -> Result<(Vec<f64>, String), Missing> {
    let ratios = [1.0, 2.0, 3.0, 4.0].map(|x| to(results, "drp", "tl2", x));
    let ratios: Vec<f64> = ratios.into_iter().collect::<Result<_, Missing>>()?;
    let measured: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
    Ok((ratios, format!("intruder, genome, labyrinth, bayes: {} of tl2", measured.join(", "))))
}

fn as_fast() -> Claim {
    Claim::new("DRP achieves the same performance as STO, as these run as wild transactions.", |results| {
        let (ratios, measured) = of_tl2(results)?;
        Ok(Finding::new(ratios.iter().all(|ratio| (0.95..=1.05).contains(ratio)), measured))
    })
    .otherwise(
        "a commit costs more than tl2's, also where nobody else is there: see the figure that ends in -why",
    )
}

fn dearer_alone() -> Claim {
    Claim::new("Our own: it is the commit's own cost, which one core has as well.", |results| {
        let (ratios, measured) = of_tl2(results)?;
        Ok(Finding::new(ratios.iter().any(|ratio| *ratio < 0.95), measured))
    })
}
