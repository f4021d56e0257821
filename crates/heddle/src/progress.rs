//! Bars on the standard error stream while a benchmark loads and runs.
//!
//! On a terminal there is one bar for the phase at hand and one for the whole; elsewhere one line
//! for each finished run, so that a log stays readable.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// Steps of a phase's bar.
const STEPS: u64 = 1000;

/// The bars of one benchmark.
pub struct Progress {
    bars: Option<(MultiProgress, ProgressBar)>,
}

impl Progress {
    /// Bars for `runs` runs, drawn only if the standard error stream is a terminal.
    pub fn new(runs: usize) -> Self {
        if !stderr().is_terminal() {
            return Self { bars: None };
        }
        let all = MultiProgress::new();
        let total = all.add(ProgressBar::new(runs as u64));
        total.set_style(style("{prefix:>32}  [{bar:40}] {pos}/{len}  {elapsed_precise}"));
        total.set_prefix("runs");
        total.enable_steady_tick(Duration::from_secs(1));
        Self { bars: Some((all, total)) }
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
