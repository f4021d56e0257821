//! One plot: curves over the numbers of an axis, or, over a single number, bars that lie.

use super::plot::{Linear, Plot, bar, colour, dot, legend, polyline};
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
            [_] if !self.wide => self.bars(),
            _ => self.lines(),
        }
    }

    /// The names of the curves with their colours.
    pub fn legend(&self) -> String {
        let names: Vec<&str> = self.curves.iter().map(|curve| curve.name.as_str()).collect();
        legend(&names, 0, false)
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
        let plot = if self.wide {
            Plot { width: 1000.0, height: 340.0, left: 64.0, right: 24.0, bottom: 44.0 }
        } else {
            Plot { width: 490.0, height: 300.0, left: 64.0, right: 16.0, bottom: 44.0 }
        };
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
        for (at, curve) in self.curves.iter().enumerate() {
            let path: Vec<(f64, f64)> = curve.points.iter().map(|point| (x(point.x), y(point.y))).collect();
            let _ = writeln!(svg, "<g {}>", colour(at));
            polyline(&mut svg, &path);
            for (point, (x, y)) in curve.points.iter().zip(path) {
                dot(&mut svg, x, y, &point.tip);
            }
            svg += "</g>\n";
        }
        svg + "</svg>\n"
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
            let _ = writeln!(svg, "<g {}>", colour(at));
            bar(&mut svg, (plot.left, x(point.y)), y, &point.tip);
            svg += "</g>\n";
            plot.value(&mut svg, x(point.y), y, &(self.shown)(point.y));
        }
        svg + "</svg>\n"
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
        let dots = svg.split("<circle class=\"dot\" cx=\"").skip(1);
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
    fn a_single_number_is_drawn_as_bars_and_none_not_at_all() {
        let bars = drawn(Spacing::Logarithmic, &[64.0]);
        assert!(bars.contains("class=\"bar\"") && bars.contains("a &amp; b") && !bars.contains("NaN"));
        assert!(drawn(Spacing::Even, &[]).is_empty());
    }
}
