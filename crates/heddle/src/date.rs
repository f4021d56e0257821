//! The date, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

/// Today's date as a page carries it: `2026-03-01`.
pub fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date_of(since.as_secs() / (24 * 60 * 60))
}

/// The date of a day, which is counted from 1 January 1970.
///
/// Years are taken to begin on 1 March, so that a leap day is the last of its year: then 400 years have
/// 146097 days, and the day of a month follows from the day of the year by (5 d + 2) / 153, the months having
/// 31, 30, 31, 30, 31 days in turn.
fn date_of(day: u64) -> String {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    /// From 1 March of the year 0 to 1 January 1970.
    const BEFORE_1970: u64 = 719_468;
    let day = day + BEFORE_1970;
    let (era, day) = (day / DAYS_OF_400_YEARS, day % DAYS_OF_400_YEARS);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{of_month:02}", era * 400 + year + next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        for (day, date) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (364, "1970-12-31"),
            (365, "1971-01-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (19_782, "2024-02-29"),
            (20_454, "2026-01-01"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(date_of(day), date, "day {day}");
        }
    }

    #[test]
    fn today_is_a_date() {
        let today = today();
        assert!(today.len() == 10 && today.as_str() > "2024" && today.split('-').count() == 3, "{today}");
    }
}
