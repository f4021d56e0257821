//! Costs that fit measured times: least squares that stay at zero or above.
//!
//! A core that shares nothing takes a time that is a sum: of each thing that it does, how often times what
//! it costs. So the costs follow from times and counts of enough different loads. They are near to
//! undetermined where two things always go together (a row read is words copied), so deviations from the
//! present costs are penalised a little: what the measurements do not tell stays as it is.

/// One load: what it did, and how long that took.
#[derive(Clone, Debug)]
pub struct Sample {
    /// How often each thing was done.
    pub counts: Vec<f64>,
    /// Cycles that are not to be fitted.
    pub fixed: f64,
    /// Cycles that were measured.
    pub cycles: f64,
}

impl Sample {
    /// Cycles with these costs.
    pub fn predicted(&self, costs: &[f64]) -> f64 {
        self.fixed + self.counts.iter().zip(costs).map(|(count, cost)| count * cost).sum::<f64>()
    }
}

/// How much a cost that is twice or none of its present value counts, in terms of a load that is off by its
/// whole time.
const RIDGE: f64 = 0.02;
/// Sweeps over all costs; far more than it takes to settle.
const SWEEPS: usize = 20_000;

/// The costs, none below zero, for which relative errors are least in squares. `present` are the costs that
/// deviations are counted from; those below 1 count as 1 for that.
pub fn fit(samples: &[Sample], present: &[f64]) -> Vec<f64> {
    let scale: Vec<f64> = present.iter().map(|cost| cost.max(1.0)).collect();
    let mut costs = present.to_vec();
    let ridge = RIDGE * RIDGE * samples.len() as f64;
    // Of each sample: (predicted - measured) / measured.
    let mut errors: Vec<f64> = samples.iter().map(|one| one.predicted(&costs) / one.cycles - 1.0).collect();
    let weight = |sample: &Sample, at: usize| sample.counts[at] / sample.cycles;
    for _ in 0..SWEEPS {
        for at in 0..costs.len() {
            let pull = ridge / (scale[at] * scale[at]);
            let (mut slope, mut bend) = (pull * (costs[at] - present[at]), pull);
            for (sample, error) in samples.iter().zip(&errors) {
                slope += weight(sample, at) * error;
                bend += weight(sample, at) * weight(sample, at);
            }
            let better = (costs[at] - slope / bend).max(0.0);
            for (sample, error) in samples.iter().zip(&mut errors) {
                *error += weight(sample, at) * (better - costs[at]);
            }
            costs[at] = better;
        }
    }
    costs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(counts: [f64; 3], truth: [f64; 3]) -> Sample {
        let mut sample = Sample { counts: counts.to_vec(), fixed: 50.0, cycles: 0.0 };
        sample.cycles = sample.predicted(&truth);
        sample
    }

    #[test]
    fn costs_are_found_again() {
        let truth = [4.0, 120.0, 16.0];
        let loads = [[900.0, 3.0, 10.0], [200.0, 40.0, 60.0], [100.0, 10.0, 300.0], [500.0, 90.0, 5.0]];
        let samples: Vec<Sample> = loads.iter().map(|counts| sample(*counts, truth)).collect();
        let found = fit(&samples, &[3.0, 150.0, 20.0]);
        for sample in &samples {
            assert!((sample.predicted(&found) / sample.cycles - 1.0).abs() < 0.01, "{found:?}");
        }
    }

    #[test]
    fn nothing_costs_less_than_nothing_and_the_unseen_stays() {
        let mut samples: Vec<Sample> = [[100.0, 0.0, 50.0], [80.0, 0.0, 400.0]]
            .iter()
            .map(|counts| sample(*counts, [5.0, 0.0, 1.0]))
            .collect();
        samples[1].cycles *= 0.4;
        let found = fit(&samples, &[5.0, 77.0, 1.0]);
        assert!(found.iter().all(|cost| *cost >= 0.0), "{found:?}");
        assert_eq!(found[1], 77.0);
    }
}
