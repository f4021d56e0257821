//! Counters of a batch that many workers change.

use crate::sync::AtomicU32;

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
        let words = self.lines.iter_mut().flat_map(|line| &mut line.0);
        words.zip(values).for_each(|(word, value)| *word = AtomicU32::new(value));
    }

    pub fn get(&self, at: u32) -> Option<&AtomicU32> {
        let at = at as usize;
        (at < self.count).then(|| &self.lines[at / WORDS].0[at % WORDS])
    }

    pub fn at(&self, at: u32) -> &AtomicU32 {
        self.get(at).expect("it is a vertex")
    }
}
