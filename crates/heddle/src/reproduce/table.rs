//! Figures and verdicts in the terminal.

use super::figure::{Judgement, Verdict, caption};
use super::run::{Document, Found};
use crate::report::table::{align, empty, lines, machine, paint};
use comfy_table::{Attribute, Cell, Color};
use std::fmt::Write;

/// The width that words are broken to.
const WIDTH: usize = 100;

/// The document as text.
pub fn render(document: &Document, colours: bool) -> String {
    let mut text = format!("{}\n{}\n", document.title, document.about);
    if let Some(virtual_machine) = &document.virtual_machine {
        let _ = writeln!(text, "here: {}, seed {}", virtual_machine.cpu, document.seed);
    }
    if let Some(real) = &document.machine {
        let _ = write!(text, "here, on threads: {}", machine(real));
    }
    for note in &document.notes {
        text += &broken("note: ", "      ", note);
    }
    for figure in &document.figures {
        text.push('\n');
        text += &render_figure(figure, colours);
    }
    text.push('\n');
    for failure in document.failures() {
        let _ = writeln!(text, "{} {failure}", paint("FAILED", "31;1", colours));
    }
    let _ = writeln!(text, "{}", sum(document));
    text
}

/// How many claims got which verdict. What a report says of their number, in any form, is this.
fn counts(document: &Document) -> [(Verdict, usize); 4] {
    Verdict::ALL
        .map(|verdict| (verdict, document.claims().filter(|judgement| judgement.verdict == verdict).count()))
}

/// The counts in a line: `3 claims: 1 reproduced, 2 not reproduced`.
pub fn sum(document: &Document) -> String {
    let counts = counts(document);
    let told = counts.iter().filter(|(verdict, count)| *count > 0 || *verdict == Verdict::Reproduced);
    let told: Vec<String> = told.map(|(verdict, count)| format!("{count} {}", verdict.name())).collect();
    format!("{} claims: {}", document.claims().count(), told.join(", "))
}

/// How many claims are reproduced of how many, as a sentence.
pub fn conclusion(document: &Document) -> String {
    let [reproduced, not, unreachable, unmeasured] = counts(document).map(|(_, count)| count);
    let are =
        |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    let mut text = format!("Of {} claims {}", document.claims().count(), are(reproduced, "is", "are"));
    text += &format!(" reproduced and {}", are(not, "is not", "are not"));
    let mut rest = Vec::new();
    if unreachable > 0 {
        rest.push(format!("{unreachable} cannot be reached here"));
    }
    if unmeasured > 0 {
        rest.push(are(unmeasured, "was not measured", "were not measured"));
    }
    if !rest.is_empty() {
        text += &format!("; {}", rest.join(" and "));
    }
    text + "."
}

fn render_figure(figure: &Found, colours: bool) -> String {
    let head = format!("{}  {} ({})", caption(&figure.id), figure.title, figure.section);
    let mut text = format!("{}\n", paint(&head, "1", colours));
    for note in &figure.notes {
        text += &broken("  note: ", "        ", note);
    }
    if let Some(table) = values(figure, colours) {
        text += &table;
    }
    for claim in &figure.claims {
        text += &render_claim(claim, colours);
    }
    text
}

/// The rows of a figure: its own table, or series by numbers of the axis.
pub fn grid(figure: &Found) -> Vec<Vec<String>> {
    if !figure.table.is_empty() || figure.results.lines.is_empty() {
        return figure.table.clone();
    }
    let numbers = numbers(figure);
    let mut rows = vec![vec![figure.axis.clone()]];
    rows[0].extend(numbers.iter().map(f64::to_string));
    for line in &figure.results.lines {
        let mut row = vec![line.name.clone()];
        for number in &numbers {
            let dot = line.points.iter().find(|dot| dot.x == *number);
            row.push(match dot.map(|dot| dot.value) {
                Some(Some(value)) => line.measure.shown()(value),
                Some(None) => "FAILED".into(),
                None => String::new(),
            });
        }
        rows.push(row);
    }
    rows
}

/// The numbers of a figure's axis, in the order in which they are shown.
pub fn numbers(figure: &Found) -> Vec<f64> {
    let mut numbers: Vec<f64> =
        figure.results.lines.iter().flat_map(|line| line.points.iter().map(|dot| dot.x)).collect();
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    numbers
}

fn values(figure: &Found, colours: bool) -> Option<String> {
    let mut rows = grid(figure).into_iter();
    let titles = rows.next()?;
    let mut table = empty(colours);
    table.set_header(titles.into_iter().map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    for row in rows {
        table.add_row(row.into_iter().map(|cell| match cell.as_str() {
            "FAILED" => Cell::new(cell).fg(Color::Red),
            _ => Cell::new(cell),
        }));
    }
    align(&mut table, 1);
    Some(lines(&table))
}

fn render_claim(judgement: &Judgement, colours: bool) -> String {
    let name = judgement.verdict.name();
    let code = match judgement.verdict {
        Verdict::Reproduced => "32;1",
        Verdict::NotReproduced | Verdict::NotMeasured => "31;1",
        Verdict::Unreachable => "33",
    };
    let mut text = broken("  - ", "    ", &judgement.claim);
    let mut found = judgement.measured.clone();
    if !judgement.reason.is_empty() {
        if !found.is_empty() {
            found += "; ";
        }
        found += &judgement.reason;
    }
    let colon = if found.is_empty() { "" } else { ": " };
    let told = broken("    ", "    ", &format!("{name}{colon}{found}"));
    // Painted when the lines have been broken: colours have no width.
    text += &told.replacen(name, &paint(name, code, colours), 1);
    text
}

/// Words in lines of a width.
fn broken(first: &str, others: &str, words: &str) -> String {
    let mut text = String::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in words.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            text += line.trim_end();
            text.push('\n');
            line = others.to_owned();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    text + line.trim_end() + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn every_figure_has_its_table_and_every_claim_its_verdict() {
        let text = render(&sample(), false);
        for word in [
            "figure 7a  Something by cores (§1.2)",
            "virtual cores",
            "2.00 k",
            "- it doubles",
            "    reproduced: 2.0 times",
            "not reproduced: 0.5 times; the memory is slow",
            "not reachable here: there is none",
            "note: smaller tables",
            "FAILED 7a: b at 2: a check: 1 != 2",
            "3 claims: 1 reproduced, 1 not reproduced, 1 not reachable here",
        ] {
            assert!(text.contains(word), "{word} is missing in\n{text}");
        }
        assert!(!text.contains('\x1b'));
        assert!(render(&sample(), true).contains("\x1b[32;1mreproduced\x1b[0m"));
    }

    #[test]
    fn the_conclusion_counts_claims_as_the_sum_does() {
        let mut document = sample();
        assert_eq!(
            conclusion(&document),
            "Of 3 claims 1 is reproduced and 1 is not; 1 cannot be reached here."
        );
        let claims = &mut document.figures[0].claims;
        claims[2].verdict = Verdict::Reproduced;
        claims.extend_from_within(..1);
        claims.extend_from_within(1..2);
        claims[1].verdict = Verdict::NotMeasured;
        assert_eq!(conclusion(&document), "Of 5 claims 3 are reproduced and 1 is not; 1 was not measured.");
        assert_eq!(sum(&document), "5 claims: 3 reproduced, 1 not reproduced, 1 not measured");
    }

    #[test]
    fn words_are_broken_to_a_width() {
        let text = broken("- ", "  ", &"word ".repeat(60));
        assert!(text.lines().count() > 2 && text.lines().all(|line| line.len() <= WIDTH), "{text}");
        assert!(text.starts_with("- word") && text.lines().skip(1).all(|line| line.starts_with("  word")));
    }
}
