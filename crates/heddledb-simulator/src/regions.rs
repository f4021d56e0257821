//! How much room the regions of the model have, by trial.

use heddledb::RegionMetrics;
use heddledb::internals::sync::probe::Trial;
use heddledb_engine_simulated::sync::probe::Trial as Simulated;
use heddledb_engine_simulated::sync::simulation::{Failure, Settings, simulate};
use heddledb_engine_simulated::sync::thread;
use std::panic::resume_unwind;

/// Runs a trial on one virtual core.
///
/// # Errors
/// The simulation did not end.
pub fn run(trial: Trial) -> Result<RegionMetrics, Failure> {
    let Trial { writes, random, lines, regions, seed } = trial;
    let trial = Simulated { writes, random, lines, regions, seed };
    simulate(Settings::default(), move || {
        let worker = thread::spawn_worker(0, move || trial.run());
        worker.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of regions that commit.
    fn committed(writes: bool, random: bool, lines: usize) -> f64 {
        let metrics = run(Trial { writes, random, lines, regions: 20, seed: 1 }).unwrap();
        assert_eq!(metrics.committed + metrics.aborted(), 20);
        assert_eq!(metrics.aborted(), metrics.capacity);
        metrics.committed as f64 / 20.0
    }

    /// DBX-TC's figures 1a and 1b: the room for writes is a cache of 32 KiB, and less of it is used at random places.
    #[test]
    fn the_model_has_the_room_of_its_table() {
        assert_eq!(committed(true, false, 512), 1.0);
        assert_eq!(committed(true, false, 513), 0.0);
        assert_eq!(committed(true, true, 512), 0.0);
        assert!(committed(true, true, 64) > 0.5);
        assert_eq!(committed(false, false, 16_384), 1.0);
        assert_eq!(committed(false, false, 16_385), 0.0);
        assert!(committed(false, true, 16_384) < 0.5);
    }
}
