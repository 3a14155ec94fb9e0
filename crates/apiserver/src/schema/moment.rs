//! Strings that stand for dates, times and durations.

use std::sync::LazyLock;

use regex::Regex;

use super::format::known;

/// A calendar date such as `2006-01-02`.
pub(super) fn is_date(text: &str) -> bool {
    static DATE: LazyLock<Regex> = LazyLock::new(|| known("^([0-9]{4})-([0-9]{2})-([0-9]{2})$"));
    let Some(parts) = DATE.captures(text) else { return false };
    let (Ok(year), Ok(month), Ok(day)) = (parts[1].parse(), parts[2].parse(), parts[3].parse()) else {
        return false;
    };
    jiff::civil::Date::new(year, month, day).is_ok()
}

/// A date and a time with a zone, as RFC 3339 has it.
pub(super) fn is_date_time(text: &str) -> bool {
    static TIME: LazyLock<Regex> =
        LazyLock::new(|| known("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"));
    let text = text.to_lowercase();
    let mut halves = text.split('t');
    let (Some(date), Some(time)) = (halves.next(), halves.next()) else { return false };
    let Some(parts) = TIME.captures(time) else { return false };
    is_date(date) && &parts[1] <= "23" && &parts[2] <= "59" && &parts[3] <= "59"
}

/// A duration as Go writes it (`1h30m`), or in words (`3 days`).
pub(super) fn is_duration(text: &str) -> bool {
    static GO: LazyLock<Regex> =
        LazyLock::new(|| known(r"^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"));
    GO.is_match(text) || is_duration_in_words(text)
}

/// Text around the numbers is ignored; one known unit is enough.
fn is_duration_in_words(text: &str) -> bool {
    static PART: LazyLock<Regex> = LazyLock::new(|| known(r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)"));
    let mut known_unit = false;
    for part in PART.captures_iter(text) {
        if part[1].parse::<i64>().is_err() {
            return false;
        }
        known_unit |= is_unit(&part[2].to_lowercase());
    }
    known_unit
}

fn is_unit(unit: &str) -> bool {
    const SHORT: [&str; 11] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    const LONG: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    SHORT.contains(&unit) || LONG.iter().any(|long| unit.starts_with(long))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_on_the_calendar() {
        for (text, good) in [
            ("2024-02-29", true),
            ("2023-02-29", false),
            ("2024-13-01", false),
            ("2024-1-01", false),
            ("", false),
        ] {
            assert_eq!(is_date(text), good, "{text}");
        }
    }

    #[test]
    fn times_need_a_zone() {
        let cases = [
            ("2014-12-15T19:30:20.000Z", true),
            ("2014-12-15t19:30:20+01:00", true),
            ("2014-12-15T19:30:20", false),
            ("2014-12-15T24:30:20Z", false),
            ("2014-12-15", false),
            ("x", false),
        ];
        for (text, good) in cases {
            assert_eq!(is_date_time(text), good, "{text}");
        }
    }

    #[test]
    fn durations_come_in_two_dialects() {
        let good = ["0", "1h30m", "-1.5h", "22 ns", "3 days", "1week", "5 Minutes", ".5s", "1.s"];
        let bad = ["", "5", "x", "5 parsecs", "99999999999999999999 days"];
        for text in good {
            assert!(is_duration(text), "{text}");
        }
        for text in bad {
            assert!(!is_duration(text), "{text}");
        }
    }
}
