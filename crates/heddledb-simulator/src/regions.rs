//! How much room the regions of the model have, by trial.

use heddledb::RegionMetrics;
use heddledb::internals::sync::probe::Trial;
use heddledb_engine_simulated::sync::probe::Trial as Simulated;
use heddledb_engine_simulated::sync::simulation::{Costs, Failure, Settings, simulate};
use heddledb_engine_simulated::sync::thread;
use std::panic::resume_unwind;

/// Runs a trial on one virtual core, with the room of a table of costs.
///
/// # Errors
/// The simulation did not end.
pub fn run(trial: Trial, costs: Costs) -> Result<RegionMetrics, Failure> {
    let Trial { writes, random, lines, regions, seed } = trial;
    let trial = Simulated { writes, random, lines, regions, seed };
    simulate(Settings { costs, ..Settings::default() }, move || {
        let worker = thread::spawn_worker(0, move || trial.run());
        worker.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use heddledb_engine_simulated::sync::simulation::L1;

    const REGIONS: u32 = 100;

    /// The share of regions that commit, in percent.
    fn committed(l1: Option<L1>, writes: bool, random: bool, lines: usize) -> f64 {
        let costs = l1.map_or(Costs::default(), |l1| l1.of(Costs::default()));
        let metrics = run(Trial { writes, random, lines, regions: REGIONS, seed: 1 }, costs).unwrap();
        assert_eq!(metrics.committed + metrics.aborted(), u64::from(REGIONS));
        assert_eq!(metrics.aborted(), metrics.capacity);
        metrics.committed as f64 * 100.0 / f64::from(REGIONS)
    }

    /// DBX-TC's figures 1a and 1b: the room for writes is a cache of 32 KiB, and less of it is used at random places.
    #[test]
    fn the_model_has_the_room_of_its_table() {
        let committed = |writes, random, lines| committed(None, writes, random, lines);
        assert_eq!(committed(true, false, 512), 100.0);
        assert_eq!(committed(true, false, 513), 0.0);
        assert_eq!(committed(true, true, 512), 0.0);
        assert!(committed(true, true, 64) > 50.0);
        assert_eq!(committed(false, false, 16_384), 100.0);
        assert_eq!(committed(false, false, 16_385), 0.0);
        assert!(committed(false, true, 16_384) < 50.0);
    }

    /// Figure 1a's ends: 31 KB of stores and 4 MB of loads in sequence.
    #[test]
    fn an_8_way_cache_has_the_room_of_the_paper() {
        let committed = |writes, random, lines| committed(Some(L1::EightWay), writes, random, lines);
        assert_eq!(committed(true, false, 31 * 16), 100.0);
        assert_eq!(committed(true, false, 32 * 16), 0.0);
        assert!(committed(true, true, 256) < 50.0, "half of it, at random places");
        assert_eq!(committed(false, false, 512), 100.0);
        let (half, all) = (committed(false, false, 1 << 15), committed(false, false, 1 << 16));
        assert!(half > all && (1.0..30.0).contains(&all), "{half} and {all}");
    }

    /// What regions did on two Xeons with such caches: with so many lines so many of a hundred committed.
    #[test]
    fn a_12_way_cache_has_the_room_of_real_ones() {
        let cases: [(bool, bool, usize, f64, f64); 17] = [
            (true, false, 640, 100.0, 100.0),
            (true, false, 768, 0.0, 0.0),
            (true, true, 256, 85.0, 99.0),
            (true, true, 384, 15.0, 35.0),
            (true, true, 512, 0.0, 2.0),
            (false, false, 768, 98.0, 100.0),
            (false, false, 1_024, 62.0, 99.0),
            (false, false, 4_096, 0.0, 49.0),
            (false, false, 16_384, 0.0, 2.0),
            (false, true, 256, 98.0, 100.0),
            (false, true, 512, 75.0, 92.0),
            (false, true, 640, 7.0, 60.0),
            (false, true, 1_024, 0.0, 87.0),
            (false, true, 4_096, 0.0, 0.0),
            (true, false, 1, 100.0, 100.0),
            (false, true, 64, 100.0, 100.0),
            (true, true, 128, 100.0, 100.0),
        ];
        for (writes, random, lines, least, most) in cases {
            let share = committed(Some(L1::TwelveWay), writes, random, lines);
            println!("writes {writes}, random {random}, {lines} lines: {share} %");
            assert!(
                (least..=most).contains(&share),
                "writes {writes}, random {random}, {lines} lines: {share} %"
            );
        }
    }
}
