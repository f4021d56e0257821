//! One plot: curves over the numbers of an axis, or, over a single number, bars that lie.

use super::plot::{Linear, Plot, bar};
use super::series::{End, Look, bar_legend, end_names, frame, line_legend};
use std::fmt::Write;

/// How the numbers of an axis stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// By their logarithms, rising to the right.
    Logarithmic,
    /// By their logarithms, falling to the right.
    Falling,
    /// Evenly, rising to the right.
    Even,
}

/// A plot.
pub struct Chart<'a> {
    /// What it shows, for those who cannot see it.
    pub title: &'a str,
    /// The axis to the right.
    pub axis: &'a str,
    /// How its numbers stand.
    pub spacing: Spacing,
    /// The numbers that are marked on it, rising.
    pub marks: &'a [f64],
    /// The curves, each in the colour of its place.
    pub curves: &'a [Curve],
    /// The highest value that the other axis has to hold.
    pub top: f64,
    /// A value in words.
    pub shown: fn(f64) -> String,
    /// Whether it takes the width of the page, or half of it.
    pub wide: bool,
}

/// A curve.
pub struct Curve {
    /// What it is called.
    pub name: String,
    /// Where it goes through, rising.
    pub points: Vec<Point>,
}

/// A point of a curve.
pub struct Point {
    /// To the right.
    pub x: f64,
    /// Up.
    pub y: f64,
    /// What is said of it when it is pointed at.
    pub tip: String,
}

impl Chart<'_> {
    /// As SVG; nothing if there is no point.
    pub fn draw(&self) -> String {
        match self.marks {
            [] => String::new(),
            _ if self.has_bars() => self.bars(),
            _ => self.lines(),
        }
    }

    /// Whether there are bars, which have their names beside them.
    fn has_bars(&self) -> bool {
        self.marks.len() == 1 && !self.wide
    }

    /// The names of the curves with what they are drawn in.
    pub fn legend(&self) -> String {
        let names: Vec<&str> = self.curves.iter().map(|curve| curve.name.as_str()).collect();
        if self.has_bars() { bar_legend(&names, 0, false) } else { line_legend(&names, false) }
    }

    /// The share of the axis that lies before a number.
    fn share(&self, x: f64) -> f64 {
        let (low, high) = (self.marks[0], self.marks[self.marks.len() - 1]);
        if high <= low {
            return 0.5;
        }
        match self.spacing {
            Spacing::Even => (x - low) / (high - low),
            Spacing::Logarithmic => (x / low).ln() / (high / low).ln(),
            Spacing::Falling => 1.0 - (x / low).ln() / (high / low).ln(),
        }
    }

    fn lines(&self) -> String {
        let names: Vec<String> = self.curves.iter().map(|curve| self.name(curve)).collect();
        let (width, least) = if self.wide { (1000.0, 340.0) } else { (520.0, 300.0) };
        let plot = frame(width, least, 44.0, &names);
        let scale = Linear::nice(self.top);
        let x = |value: f64| plot.x(self.share(value) * 0.94 + 0.03);
        let y = |value: f64| plot.y(value / scale.top);
        let mut svg = plot.open(self.title);
        for tick in scale.ticks() {
            plot.gridline(&mut svg, y(tick), &(self.shown)(tick));
        }
        for &mark in self.marks {
            plot.label_below(&mut svg, x(mark), &mark.to_string());
        }
        plot.axis_name(&mut svg, self.axis);
        let mut ends = Vec::new();
        for (at, (curve, name)) in self.curves.iter().zip(names).enumerate() {
            let path: Vec<(f64, f64)> = curve.points.iter().map(|point| (x(point.x), y(point.y))).collect();
            let look = Look(at);
            let _ = writeln!(svg, "<g {}>", look.colour());
            look.line(&mut svg, &path);
            for (point, &(x, y)) in curve.points.iter().zip(&path) {
                look.point(&mut svg, x, y, &point.tip);
            }
            svg += "</g>\n";
            let end = path.iter().max_by(|one, other| one.0.total_cmp(&other.0));
            ends.extend(end.map(|&(x, y)| End { look, x, y, name }));
        }
        end_names(&mut svg, &plot, &ends);
        svg + Plot::CLOSE
    }

    /// The name of a curve, and where it ends if the others go on.
    fn name(&self, curve: &Curve) -> String {
        let numbers = curve.points.iter().map(|point| point.x);
        let (end, last) = match self.spacing {
            Spacing::Falling => (numbers.reduce(f64::min), self.marks.first()),
            Spacing::Logarithmic | Spacing::Even => (numbers.reduce(f64::max), self.marks.last()),
        };
        match end {
            Some(end) if Some(&end) != last => format!("{} (to {end})", curve.name),
            _ => curve.name.clone(),
        }
    }

    fn bars(&self) -> String {
        let plot = Plot { width: 490.0, left: 130.0, right: 60.0, ..Plot::for_rows(self.curves.len()) };
        let scale = Linear::nice(self.top);
        let x = |value: f64| plot.x(value / scale.top);
        let mut svg = plot.open(self.title);
        for tick in scale.ticks().step_by(2) {
            plot.upright(&mut svg, x(tick), &(self.shown)(tick), "grid");
        }
        for (at, curve) in self.curves.iter().enumerate() {
            let y = plot.row(at);
            plot.label_row(&mut svg, y, &curve.name);
            let Some(point) = curve.points.first() else { continue };
            let _ = writeln!(svg, "<g {}>", Look(at).colour());
            bar(&mut svg, (plot.left, x(point.y)), y, &point.tip);
            svg += "</g>\n";
            plot.value(&mut svg, x(point.y), y, &(self.shown)(point.y));
        }
        svg + Plot::CLOSE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(spacing: Spacing, marks: &[f64]) -> String {
        let points = marks.iter().map(|&x| Point { x, y: x * 2.0, tip: format!("at {x}") }).collect();
        let curves = [Curve { name: "silo".into(), points }];
        let top = marks.iter().fold(0.0, |top: f64, mark| top.max(mark * 2.0));
        let shown = |value: f64| format!("{value:.0}");
        let title = "a & b";
        Chart { title, axis: "cores", spacing, marks, curves: &curves, top, shown, wide: false }.draw()
    }

    /// Where the dots stand, from the left.
    fn places(svg: &str) -> Vec<f64> {
        let dots = svg.split("<circle class=\"hit\" cx=\"").skip(1);
        dots.map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect()
    }

    #[test]
    fn numbers_stand_as_they_are_spaced() {
        let [even, logarithmic, falling] = [Spacing::Even, Spacing::Logarithmic, Spacing::Falling]
            .map(|spacing| places(&drawn(spacing, &[1.0, 8.0, 64.0])));
        assert!(even[1] - even[0] < even[2] - even[1]);
        assert!((logarithmic[1] - logarithmic[0] - (logarithmic[2] - logarithmic[1])).abs() < 0.2);
        assert!(falling[0] > falling[1] && falling[1] > falling[2]);
        // Zero is a number of an even axis.
        assert!(!drawn(Spacing::Even, &[0.0, 5.0]).contains("NaN"));
    }

    #[test]
    fn curves_that_meet_can_be_told_apart_and_are_named_at_their_ends() {
        let points = |numbers: &[f64]| -> Vec<Point> {
            numbers.iter().map(|&x| Point { x, y: 5.0, tip: String::new() }).collect()
        };
        for (spacing, part, early) in
            [(Spacing::Even, [1.0, 2.0], "(to 2)"), (Spacing::Falling, [2.0, 3.0], "(to 2)")]
        {
            let names = ["silo", "tictoc", "ic3"];
            let curves = names.map(|name| {
                let numbers: &[f64] = if name == "ic3" { &part } else { &[1.0, 2.0, 3.0] };
                Curve { name: name.into(), points: points(numbers) }
            });
            let (marks, shown) = ([1.0, 2.0, 3.0], |value: f64| value.to_string());
            let (title, axis, top) = ("t", "cores", 5.0);
            let chart =
                Chart { title, axis, spacing, marks: &marks, curves: &curves, top, shown, wide: true };
            let svg = chart.draw();
            assert!(svg.contains("stroke-dasharray=\"none\"") && svg.contains("stroke-dasharray=\"8 4\""));
            for name in ["silo", "tictoc", &format!("ic3 {early}")] {
                assert!(svg.contains(&format!(">{name}</text>")), "{name} is missing in\n{svg}");
            }
            assert_eq!(svg.matches("class=\"lead\"").count(), 2, "ic3 ends before the others");
            assert_eq!(chart.legend().matches("class=\"key\"").count(), 3);
        }
    }

    #[test]
    fn a_plot_fits_where_it_stands_or_is_scrolled() {
        let svg = drawn(Spacing::Even, &[1.0, 2.0]);
        assert!(svg.starts_with("<div class=\"plot scroll\"><svg viewBox=\"0 0 520 300\""), "{svg}");
        assert!(svg.contains("max-width:520px;min-width:390px") && svg.ends_with("</svg></div>\n"), "{svg}");
    }

    #[test]
    fn a_single_number_is_drawn_as_bars_and_none_not_at_all() {
        let bars = drawn(Spacing::Logarithmic, &[64.0]);
        assert!(bars.contains("class=\"bar\"") && bars.contains("a &amp; b") && !bars.contains("NaN"));
        assert!(drawn(Spacing::Even, &[]).is_empty());
    }
}
