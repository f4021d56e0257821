//! What a paper says of a figure, and whether it is so here.
//!
//! What a paper measured on its machine is compared as ratios, never as absolute numbers, by the same measure
//! everywhere:
//!
//! - an *order* holds if the two differ by more than [`ORDER_MARGIN`] in that direction;
//! - a *ratio* is the paper's if it lies within a factor of [`NEAR`] of it, to either side;
//! - a curve *scales to* the least number at which it has [`PEAK_SHARE`](super::results::PEAK_SHARE) of its
//!   highest value.

use super::results::{Missing, Results};
use serde::Serialize;

/// What differs by less is in no order.
pub const ORDER_MARGIN: f64 = 0.02;
/// A ratio that differs from the paper's by a greater factor is another one.
pub const NEAR: f64 = 1.5;

/// Whether a ratio is the paper's.
pub fn near(measured: f64, paper: f64) -> bool {
    measured > 0.0 && measured <= paper * NEAR && measured >= paper / NEAR
}

/// Whether one is above the other.
pub fn above(higher: f64, lower: f64) -> bool {
    higher > lower * (1.0 + ORDER_MARGIN)
}

/// What a paper says of a figure.
pub struct Claim {
    /// In words, with the paper's figures.
    pub words: &'static str,
    /// Whether it is so here.
    pub judge: Judge,
    /// Why it is not so, as far as that is known; told only then.
    pub otherwise: &'static str,
}

/// How a claim is judged.
pub enum Judge {
    /// By the results.
    By(fn(&Results) -> Result<Finding, Missing>),
    /// It cannot be, for a reason.
    Unreachable(&'static str),
}

impl Claim {
    /// One that is judged by the results.
    pub fn new(words: &'static str, judge: fn(&Results) -> Result<Finding, Missing>) -> Self {
        Self { words, judge: Judge::By(judge), otherwise: "" }
    }

    /// One that cannot be judged here.
    pub fn unreachable(words: &'static str, reason: &'static str) -> Self {
        Self { words, judge: Judge::Unreachable(reason), otherwise: "" }
    }

    /// Why it is not so here.
    pub fn otherwise(self, reason: &'static str) -> Self {
        Self { otherwise: reason, ..self }
    }

    /// What came of it.
    pub fn judged(&self, results: &Results) -> Judgement {
        let judgement = |verdict, measured: String, reason: &str| Judgement {
            claim: self.words.to_owned(),
            measured,
            verdict,
            reason: reason.to_owned(),
        };
        match self.judge {
            Judge::Unreachable(reason) => judgement(Verdict::Unreachable, String::new(), reason),
            Judge::By(judge) => match judge(results) {
                Ok(Finding { holds: true, measured }) => judgement(Verdict::Reproduced, measured, ""),
                Ok(Finding { measured, .. }) => judgement(Verdict::NotReproduced, measured, self.otherwise),
                Err(Missing(what)) => {
                    let reason = format!("there is no {what}: a run failed, or it was not asked for");
                    judgement(Verdict::NotMeasured, String::new(), &reason)
                }
            },
        }
    }
}

/// What a judge found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether it is as the paper says.
    pub holds: bool,
    /// What was measured, in words.
    pub measured: String,
}

impl Finding {
    /// What was found.
    pub fn new(holds: bool, measured: impl Into<String>) -> Self {
        Self { holds, measured: measured.into() }
    }
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Verdict {
    /// It is so here.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// It is not so here.
    #[serde(rename = "not reproduced")]
    NotReproduced,
    /// It cannot be measured here.
    #[serde(rename = "not reachable here")]
    Unreachable,
    /// A point that it needs is missing.
    #[serde(rename = "not measured")]
    NotMeasured,
}

impl Verdict {
    /// All, in the order of reports.
    pub const ALL: [Self; 4] = [Self::Reproduced, Self::NotReproduced, Self::Unreachable, Self::NotMeasured];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::NotReproduced => "not reproduced",
            Self::Unreachable => "not reachable here",
            Self::NotMeasured => "not measured",
        }
    }
}

/// A claim with its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Judgement {
    /// What the paper says.
    pub claim: String,
    /// What was measured here.
    pub measured: String,
    /// Whether that is so here.
    pub verdict: Verdict,
    /// Why it is not, or cannot be.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::made;
    use super::*;

    #[test]
    fn orders_and_ratios_have_margins() {
        assert!(above(103.0, 100.0) && !above(101.0, 100.0) && !above(90.0, 100.0));
        assert!(near(9.0, 9.0) && near(6.1, 9.0) && near(13.4, 9.0));
        assert!(!near(5.9, 9.0) && !near(13.6, 9.0) && !near(f64::NAN, 9.0) && !near(0.0, 9.0));
    }

    #[test]
    fn a_claim_has_one_of_four_verdicts() {
        fn doubles(results: &Results) -> Result<Finding, Missing> {
            let times = results.over("a", 2.0, 1.0)?;
            Ok(Finding::new(times >= 2.0, format!("{times:.1} times")))
        }
        let claim = Claim::new("twice as fast", doubles).otherwise("the memory is slow");
        let judged = |points: &[(f64, f64)]| {
            let Judgement { verdict, measured, reason, .. } = claim.judged(&made(&[("a", points)]));
            (verdict, measured, reason)
        };
        assert_eq!(
            judged(&[(1.0, 5.0), (2.0, 10.0)]),
            (Verdict::Reproduced, "2.0 times".into(), String::new())
        );
        assert_eq!(
            judged(&[(1.0, 5.0), (2.0, 6.0)]),
            (Verdict::NotReproduced, "1.2 times".into(), "the memory is slow".into())
        );
        let (verdict, measured, reason) = judged(&[(1.0, 5.0)]);
        assert_eq!((verdict, measured.as_str()), (Verdict::NotMeasured, ""));
        assert!(reason.contains("a at 2"), "{reason}");
        // A rate of nothing is no base for a ratio.
        assert_eq!(judged(&[(1.0, 0.0), (2.0, 6.0)]).0, Verdict::NotMeasured);
        let never = Claim::unreachable("in the sun", "there is none").judged(&Results::default());
        assert_eq!((never.verdict, never.reason.as_str()), (Verdict::Unreachable, "there is none"));
        for verdict in Verdict::ALL {
            assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.name());
        }
    }
}
