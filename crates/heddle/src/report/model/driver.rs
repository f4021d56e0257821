//! What began the transactions, and what came of calls that were submitted.

use super::run::Latency;
use crate::report::rate;
use serde::{Deserialize, Serialize};

/// What began the transactions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "loop", rename_all = "lowercase")]
pub enum Driver {
    /// Each worker executed its transactions itself, one after another.
    Closed,
    /// Clients kept as many calls in flight as they may, which executors executed.
    Window {
        /// How many clients there were.
        clients: usize,
        /// How many calls of each were in flight.
        queue: usize,
    },
    /// Calls arrived by a schedule at clients, which submitted them to executors.
    Open {
        /// How many clients there were.
        clients: usize,
        /// How many calls of each were in flight at most.
        queue: usize,
        /// How many calls were to arrive in a second, at all clients together.
        rate: f64,
        /// The gaps between arrivals: poisson or fixed.
        arrivals: String,
    },
}

impl Driver {
    /// How many clients there were; none in a closed loop.
    pub fn clients(&self) -> usize {
        match *self {
            Self::Closed => 0,
            Self::Window { clients, .. } | Self::Open { clients, .. } => clients,
        }
    }

    /// How many calls were asked for in a second, in an open loop.
    pub fn rate(&self) -> Option<f64> {
        match *self {
            Self::Open { rate, .. } => Some(rate),
            Self::Closed | Self::Window { .. } => None,
        }
    }

    /// From when on latency counts.
    pub fn latency_from(&self) -> &'static str {
        match self {
            Self::Closed => "start",
            Self::Window { .. } => "submission",
            Self::Open { .. } => "intended arrival",
        }
    }

    /// What it is, in words. The number of clients is not told: it may differ between the lines of a table.
    pub fn words(&self) -> String {
        match self {
            Self::Closed => "closed loop: each thread executes its transactions one after another".to_owned(),
            Self::Window { queue, .. } => {
                format!(
                    "window: each client keeps {queue} submitted calls in flight, which executors execute"
                )
            }
            Self::Open { queue, rate: asked, arrivals, .. } => format!(
                "open loop: {} calls arrive in a second ({arrivals}), and executors execute them; each client has {queue} in \
                 flight at most",
                rate(*asked)
            ),
        }
    }

    /// What latency is, in words.
    pub fn latency_words(&self) -> &'static str {
        match self {
            Self::Closed => "from the first start of a transaction to its commit, retries included",
            Self::Window { .. } => {
                "from the submission of a call until its result can be had, retries included"
            }
            Self::Open { .. } => {
                "from the arrival of a call that the schedule says until its result can be had, whatever keeps it from being submitted; \
                 calls that had not ended when the window did have none"
            }
        }
    }
}

/// What came of submitted calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallFigures {
    /// How they arrived, in an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<OpenFigures>,
    /// Into what batches they were gathered, where the protocol makes some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batches: Option<BatchFigures>,
}

/// How calls arrived in the window of an open loop, and how fast they were executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenFigures {
    /// Calls that arrived.
    pub arrived: f64,
    /// The same in a second: the rate that was asked for, but for chance.
    pub arrived_per_second: f64,
    /// Calls that ended in a second, user aborts included: the rate that was achieved.
    pub ended_per_second: f64,
    /// Calls that had arrived when the window began, and had not ended.
    pub waiting_begin: f64,
    /// The same when it ended.
    pub waiting_end: f64,
    /// How long after its arrival a call was submitted: what of the latency is the clients' own, or a limit's of calls in flight.
    pub late_us: Latency,
}

impl OpenFigures {
    /// Whether as many calls ended as arrived, but for a few: else more and more wait, and latencies say how long the run was.
    pub fn keeps_up(&self) -> bool {
        self.waiting_end - self.waiting_begin <= (BACKLOG_SHARE * self.arrived).max(BACKLOG_FEW)
    }
}

/// By this share of the calls that arrive may those grow that wait.
const BACKLOG_SHARE: f64 = 0.02;
/// By so many, however few arrive: they are as well in flight.
const BACKLOG_FEW: f64 = 20.0;

/// Batches of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchFigures {
    /// Calls of a batch, in the mean.
    pub calls: f64,
    /// The share of the calls that were executed in pieces.
    pub in_pieces: f64,
    /// Edges of the batches' graphs for each call.
    pub edges_per_call: f64,
    /// The share of the calls that waited for others of their batch before they began.
    pub waited: f64,
    /// Calls of the longest chain of a batch, in the mean: executed one after another.
    pub depth: f64,
    /// How long a batch was built and executed, in the mean, in microseconds: until its calls had told what they will access, until its graph was
    /// made, and from its first call's begin to its last one's end. Batches are built while others are executed.
    pub telling_us: f64,
    pub linking_us: f64,
    pub executing_us: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_that_grows_is_told_from_one_that_does_not() {
        let of = |arrived: f64, waiting_begin: f64, waiting_end: f64| OpenFigures {
            arrived,
            waiting_begin,
            waiting_end,
            ..OpenFigures::default()
        };
        assert!(of(10_000.0, 3.0, 150.0).keeps_up());
        assert!(of(10_000.0, 5_000.0, 200.0).keeps_up());
        assert!(of(30.0, 0.0, 15.0).keeps_up(), "these few are in flight");
        assert!(!of(10_000.0, 3.0, 900.0).keeps_up());
        assert!(!of(100.0, 50.0, 90.0).keeps_up());
    }

    #[test]
    fn drivers_are_told_in_the_file_by_their_loop() {
        let open = Driver::Open { clients: 2, queue: 100, rate: 5e4, arrivals: "poisson".into() };
        let window = Driver::Window { clients: 2, queue: 100 };
        for (driver, told, from) in [
            (Driver::Closed, "closed", "start"),
            (window, "window", "submission"),
            (open, "open", "intended arrival"),
        ] {
            let value = serde_json::to_value(&driver).unwrap();
            assert_eq!((value["loop"].as_str(), driver.latency_from()), (Some(told), from));
            assert_eq!(serde_json::from_value::<Driver>(value).unwrap(), driver);
        }
    }
}
