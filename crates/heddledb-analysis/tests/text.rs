//! The text format under random damage: a workload or an error with a place, never a panic; and what is
//! parsed survives printing.
//!
//! A failure prints the seed and the text; `HEDDLE_SEED=17 cargo test -p heddledb-analysis --test text` replays it.

use heddledb_analysis::workload::{Step, Workload};
use heddledb_analysis::{Options, analyse, builtin, text};

const TEXTS: u64 = 20_000;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ (word >> 31)) % limit.max(1) as u64) as usize
    }
}

const WORDS: [&str; 31] = [
    "workload",
    "table",
    "txn",
    "static",
    "appendonly",
    "key",
    "cols",
    "group",
    "weight",
    "readonly",
    "read",
    "update",
    "add",
    "insert",
    "delete",
    "scan",
    "loop",
    "if",
    "else",
    "piece",
    "end",
    "by",
    "idx",
    "reads",
    "causal",
    "no_abort",
    "*",
    "7",
    "#",
    "d_tax",
    "4294967296",
];
const LETTERS: [char; 12] = ['a', 'İ', 'ß', '#', '\t', '\n', '\r', '\u{feff}', '\u{301}', '*', '0', '𝄞'];

/// A text with some words or letters put in, taken out, doubled or swapped.
fn damage(random: &mut Random, text: &str) -> String {
    let mut lines: Vec<Vec<String>> =
        text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect();
    for _ in 0..1 + random.below(4) {
        let at = random.below(lines.len());
        let word = random.below(lines[at].len());
        match random.below(7) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[random.below(lines.len())].clone()),
            2 => lines[at].insert(word, WORDS[random.below(WORDS.len())].into()),
            3 => drop(lines[at].remove(word)),
            4 => lines[at][word] = WORDS[random.below(WORDS.len())].into(),
            5 => {
                let letter = LETTERS[random.below(LETTERS.len())];
                let place = random.below(lines[at][word].chars().count() + 1);
                let place =
                    lines[at][word].char_indices().nth(place).map_or(lines[at][word].len(), |one| one.0);
                lines[at][word].insert(place, letter);
            }
            _ => drop(lines[at][word].pop()),
        }
        lines.iter_mut().filter(|line| line.is_empty()).for_each(|line| line.push(String::new()));
        if lines.is_empty() {
            lines.push(vec![String::new()]);
        }
    }
    lines.iter().map(|line| line.join(" ")).collect::<Vec<_>>().join("\n")
}

/// The same workload as if it stood in no text.
fn without_lines(mut workload: Workload) -> Workload {
    fn clear(steps: &mut [Step]) {
        for step in steps {
            match step {
                Step::Access(access) => access.line = 0,
                Step::Loop(inner) | Step::Piece(inner) => clear(inner),
                Step::If { then, otherwise } => {
                    clear(then);
                    clear(otherwise);
                }
            }
        }
    }
    workload.transactions.iter_mut().for_each(|one| clear(&mut one.body));
    workload
}

fn check(text: &str) -> bool {
    let workload = match text::parse(text) {
        Ok(workload) => workload,
        Err(error) => {
            let lines: Vec<&str> = text.lines().collect();
            assert!((1..=lines.len().max(1)).contains(&error.line), "{error}");
            let letters = lines.get(error.line - 1).map_or(0, |line| line.chars().count());
            assert!((1..=letters + 1).contains(&error.column), "{error}");
            assert!(!error.message.is_empty() && !error.to_string().contains('\n'), "{error}");
            return false;
        }
    };
    let printed = text::print(&workload);
    let again = text::parse(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert_eq!(without_lines(again), without_lines(workload.clone()), "{printed}");
    analyse(&workload, &Options::default());
    true
}

#[test]
fn damaged_texts_are_parsed_or_refused() {
    let seeds = match std::env::var("HEDDLE_SEED").ok().and_then(|text| text.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..TEXTS,
    };
    let (mut parsed, all) = (0, seeds.clone().count());
    for seed in seeds {
        let mut random = Random(seed);
        let original = builtin::ALL[random.below(builtin::ALL.len())].text;
        let text = damage(&mut random, original);
        match std::panic::catch_unwind(|| check(&text)) {
            Ok(good) => parsed += usize::from(good),
            Err(panic) => {
                eprintln!("replay with HEDDLE_SEED={seed}\n{text}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    // Both outcomes are common, or the test would say little.
    assert!(all == 1 || (parsed > all / 20 && parsed < all * 19 / 20), "{parsed} of {all} were parsed");
}
