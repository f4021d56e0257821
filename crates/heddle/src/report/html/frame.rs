//! What all pages are made of: the file around them, sections, tables.

use std::fmt::Write;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A page of one file.
pub fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}\
         <div id=\"tip\"></div>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        title = escape(title),
    )
}

/// A section of the page.
pub fn section(body: &mut String, title: &str, note: &str, content: &str) {
    let note = if note.is_empty() { String::new() } else { format!("<p>{note}</p>\n") };
    let _ = writeln!(body, "<section>\n<h2>{title}</h2>\n{note}{content}</section>");
}

/// A table whose first `words` columns are set to the left.
pub fn table(titles: &[&str], words: usize, rows: impl Iterator<Item = Vec<String>>) -> String {
    let class = |at: usize| if at < words { " class=\"w\"" } else { " class=\"n\"" };
    let mut text = String::from("<table>\n");
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
    text + "</table>\n"
}

const OK: &str = "ok";
const FAILED: &str = "FAILED";

pub fn verdict(ok: bool) -> String {
    if ok { OK } else { FAILED }.to_owned()
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
