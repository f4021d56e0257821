//! What plots are drawn with: frames, axes, bars. What tells curves apart is in `series`.

use super::frame::escape;
use std::fmt::Write;

/// Text of 12 pixels can be read at this share of its size.
const READABLE: f64 = 0.75;

/// Height of one row of a bar chart.
const ROW: f64 = 30.0;
/// Height of the bar in a row.
pub const ROW_BAR: f64 = 18.0;

/// The frame of a plot. `left`, `right`, `bottom` are margins.
pub struct Plot {
    pub width: f64,
    pub height: f64,
    pub left: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Plot {
    pub const TOP: f64 = 10.0;

    /// A frame for `rows` bars that lie.
    pub fn for_rows(rows: usize) -> Self {
        let height = Self::TOP + rows as f64 * ROW + 26.0;
        Self { width: 1000.0, height, left: 170.0, right: 74.0, bottom: 26.0 }
    }

    /// Opens a plot for those who see it, and for those who do not. It takes the width that there is, up to
    /// its own; where that would make it too small to be read, it is scrolled.
    pub fn open(&self, title: &str) -> String {
        format!(
            "<div class=\"plot scroll\"><svg viewBox=\"0 0 {width} {height}\" style=\"max-width:{width:.0}px;min-width:{least:.0}px\" \
             role=\"img\" aria-label=\"{title}\">\n",
            width = self.width,
            height = self.height,
            least = self.width * READABLE,
            title = escape(title)
        )
    }

    /// What ends a plot.
    pub const CLOSE: &str = "</svg></div>\n";

    /// The place of a share of the axis to the right.
    pub fn x(&self, share: f64) -> f64 {
        self.left + share * (self.width - self.left - self.right)
    }

    /// The place of a share of the axis upwards.
    pub fn y(&self, share: f64) -> f64 {
        self.height - self.bottom - share * (self.height - self.bottom - Self::TOP)
    }

    /// The upper edge of the bar in a row.
    pub fn row(&self, at: usize) -> f64 {
        Self::TOP + at as f64 * ROW + (ROW - ROW_BAR) / 2.0
    }

    /// A line across the plot, with its label at the left.
    pub fn gridline(&self, svg: &mut String, y: f64, label: &str) {
        let class = if y >= self.height - self.bottom - 0.5 { "axis" } else { "grid" };
        let _ = writeln!(
            svg,
            "<line class=\"{class}\" x1=\"{}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            self.left,
            self.width - self.right,
            self.left - 8.0,
            y + 4.0,
            escape(label)
        );
    }

    /// A line up the plot, with its label below.
    pub fn upright(&self, svg: &mut String, x: f64, label: &str, class: &str) {
        let bottom = self.height - self.bottom;
        let _ = writeln!(
            svg,
            "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{bottom}\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            Self::TOP,
            bottom + 18.0,
            escape(label)
        );
    }

    /// A label below the axis.
    pub fn label_below(&self, svg: &mut String, x: f64, label: &str) {
        let y = self.height - self.bottom + 18.0;
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", escape(label));
    }

    /// The name of the axis to the right.
    pub fn axis_name(&self, svg: &mut String, name: &str) {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{name}</text>",
            self.x(0.5),
            self.height - 6.0
        );
    }

    /// The label of a row, at the left.
    pub fn label_row(&self, svg: &mut String, y: f64, label: &str) {
        let _ = writeln!(
            svg,
            "<text class=\"v\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            self.left - 10.0,
            y + ROW_BAR / 2.0 + 4.0,
            escape(label)
        );
    }

    /// A figure to the right of a bar.
    pub fn value(&self, svg: &mut String, x: f64, y: f64, label: &str) {
        let y = y + ROW_BAR / 2.0 + 4.0;
        let _ = writeln!(svg, "<text class=\"v\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>", x + 8.0, escape(label));
    }
}

/// A bar from `begin` to `end` that tells something when it is pointed at.
pub fn bar(svg: &mut String, (begin, end): (f64, f64), y: f64, tip: &str) {
    let _ = writeln!(
        svg,
        "<rect class=\"bar\" x=\"{begin:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{ROW_BAR}\" rx=\"2\" data-tip=\"{}\"/>",
        (end - begin).max(0.5),
        escape(tip)
    );
}

/// An axis from zero in even steps.
pub struct Linear {
    pub top: f64,
    step: f64,
}

impl Linear {
    /// The least axis of four to eight steps of 1, 2 or 5 times a power of ten that holds `top`.
    pub fn nice(top: f64) -> Self {
        if top <= 0.0 {
            return Self { top: 1.0, step: 1.0 };
        }
        let rough = top / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        Self { top: (top / step).ceil() * step, step }
    }

    /// The values that are marked.
    pub fn ticks(&self) -> impl Iterator<Item = f64> {
        let count = (self.top / self.step).round() as usize;
        let step = self.step;
        (0..=count).map(move |at| at as f64 * step)
    }
}

/// An axis over powers of ten, of whole decades.
pub struct Logarithmic {
    low: i32,
    high: i32,
}

impl Logarithmic {
    /// The least axis that holds both values.
    pub fn around(low: f64, high: f64) -> Self {
        let low = low.log10().floor() as i32;
        Self { low, high: (high.log10().ceil() as i32).max(low + 1) }
    }

    /// The share of the axis below a value.
    pub fn share(&self, value: f64) -> f64 {
        (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low)
    }

    /// The values that are marked.
    pub fn ticks(&self) -> impl Iterator<Item = f64> {
        (self.low..=self.high).map(|power| 10f64.powi(power))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_hold_their_values() {
        for top in [0.001, 0.7, 1.0, 3.2, 99.0, 123_456.0] {
            let scale = Linear::nice(top);
            let count = scale.ticks().count();
            assert!(scale.top >= top * 0.999 && (3..=12).contains(&count), "{top}: {} in {count}", scale.top);
        }
        let scale = Logarithmic::around(3.0, 4500.0);
        assert_eq!((scale.low, scale.high), (0, 4));
        assert_eq!(scale.share(100.0), 0.5);
        assert_eq!(Logarithmic::around(10.0, 10.0).high, 2);
    }
}
