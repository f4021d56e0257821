//! The SC-graph as a drawing: types as rows, ranks as columns, pieces as boxes.
//!
//! ```text
//!              rank 1        rank 2         rank 3
//!   type t   [ read a ]-->[ update b ]-->[ update c ]      S-edges: arrows to the right
//!                              | b            U c          C-edges: lines down a column, with their table;
//!   type u                [ read b   ]                     a loop is one between two instances of a type
//! ```
//!
//! A column holds pieces of one rank. Vertices whose rows overlap stand in different columns of their rank, so a line
//! between two boxes passes behind boxes of its own vertex only. Each C-edge has a lane in its column and a place for
//! its label below its upper end, so neither lines nor labels lie on each other. All widths and heights follow
//! from the texts, by the width of a letter in the font that is asked for.

use super::model::{Document, Edge, edges};
use super::words;
use crate::report::html::frame::escape;
use heddledb_analysis::Analysis;
use std::collections::BTreeMap;
use std::fmt::Write;

/// How wide a letter is at most, in pixels, in 12 pixel monospace.
const LETTER: f64 = 7.3;
/// The height of a line of text.
const LINE: f64 = 17.0;
/// Between a box's border and its text.
const PAD: f64 = 8.0;
/// Between columns; S-edges cross it.
const GUTTER: f64 = 34.0;
/// Between the lanes of C-edges in a column.
const LANE: f64 = 16.0;
/// Space for a label of a C-edge.
const SLOT: f64 = 17.0;
/// Above and below the labels between two rows.
const MARGIN: f64 = 12.0;
/// Above the first row: the ranks.
const HEAD: f64 = 44.0;
/// How many colours tables have; then they begin again.
const COLOURS: usize = 8;

const STYLE: &str = include_str!("drawing.css");

/// A piece on its way to a place.
struct Box {
    column: usize,
    /// Lines of text, by piece before merging.
    lines: Vec<Vec<String>>,
    conflict: bool,
}

/// A C-edge on its way to a place.
struct Line {
    /// Type and piece; the upper end first.
    ends: [(usize, usize); 2],
    column: usize,
    lane: usize,
    slot: usize,
    label: String,
    about: String,
    colour: usize,
}

#[derive(Default)]
struct Column {
    rank: u32,
    /// The rows that its vertices take, as first and last.
    taken: Vec<(usize, usize)>,
    lanes: usize,
    left: f64,
    width: f64,
}

struct Row {
    top: f64,
    height: f64,
}

/// The drawing, a whole SVG file.
pub fn drawing(analysis: &Analysis) -> String {
    plan(analysis).draw()
}

/// The drawing as a part of a page: scrolled where it is wider, with the names of its rows in sight, and with
/// its words explained. On paper it is made as narrow as that, and the names are its own.
pub fn framed(analysis: &Analysis) -> String {
    let plan = plan(analysis);
    let (labels, drawing) = (plan.draw_labels(), plan.draw());
    format!(
        "<div class=\"sc-graph scroll\" tabindex=\"0\" role=\"region\" aria-label=\"SC-graph, to be scrolled\">\n\
         {labels}{drawing}</div>\n{WORDS}"
    )
}

/// What the words of a drawing mean.
const WORDS: &str = "\
<dl class=\"words\">
<dt>raw</dt><dd>A raw piece has no C-edge: no other transaction can conflict with it, so it never waits.</dd>
<dt>rank</dt><dd>Where a piece stands in the order of the merged SC-graph. Waits go by it: before a piece executes, it
waits for the transactions that its own depends on, until they have executed a piece of this rank or a higher one.</dd>
<dt>rendezvous piece</dt><dd>A piece of another transaction that vouches for one with which it has no C-edge: once it
is done, what that one would have had to wait for is done too. So the wait ends before the other transaction
commits.</dd>
</dl>
";

/// Where everything stands.
fn plan(analysis: &Analysis) -> Plan {
    let document = Document::new("", "", analysis);
    let (columns, boxes) = place(analysis, &document);
    let tables = colours(&document);
    let lines = route(analysis, &boxes, &tables);
    Plan::new(document, columns, boxes, lines)
}

/// The colour of each table that has C-edges.
fn colours(document: &Document) -> BTreeMap<String, usize> {
    let mut tables = BTreeMap::new();
    for table in document.edges.iter().flat_map(|edge| edge.on.keys()) {
        let next = tables.len();
        tables.entry(table.clone()).or_insert(next % COLOURS);
    }
    tables
}

/// Puts each vertex into a column of its rank where it has its rows for itself.
fn place(analysis: &Analysis, document: &Document) -> (Vec<Column>, BTreeMap<(usize, usize), Box>) {
    let mut columns: Vec<Column> = Vec::new();
    let mut boxes = BTreeMap::new();
    let mut order: Vec<usize> = (0..analysis.vertices.len()).collect();
    // Those with many rows first: single boxes then fill the holes.
    let span = |at: usize| {
        let types = analysis.vertices[at].pieces.iter().map(|piece| piece.0);
        (types.clone().min().unwrap_or(0), types.max().unwrap_or(0))
    };
    order.sort_by_key(|&at| {
        let (first, last) = span(at);
        (analysis.vertices[at].rank, std::cmp::Reverse(last - first), at)
    });
    for at in order {
        let (vertex, (first, last)) = (&analysis.vertices[at], span(at));
        let free = |column: &Column| {
            column.rank == vertex.rank && column.taken.iter().all(|&(from, to)| last < from || to < first)
        };
        let column = columns.iter().position(free).unwrap_or_else(|| {
            columns.push(Column { rank: vertex.rank, ..Column::default() });
            columns.len() - 1
        });
        columns[column].taken.push((first, last));
        for &(of_type, place) in &vertex.pieces {
            let piece = &document.types[of_type].pieces[place];
            let before = piece
                .before
                .iter()
                .map(|&one| document.types[of_type].before[one - 1].sites.iter().map(words::site).collect());
            let one = Box { column, lines: before.collect(), conflict: piece.conflict };
            boxes.insert((of_type, place), one);
        }
    }
    (columns, boxes)
}

/// Gives each C-edge its lane and its label's place.
fn route(
    analysis: &Analysis,
    boxes: &BTreeMap<(usize, usize), Box>,
    tables: &BTreeMap<String, usize>,
) -> Vec<Line> {
    let told: Vec<Edge> = edges(analysis);
    let mut lanes: BTreeMap<usize, usize> = BTreeMap::new();
    let mut slots: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let mut lines = Vec::new();
    for (ends, edge) in analysis.edges().into_iter().zip(told) {
        let column = boxes[&ends[0]].column;
        let (lane, slot) = (lanes.entry(column).or_default(), slots.entry((column, ends[0].0)).or_default());
        let first = edge.on.keys().next();
        lines.push(Line {
            ends,
            column,
            lane: *lane,
            slot: *slot,
            label: edge.on.keys().cloned().collect::<Vec<_>>().join(", "),
            about: format!("{} and {}: {}", edge.from, edge.to, words::about(&edge)),
            colour: first.map_or(0, |table| tables[table]),
        });
        *lane += 1;
        *slot += 1;
    }
    lines
}

/// Everything with its place.
struct Plan {
    document: Document,
    columns: Vec<Column>,
    boxes: BTreeMap<(usize, usize), Box>,
    lines: Vec<Line>,
    rows: Vec<Row>,
    /// Of the names of the types, at the left.
    labels_width: f64,
    width: f64,
    height: f64,
}

fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

impl Box {
    fn width(&self) -> f64 {
        let longest = self.lines.iter().flatten().map(|line| text_width(line)).fold(0.0, f64::max);
        longest.max(text_width("00 raw")) + 2.0 * PAD + if self.lines.len() > 1 { PAD } else { 0.0 }
    }

    /// A line for the number, one for each access, and some space around each piece that was merged.
    fn height(&self) -> f64 {
        let lines: usize = self.lines.iter().map(Vec::len).sum();
        let around = if self.lines.len() > 1 { self.lines.len() as f64 * 6.0 } else { 0.0 };
        (lines + 1) as f64 * LINE + around + PAD
    }
}

impl Plan {
    fn new(
        document: Document,
        mut columns: Vec<Column>,
        boxes: BTreeMap<(usize, usize), Box>,
        lines: Vec<Line>,
    ) -> Self {
        let names = document.types.iter().map(|one| text_width(&one.name));
        let left = names.fold(text_width("0 pieces, 0 with"), f64::max) + 2.0 * PAD;
        for one in boxes.values() {
            let column = &mut columns[one.column];
            column.width = column.width.max(one.width());
        }
        for line in &lines {
            let column = &mut columns[line.column];
            column.lanes = column.lanes.max(line.lane + 1);
            // A loop takes half a lane more; the label stands right of it.
            let end = PAD + (line.lane as f64 + 1.0) * LANE + PAD + text_width(&line.label);
            column.width = column.width.max(end);
        }
        let mut x = left + GUTTER;
        for column in &mut columns {
            column.left = x;
            x += column.width + GUTTER;
        }
        let mut rows = Vec::new();
        let mut y = HEAD;
        for at in 0..document.types.len() {
            let of_row = boxes.iter().filter(|((of_type, _), _)| *of_type == at).map(|(_, one)| one.height());
            let height = of_row.fold(3.0 * LINE, f64::max);
            let labels = lines.iter().filter(|line| line.ends[0].0 == at).map(|line| line.slot + 1);
            let slots = labels.max().unwrap_or(0);
            rows.push(Row { top: y + MARGIN, height });
            y += height + 3.0 * MARGIN + slots as f64 * SLOT;
        }
        Self { document, columns, boxes, lines, rows, labels_width: left, width: x, height: y + MARGIN }
    }

    fn draw(&self) -> String {
        let (width, height) = (self.width.ceil(), self.height.ceil());
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"sc\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" style=\"width:{width}px;max-width:none;height:{height}px\" role=\"img\" \
             aria-label=\"SC-graph\">\n<style>\n{STYLE}</style>\n"
        );
        self.ranks(&mut svg);
        self.types(&mut svg, self.width);
        self.s_edges(&mut svg);
        self.c_edges(&mut svg);
        for (&at, one) in &self.boxes {
            self.piece(&mut svg, at, one);
        }
        // On top of all, or a line beside it would cut it.
        for line in &self.lines {
            self.label(&mut svg, line);
        }
        svg + "</svg>\n"
    }

    /// A band behind every other rank, and its number.
    fn ranks(&self, svg: &mut String) {
        let mut at = 0;
        while at < self.columns.len() {
            let rank = self.columns[at].rank;
            let last = self.columns.iter().rposition(|column| column.rank == rank).unwrap_or(at);
            let left = self.columns[at].left - GUTTER / 2.0;
            let right = self.columns[last].left + self.columns[last].width + GUTTER / 2.0;
            if rank % 2 == 1 {
                let _ = writeln!(
                    svg,
                    "<rect class=\"band\" x=\"{left:.1}\" y=\"0\" width=\"{:.1}\" height=\"{:.1}\"/>",
                    right - left,
                    self.height
                );
            }
            let x = self.columns[at].left;
            let _ = writeln!(svg, "<text class=\"soft\" x=\"{x:.1}\" y=\"24\">rank {rank}</text>");
            at = last + 1;
        }
    }

    /// The names alone, as high as the drawing, to lie on it while it is scrolled. It has the style of the
    /// drawing, which is in the same page.
    fn draw_labels(&self) -> String {
        let (width, height) = (self.labels_width.ceil(), self.height.ceil());
        let mut svg = format!(
            "<svg class=\"sc labels\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             style=\"width:{width}px;max-width:none;height:{height}px;margin-right:-{width}px\" aria-hidden=\"true\">\n"
        );
        self.types(&mut svg, width);
        svg + "</svg>\n"
    }

    /// The rows, and the names in front of them.
    fn types(&self, svg: &mut String, width: f64) {
        for (one, row) in self.document.types.iter().zip(&self.rows) {
            let conflict = one.pieces.iter().filter(|piece| piece.conflict).count();
            let top = row.top - MARGIN;
            let _ = writeln!(
                svg,
                "<line class=\"row\" x1=\"0\" x2=\"{width:.1}\" y1=\"{top:.1}\" y2=\"{top:.1}\"/>"
            );
            let lines = [
                ("type", one.name.clone()),
                (
                    "soft",
                    format!("{} piece{},", one.pieces.len(), if one.pieces.len() == 1 { "" } else { "s" }),
                ),
                ("soft", format!("{conflict} with C-edges")),
            ];
            for (at, (class, line)) in lines.into_iter().enumerate() {
                let y = row.top + LINE * (at as f64 + 1.0) - 3.0;
                let _ = writeln!(
                    svg,
                    "<text class=\"{class}\" x=\"{PAD}\" y=\"{y:.1}\">{}</text>",
                    escape(&line)
                );
            }
        }
    }

    fn s_edges(&self, svg: &mut String) {
        for (&(of_type, place), one) in &self.boxes {
            let Some(next) = self.boxes.get(&(of_type, place + 1)) else { continue };
            let y = self.rows[of_type].top + LINE / 2.0 + PAD / 2.0;
            let from = self.columns[one.column].left + one.width();
            let to = self.columns[next.column].left;
            let _ = writeln!(
                svg,
                "<path class=\"s\" d=\"M{from:.1} {y:.1}H{:.1}\"/><path class=\"tip\" d=\"M{to:.1} {y:.1}l-8 -4v8z\"/>",
                to - 7.0
            );
        }
    }

    fn x(&self, line: &Line) -> f64 {
        self.columns[line.column].left + PAD + line.lane as f64 * LANE
    }

    /// Where a line leaves its upper box, and its label's middle.
    fn below(&self, line: &Line) -> (f64, f64) {
        let upper = line.ends[0];
        let row = &self.rows[upper.0];
        let middle = row.top + row.height + MARGIN + (line.slot as f64 + 0.5) * SLOT;
        (row.top + self.boxes[&upper].height(), middle)
    }

    fn c_edges(&self, svg: &mut String) {
        for line in &self.lines {
            let (x, (from, label)) = (self.x(line), self.below(line));
            // The upper end reaches behind its box, whose width may be less than the lanes.
            let path = if line.ends[0] == line.ends[1] {
                format!("M{x:.1} {from:.1}V{:.1}a4 4 0 0 0 8 0V{from:.1}", label)
            } else {
                format!("M{x:.1} {from:.1}V{:.1}", self.rows[line.ends[1].0].top)
            };
            let _ = writeln!(
                svg,
                "<path class=\"c\" style=\"--c:var(--s{})\" d=\"{path}\"><title>{}</title></path>",
                line.colour,
                escape(&line.about)
            );
        }
    }

    fn label(&self, svg: &mut String, line: &Line) {
        let (x, (_, middle)) = (self.x(line), self.below(line));
        let aside = if line.ends[0] == line.ends[1] { 13.0 } else { 5.0 };
        let _ = writeln!(
            svg,
            "<text class=\"c\" style=\"--c:var(--s{})\" x=\"{:.1}\" y=\"{:.1}\">{}<title>{}</title></text>",
            line.colour,
            x + aside,
            middle + 4.0,
            escape(&line.label),
            escape(&line.about)
        );
    }

    fn piece(&self, svg: &mut String, (of_type, place): (usize, usize), one: &Box) {
        let piece = &self.document.types[of_type].pieces[place];
        let (x, y) = (self.columns[one.column].left, self.rows[of_type].top);
        let merged = one.lines.len() > 1;
        let class = match (one.conflict, merged) {
            (true, true) => "box merged",
            (true, false) => "box",
            (false, _) => "box raw",
        };
        let waits: Vec<String> = piece.waits.iter().map(words::wait).collect();
        let waits =
            if waits.is_empty() { String::new() } else { format!("\nwaits for {}", waits.join("; ")) };
        let title =
            format!("{}.{}, rank {}{waits}", self.document.types[of_type].name, piece.piece, piece.rank);
        // As wide as the lanes that end at it.
        let lanes = self.lines.iter().filter(|line| line.ends.contains(&(of_type, place)));
        let reach = lanes.map(|line| PAD + (line.lane as f64 + 1.0) * LANE).fold(one.width(), f64::max);
        let _ = writeln!(
            svg,
            "<g><title>{}</title><rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{reach:.1}\" height=\"{:.1}\" \
             rx=\"5\"/>",
            escape(&title),
            one.height()
        );
        let head = if merged {
            " merged"
        } else if one.conflict {
            ""
        } else {
            " raw"
        };
        let _ = writeln!(
            svg,
            "<text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\">{}{head}</text>",
            x + PAD,
            y + LINE - 3.0,
            piece.piece
        );
        let mut line = y + LINE;
        let inset = if merged { PAD * 1.5 } else { PAD };
        for before in &one.lines {
            if merged {
                let _ = writeln!(
                    svg,
                    "<rect class=\"inner\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"3\"/>",
                    x + PAD * 0.75,
                    line + 1.0,
                    reach - PAD * 1.5,
                    before.len() as f64 * LINE + 4.0
                );
            }
            for words in before {
                line += LINE;
                let _ = writeln!(
                    svg,
                    "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                    x + inset,
                    line - 2.0,
                    escape(words)
                );
            }
            line += if merged { 6.0 } else { 0.0 };
        }
        svg.push_str("</g>\n");
    }
}
