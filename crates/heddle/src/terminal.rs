//! What the program writes to: whether a stream takes escape sequences, and how wide it is.

use rustix::fd::AsFd;
use rustix::termios::tcgetwinsize;
use std::io::IsTerminal;

/// Whether a stream may get escape sequences.
pub fn terminal_with_colours(stream: &impl IsTerminal) -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && stream.is_terminal()
}

/// How many columns a terminal has; none for a pipe, a file, or a terminal that does not say.
pub fn columns(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let size = stream.is_terminal().then(|| tcgetwinsize(stream).ok()).flatten()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Names and what there is to say of each, in two columns. Names are padded to `names` columns; with a
/// `width` descriptions are broken, and all their lines begin in the same column.
///
/// A word that is longer than the rest of a line stands in a line of its own. Too narrow a width is passed
/// over.
pub fn aligned(rows: &[(&str, &str)], names: usize, width: Option<usize>) -> String {
    let begin = INDENT + names + GAP;
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(begin));
    let room = if room < ROOM_MIN { usize::MAX } else { room };
    let mut text = String::new();
    for &(name, about) in rows {
        let mut head = format!("{:INDENT$}{name:names$}{:GAP$}", "", "");
        for line in broken(about, room) {
            text += format!("{head}{line}").trim_end();
            text.push('\n');
            head = " ".repeat(begin);
        }
    }
    text
}

/// How many columns the longest name takes.
pub fn widest(rows: &[(&str, &str)]) -> usize {
    rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0)
}

/// Before names.
const INDENT: usize = 2;
/// Between the longest name and the descriptions.
const GAP: usize = 2;
/// Narrower columns of descriptions cannot be read.
const ROOM_MIN: usize = 20;

/// Words in lines of a width; one line at least.
fn broken(words: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        let line = lines.last_mut().expect("there is a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: [(&str, &str); 3] = [
        ("silo", "optimistic, with epochs"),
        ("deterministic-lazy", "turns before the first access, and what is marked as later afterwards"),
        ("größe", "a name whose bytes are more than its letters"),
    ];

    /// Checks that each line is a name or blanks, then a gap, then words from column 22 on.
    fn check_columns(text: &str) {
        let begin = INDENT + "deterministic-lazy".len() + GAP;
        for line in text.lines() {
            let letters: Vec<char> = line.chars().collect();
            let (head, rest) = letters.split_at(begin);
            let name = head.iter().collect::<String>();
            assert!(name.trim().is_empty() || ROWS.iter().any(|(known, _)| *known == name.trim()), "{text}");
            assert!(name.ends_with("  ") && name.starts_with("  ") && rest[0] != ' ', "{line:?} in\n{text}");
        }
    }

    #[test]
    fn descriptions_begin_in_one_column_behind_the_longest_name() {
        let text = aligned(&ROWS, widest(&ROWS), None);
        assert_eq!(text.lines().count(), ROWS.len(), "a line each in a pipe:\n{text}");
        check_columns(&text);
        assert!(text.starts_with("  silo                optimistic"), "{text}");
    }

    #[test]
    fn descriptions_are_broken_to_the_terminal_and_stay_in_their_column() {
        let plain = aligned(&ROWS, widest(&ROWS), None);
        let text = aligned(&ROWS, widest(&ROWS), Some(50));
        assert!(text.lines().count() > ROWS.len(), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 50), "{text}");
        check_columns(&text);
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(&text), words(&plain), "a word is lost");
        // Where there is no room for a column, lines are left as long as they are.
        assert_eq!(aligned(&ROWS, widest(&ROWS), Some(30)), plain);
        assert_eq!(aligned(&[("name", "")], 4, Some(80)), "  name\n");
    }
}
