//! What a benchmark found, and its three forms: JSON ([`model`]), a table in the terminal
//! ([`table`]), a page with plots ([`html`]). What it says in one sentence is in [`conclusion`];
//! where the forms go is for [`outputs`].

mod conclusion;
pub mod html;
pub mod model;
pub mod outputs;
pub mod regions;
pub mod table;

/// A rate in the fewest letters that keep three figures: `1.23 M`, `456 k`, `78.9`.
pub fn rate(value: f64) -> String {
    match value {
        _ if value >= 999.5e6 => format!("{} G", three_figures(value / 1e9)),
        _ if value >= 999.5e3 => format!("{} M", three_figures(value / 1e6)),
        _ if value >= 999.5 => format!("{} k", three_figures(value / 1e3)),
        _ => three_figures(value),
    }
}

/// Microseconds in the unit that suits them: `870 ns`, `12.3 µs`, `4.56 ms`, `1.20 s`.
pub fn microseconds(value: f64) -> String {
    match value {
        _ if value >= 999.5e3 => format!("{} s", three_figures(value / 1e6)),
        _ if value >= 999.5 => format!("{} ms", three_figures(value / 1e3)),
        _ if value >= 0.9995 => format!("{} µs", three_figures(value)),
        _ => format!("{:.0} ns", value * 1e3),
    }
}

/// Bytes in the unit that suits them: `870 B`, `12.3 KiB`, `4.56 MiB`, `1.20 GiB`.
pub fn bytes(value: f64) -> String {
    const KIB: f64 = 1024.0;
    match value {
        _ if value >= 999.5 * KIB * KIB => format!("{} GiB", three_figures(value / KIB / KIB / KIB)),
        _ if value >= 999.5 * KIB => format!("{} MiB", three_figures(value / KIB / KIB)),
        _ if value >= 999.5 => format!("{} KiB", three_figures(value / KIB)),
        _ => format!("{value:.0} B"),
    }
}

/// A share in per cent. What is not quite zero does not look like zero.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".into(),
        value if value < 0.01 => "< 0.01 %".into(),
        value if value < 9.995 => format!("{value:.2} %"),
        value => format!("{value:.1} %"),
    }
}

fn three_figures(value: f64) -> String {
    match value {
        _ if value == 0.0 => "0".into(),
        _ if value < 9.995 => format!("{value:.2}"),
        _ if value < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_figures() {
        let rates = [0.0, 9.994, 999.4, 999.6, 12_345.0, 999_499.0, 999_600.0, 2.5e9].map(rate);
        assert_eq!(rates, ["0", "9.99", "999", "1.00 k", "12.3 k", "999 k", "1.00 M", "2.50 G"]);
        let times = [0.42, 0.9999, 12.34, 999.9, 1_234_567.0].map(microseconds);
        assert_eq!(times, ["420 ns", "1.00 µs", "12.3 µs", "1.00 ms", "1.23 s"]);
        let sizes = [0.0, 999.0, 1536.0, 1e9].map(bytes);
        assert_eq!(sizes, ["0 B", "999 B", "1.50 KiB", "954 MiB"]);
        assert_eq!([0.0, 0.00001, 0.05, 0.5].map(percent), ["0 %", "< 0.01 %", "5.00 %", "50.0 %"]);
    }
}
