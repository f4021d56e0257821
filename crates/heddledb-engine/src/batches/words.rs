//! Counters of a batch that many workers change.

use crate::sync::{AtomicU32, Ordering};

/// Words that begin with a cache line, wherever they are: so which of them share one is the same in each run. They stay
/// there when there come more.
#[derive(Debug, Default)]
pub(super) struct Words {
    #[expect(clippy::vec_box, reason = "a line stays where it is")]
    lines: Vec<Box<Line>>,
    count: usize,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU32; WORDS]);

/// Words of a line.
const WORDS: usize = 16;

impl Words {
    pub fn fill(&mut self, values: impl ExactSizeIterator<Item = u32>) {
        self.count = values.len();
        let lines = self.count.div_ceil(WORDS);
        if self.lines.len() < lines {
            self.lines.resize_with(lines, Box::default);
        }
        let words = self.lines.iter().flat_map(|line| &line.0);
        // Relaxed: the batch is published after.
        words.zip(values).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    }

    pub fn get(&self, at: u32) -> Option<&AtomicU32> {
        let at = at as usize;
        (at < self.count).then(|| &self.lines[at / WORDS].0[at % WORDS])
    }

    pub fn at(&self, at: u32) -> &AtomicU32 {
        self.get(at).expect("it is a vertex")
    }
}
