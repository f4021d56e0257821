//! Bars on the standard error stream while a benchmark loads and runs.
//!
//! On a terminal there is one bar for the phase at hand and one for the whole; elsewhere one line
//! for each finished run, so that a log stays readable.
//!
//! Where runs are of very different length, each has a weight ([`Progress::weighed`]): the time left is
//! estimated from the weight that is done.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Steps of a phase's bar.
const STEPS: u64 = 1000;

/// The bars of one benchmark.
pub struct Progress {
    bars: Option<(MultiProgress, ProgressBar)>,
    begun: Instant,
    weight: u64,
    done: AtomicU64,
}

impl Progress {
    /// Bars for `runs` runs, drawn only if the standard error stream is a terminal.
    pub fn new(runs: usize) -> Self {
        Self::of(runs as u64, "runs", "{prefix:>32}  [{bar:40}] {pos}/{len}  {elapsed_precise}")
    }

    /// A bar for work of a total weight, with an estimate of the time left.
    pub fn weighed(weight: u64) -> Self {
        Self::of(weight, "all", "{prefix:>32}  [{bar:40}] {percent:>3} %  {elapsed_precise}  {msg}")
    }

    fn of(weight: u64, prefix: &'static str, template: &'static str) -> Self {
        let bars = stderr().is_terminal().then(|| {
            let all = MultiProgress::new();
            let total = all.add(ProgressBar::new(weight));
            total.set_style(style(template));
            total.set_prefix(prefix);
            total.enable_steady_tick(Duration::from_secs(1));
            (all, total)
        });
        Self { bars, begun: Instant::now(), weight, done: AtomicU64::new(0) }
    }

    /// Opens the bar of a phase, such as `silo, 2 threads: loading`.
    pub fn phase(&self, title: &str) -> Phase {
        let bar = self.bars.as_ref().map(|(all, _)| {
            let bar = all.insert(0, ProgressBar::new(STEPS));
            bar.set_style(style("{prefix:>32}  [{bar:40}] {percent:>3} %  {msg}"));
            bar.set_prefix(title.to_owned());
            bar
        });
        Phase { bar }
    }

    /// Notes that a run has ended, with its figures in a line.
    pub fn finished(&self, line: &str) {
        match &self.bars {
            Some((all, total)) => {
                let _ = all.println(line);
                total.inc(1);
            }
            None => eprintln!("{line}"),
        }
    }

    /// Notes that work of a weight has ended, with its figures in a line.
    pub fn weight_done(&self, line: &str, weight: u64) {
        // Relaxed: a sum for one reader's eye.
        let done = self.done.fetch_add(weight, Ordering::Relaxed) + weight;
        let left = left(self.begun.elapsed(), done, self.weight);
        match &self.bars {
            Some((all, total)) => {
                let _ = all.println(line);
                total.inc(weight);
                total.set_message(left);
            }
            None if left.is_empty() => eprintln!("{line}"),
            None => eprintln!("{line} ({left})"),
        }
    }
}

/// The time left in words, if weight `done` of `all` took so long; nothing at the end.
fn left(elapsed: Duration, done: u64, all: u64) -> String {
    if done == 0 || done >= all {
        return String::new();
    }
    let seconds = (elapsed.as_secs_f64() * (all - done) as f64 / done as f64).ceil();
    if seconds < 100.0 {
        format!("about {seconds} s left")
    } else {
        format!("about {:.0} min left", seconds / 60.0)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((all, total)) = &self.bars {
            total.finish_and_clear();
            let _ = all.clear();
        }
    }
}

/// The bar of one phase; it goes when this is dropped.
pub struct Phase {
    bar: Option<ProgressBar>,
}

impl Phase {
    /// Shows the share that is done, 0 to 1.
    pub fn share(&self, share: f64) {
        if let Some(bar) = &self.bar {
            bar.set_position((share.clamp(0.0, 1.0) * STEPS as f64) as u64);
        }
    }

    /// Shows a word beside the bar.
    pub fn message(&self, message: String) {
        if let Some(bar) = &self.bar {
            bar.set_message(message);
        }
    }

    /// True if anything is drawn.
    pub fn visible(&self) -> bool {
        self.bar.is_some()
    }
}

impl Drop for Phase {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A style from a template that is known to be good.
fn style(template: &'static str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_the_weight() {
        let after = |seconds, done| left(Duration::from_secs(seconds), done, 100);
        assert_eq!(after(10, 25), "about 30 s left");
        assert_eq!(after(600, 50), "about 10 min left");
        assert_eq!([after(1, 0), after(1, 100)], ["", ""]);
    }
}
