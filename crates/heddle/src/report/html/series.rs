//! How the curves of a plot are told apart where they meet, and by readers who see no colours.
//!
//! A curve has a colour, dashes and marks of its own, each by its place in the order of appearance, and its
//! name at its end. The numbers of colours, dashes and marks have no common divisor, so that two curves are
//! alike in all three only if they are 280 places apart.
//!
//! Names stand right of the plot, each as near to the end of its curve as the others allow: [`spread`] moves
//! them apart and keeps their order, so no name lies on another, and lines from curves to names do not cross.

use super::frame::escape;
use super::plot::Plot;
use std::fmt::Write;

/// How many colours the style sheet has; the next curve begins again with the first.
const COLOURS: usize = 8;

/// Dashes and gaps; the first line is whole.
const DASHES: [&str; 5] = ["none", "8 4", "2 3", "11 3 2 3", "6 3 2 3 2 3"];

/// Shapes around a point, as the rest of a path: circle, square, diamond, triangle, triangle on its tip,
/// plus, cross.
const MARKS: [&str; 7] = [
    "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
    "m-4 -4h8v8h-8z",
    "m0 -5.6l5.6 5.6l-5.6 5.6l-5.6 -5.6z",
    "m0 -5.4l5 9h-10z",
    "m0 5.4l5 -9h-10z",
    "m-1.8 -5.2h3.6v3.4h3.4v3.6h-3.4v3.4h-3.6v-3.4h-3.4v-3.6h3.4z",
    "m0 -2.5l3 -3l2.5 2.5l-3 3l3 3l-2.5 2.5l-3 -3l-3 3l-2.5 -2.5l3 -3l-3 -3l2.5 -2.5z",
];

/// Between two names at the right.
const GAP: f64 = 14.0;
/// From the plot to the marks before the names.
const BESIDE: f64 = 18.0;
/// From such a mark to its name.
const AFTER_MARK: f64 = 9.0;
/// How wide a letter of a name is taken to be.
const LETTER: f64 = 6.6;

/// The look of the series at a place in the order of appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look(pub usize);

impl Look {
    /// The colour, as a style attribute for a group.
    pub fn colour(self) -> String {
        format!("style=\"--c:var(--s{})\"", self.0 % COLOURS)
    }

    fn dashes(self) -> &'static str {
        DASHES[self.0 % DASHES.len()]
    }

    /// A mark at a point.
    fn mark(self, x: f64, y: f64) -> String {
        format!("<path class=\"dot\" d=\"M{x:.1} {y:.1}{}\"/>", MARKS[self.0 % MARKS.len()])
    }

    /// A line through points.
    pub fn line(self, svg: &mut String, points: &[(f64, f64)]) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            svg,
            "<polyline class=\"series\" stroke-dasharray=\"{}\" points=\"{}\"/>",
            self.dashes(),
            points.join(" ")
        );
    }

    /// A mark that tells something when it is pointed at.
    pub fn point(self, svg: &mut String, x: f64, y: f64, tip: &str) {
        let _ = writeln!(
            svg,
            "{}<circle class=\"hit\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"11\" data-tip=\"{}\"/>",
            self.mark(x, y),
            escape(tip)
        );
    }
}

/// Names with a piece of their curves.
pub fn line_legend(names: &[impl AsRef<str>], baseline: bool) -> String {
    legend(names, baseline, |at| {
        let look = Look(at);
        format!(
            "<span {}><svg class=\"key\" viewBox=\"0 0 34 14\" aria-hidden=\"true\"><line class=\"series\" \
             stroke-dasharray=\"{}\" x1=\"0\" x2=\"34\" y1=\"7\" y2=\"7\"/>{}</svg>",
            look.colour(),
            look.dashes(),
            look.mark(17.0, 7.0)
        )
    })
}

/// Names with the colours of their bars, from colour `first` on.
pub fn bar_legend(names: &[impl AsRef<str>], first: usize, baseline: bool) -> String {
    legend(names, baseline, |at| format!("<span {}><i></i>", Look(first + at).colour()))
}

fn legend(names: &[impl AsRef<str>], baseline: bool, key: impl Fn(usize) -> String) -> String {
    let mut text = String::from("<div class=\"legend\">");
    for (at, name) in names.iter().enumerate() {
        let _ = write!(text, "{}{}</span>", key(at), escape(name.as_ref()));
    }
    if baseline {
        text.push_str("<span><i class=\"dash\"></i>unprotected, 1 thread</span>");
    }
    text + "</div>\n"
}

/// Where a curve ends, and what it is called.
#[derive(Clone, Debug)]
pub struct End {
    /// Its place in the order of appearance.
    pub look: Look,
    /// To the right.
    pub x: f64,
    /// Down.
    pub y: f64,
    /// The name, with what there is to say of an end that is not the plot's.
    pub name: String,
}

/// A frame with room for the names of curves at the right, of this height at least.
pub fn frame(width: f64, least: f64, bottom: f64, names: &[String]) -> Plot {
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let right = BESIDE + AFTER_MARK + LETTER * longest as f64 + 6.0;
    let height = (GAP * names.len() as f64 + Plot::TOP + bottom).max(least);
    Plot { width, height, left: 64.0, right, bottom }
}

/// Writes the names of curves at their ends.
pub fn end_names(svg: &mut String, plot: &Plot, ends: &[End]) {
    let mut order: Vec<&End> = ends.iter().collect();
    order.sort_by(|one, other| one.y.total_cmp(&other.y));
    let wanted: Vec<f64> = order.iter().map(|end| end.y).collect();
    let places = spread(&wanted, GAP, Plot::TOP, plot.height - plot.bottom);
    let last = ends.iter().map(|end| end.x).fold(0.0, f64::max);
    let x = plot.width - plot.right + BESIDE;
    for (end, y) in order.into_iter().zip(places) {
        let _ = writeln!(svg, "<g {}>", end.look.colour());
        // A line from an end in the middle of the plot would look like a part of the curve. Curves that stand
        // side by side have their last points nearly at the same place.
        if last - end.x < 40.0 {
            let (from, to) = (end.x + 7.0, x - 7.0);
            let _ = writeln!(svg, "<path class=\"lead\" d=\"M{from:.1} {:.1}L{to:.1} {y:.1}\"/>", end.y);
        }
        let _ = writeln!(
            svg,
            "{}<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n</g>",
            end.look.mark(x, y),
            x + AFTER_MARK,
            y + 4.0,
            escape(&end.name)
        );
    }
}

/// Moves rising places apart to at least `gap`, as little as that takes, between two bounds.
///
/// The least sum of squared moves: in steps of the gap the places may not fall, so neighbours that would are
/// pooled around their mean. If there is too little space, the gap is smaller.
fn spread(wanted: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let count = wanted.len();
    let gap = gap.min((high - low) / count.saturating_sub(1).max(1) as f64);
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for (at, place) in wanted.iter().enumerate() {
        let mut pool = (place - at as f64 * gap, 1);
        while let Some((mean, size)) = pools.pop_if(|(mean, _)| *mean >= pool.0) {
            let sum = mean * size as f64 + pool.0 * pool.1 as f64;
            pool = (sum / (size + pool.1) as f64, size + pool.1);
        }
        pools.push(pool);
    }
    let means = pools.into_iter().flat_map(|(mean, size)| std::iter::repeat_n(mean, size));
    let room = high - gap * count.saturating_sub(1) as f64;
    means.enumerate().map(|(at, mean)| mean.clamp(low, room.max(low)) + at as f64 * gap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn series_differ_in_dashes_and_marks_and_not_by_colour_alone() {
        let looks = |count: usize| (0..count).map(Look);
        let parts = |look: Look| (look.colour(), look.dashes(), look.mark(0.0, 0.0));
        assert_eq!(looks(100).map(parts).collect::<BTreeSet<_>>().len(), 100);
        // Without colours as well, for as many as there are protocols.
        let shapes: BTreeSet<_> = looks(35).map(|look| (look.dashes(), look.mark(0.0, 0.0))).collect();
        assert_eq!(shapes.len(), 35);
        // Neighbours differ in everything.
        for at in 0..100 {
            let (one, next) = (parts(Look(at)), parts(Look(at + 1)));
            assert!(one.0 != next.0 && one.1 != next.1 && one.2 != next.2, "{at}");
        }
    }

    #[test]
    fn names_at_the_ends_do_not_overlap_and_keep_their_order() {
        let cases: [&[f64]; 6] = [
            &[100.0],
            &[100.0, 100.0, 100.0],
            &[10.0, 11.0, 12.0, 200.0, 201.0],
            &[10.0, 10.0, 10.0, 10.0, 300.0],
            &[290.0, 295.0, 300.0, 300.0],
            &[50.0, 90.0, 130.0],
        ];
        for wanted in cases {
            let places = spread(wanted, 14.0, 10.0, 300.0);
            assert_eq!(places.len(), wanted.len());
            assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 13.999), "{wanted:?}: {places:?}");
            assert!(places.iter().all(|place| (9.999..=300.001).contains(place)), "{wanted:?}: {places:?}");
        }
        assert_eq!(
            spread(&[50.0, 90.0, 130.0], 14.0, 10.0, 300.0),
            [50.0, 90.0, 130.0],
            "nothing is in the way"
        );
        assert_eq!(
            spread(&[100.0, 100.0], 14.0, 10.0, 300.0),
            [93.0, 107.0],
            "moved by the same to both sides"
        );
        assert_eq!(
            spread(&[5.0, 6.0, 7.0], 14.0, 0.0, 20.0),
            [0.0, 10.0, 20.0],
            "closer where there is no space"
        );
        assert!(spread(&[], 14.0, 0.0, 20.0).is_empty());
    }

    #[test]
    fn each_curve_has_its_name_in_the_plot() {
        let plot = frame(500.0, 300.0, 40.0, &["silo".into(), "a<b".into(), "short".into()]);
        let end = |at: usize, x: f64, name: &str| End { look: Look(at), x, y: 100.0, name: name.into() };
        let mut svg = String::new();
        end_names(&mut svg, &plot, &[end(0, 400.0, "silo"), end(1, 400.0, "a<b"), end(2, 90.0, "short")]);
        assert!(
            svg.contains(">silo</text>") && svg.contains(">a&lt;b</text>") && svg.contains(">short</text>")
        );
        assert_eq!(svg.matches("class=\"lead\"").count(), 2, "none from an end in the middle");
        let mut places: Vec<f64> = svg
            .split("<text class=\"name\"")
            .skip(1)
            .map(|text| text.split("y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        places.sort_by(f64::total_cmp);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= GAP - 0.1), "{places:?}");
        // The longest name ends within the plot, and many names make it higher.
        assert!(plot.width - plot.right + BESIDE + AFTER_MARK + 5.0 * LETTER <= plot.width);
        let names = vec!["a".to_owned(); 60];
        assert!(frame(500.0, 300.0, 40.0, &names).height >= 60.0 * GAP);
    }
}
