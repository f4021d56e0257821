//! What all pages are made of: the file around them, sections, tables.

use crate::date;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A page of one file.
pub struct Page<'a> {
    /// What a browser shows as its name.
    pub title: &'a str,
    /// What stands at its top.
    pub heading: &'a str,
    /// What its figures say, in one sentence that was computed from them.
    pub conclusion: &'a str,
    /// Style that this page has besides the common one.
    pub style: &'a str,
    /// All the rest, as HTML.
    pub body: &'a str,
}

impl Page<'_> {
    /// The file. The date is today's; no page takes it anywhere else.
    pub fn text(&self) -> String {
        self.dated(&date::today())
    }

    /// The file as of a date, which is UTC.
    fn dated(&self, date: &str) -> String {
        let Self { style, body, .. } = self;
        let [title, heading, conclusion] = [self.title, self.heading, self.conclusion].map(escape);
        // A page on which nothing can be pointed at or folded has no script.
        let script = match body.contains("data-tip=") || body.contains("<details") {
            true => format!("<div id=\"tip\"></div>\n<script>\n{SCRIPT}</script>\n"),
            false => String::new(),
        };
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{STYLE}{style}</style>\n</head>\n<body>\n<h1>{heading}</h1>\n\
             <p class=\"conclusion\">{conclusion}</p>\n<p><time datetime=\"{date}\">{date}</time> (UTC)</p>\n\
             {body}{script}</body>\n</html>\n"
        )
    }
}

/// A section of the page.
pub fn section(body: &mut String, title: &str, note: &str, content: &str) {
    let note = if note.is_empty() { String::new() } else { format!("<p>{note}</p>\n") };
    let _ = writeln!(body, "<section>\n<h2>{title}</h2>\n{note}{content}</section>");
}

/// More columns need small letters on paper.
const WIDE: usize = 12;

/// A table whose first `words` columns are set to the left. Where it is too wide, it is scrolled by itself.
pub fn table(titles: &[&str], words: usize, rows: impl Iterator<Item = Vec<String>>) -> String {
    let class = |at: usize| if at < words { " class=\"w\"" } else { " class=\"n\"" };
    let wide = if titles.len() > WIDE { " class=\"wide\"" } else { "" };
    let mut text = format!("<div class=\"scroll\"><table{wide}>\n");
    if titles.iter().any(|title| !title.is_empty()) {
        text.push_str("<tr>");
        for (at, title) in titles.iter().enumerate() {
            let _ = write!(text, "<th{}>{}</th>", class(at), escape(title));
        }
        text.push_str("</tr>\n");
    }
    for row in rows {
        text.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let inside = match cell.as_str() {
                OK => "<span class=\"good\">ok</span>".to_owned(),
                FAILED => "<span class=\"bad\">FAILED</span>".to_owned(),
                words => escape(words),
            };
            let _ = write!(text, "<td{}>{inside}</td>", class(at));
        }
        text.push_str("</tr>\n");
    }
    text + "</table></div>\n"
}

const OK: &str = "ok";
const FAILED: &str = "FAILED";

/// The cell that tells whether something held.
pub fn verdict(ok: bool) -> String {
    if ok { OK } else { FAILED }.to_owned()
}

/// Words as the beginning of a sentence.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Text without letters that mean something to a page.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(body: &str) -> String {
        let (title, heading, conclusion) = ("a & b", "tpcc", "silo < tictoc.");
        Page { title, heading, conclusion, style: "b {}\n", body }.dated("2026-03-01")
    }

    #[test]
    fn a_page_has_its_date_and_its_conclusion_before_all_else() {
        let text = page("<p>rest</p>\n");
        assert!(text.contains("<time datetime=\"2026-03-01\">2026-03-01</time> (UTC)"), "{text}");
        assert_eq!(text.matches("2026").count(), 2, "one date");
        let places =
            ["<h1>tpcc</h1>", "silo &lt; tictoc.", "(UTC)", "rest"].map(|word| text.find(word).unwrap());
        assert!(places.is_sorted(), "{text}");
        assert!(!text.contains("<script"), "nothing needs it");
        assert!(page("<p data-tip=\"a\"></p>").contains("<script"));
    }

    #[test]
    fn a_page_fits_a_phone_and_paper() {
        let text = page("");
        assert!(text.contains("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"));
        // Dark colours are for screens alone, and on paper nothing is scrolled.
        assert!(
            text.contains("@media print") && text.contains("@media screen and (prefers-color-scheme: dark)")
        );
        assert!(!text.contains("@media (prefers-color-scheme"), "paper would be dark");
        let print = &text[text.find("@media print").unwrap()..];
        assert!(print.contains("overflow: visible") && print.contains("min-width: 0 !important"), "{print}");
        let rows = [vec!["a".to_owned()]];
        let table = table(&["name"], 1, rows.into_iter());
        assert!(table.starts_with("<div class=\"scroll\"><table>") && table.ends_with("</table></div>\n"));
    }
}
