//! Spans of time on the command line: `500ms`, `5s`, `15m`, `1h`, or bare seconds.

use std::time::Duration;

pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let bad = || format!("{text:?} is no span of time: write 500ms, 5s, 15m or 1h");
    let number: u64 = number.parse().map_err(|_| bad())?;
    let milliseconds = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(bad()),
    };
    number.checked_mul(milliseconds).map(Duration::from_millis).ok_or_else(bad)
}

/// A span of seconds as people say it.
pub(crate) fn tell(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_nonsense_is_not() {
        let cases =
            [("500ms", 500), ("5s", 5_000), ("5", 5_000), ("15m", 900_000), ("1h", 3_600_000), ("0", 0)];
        for (text, expected) in cases {
            assert_eq!(parse(text), Ok(Duration::from_millis(expected)), "{text}");
        }
        for text in ["", "s", "5d", "-1s", "1.5s", "5 s", "99999999999999999999", "18446744073709551615h"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn spans_are_said_in_the_unit_that_fits() {
        let cases = [(0, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (172_800, "2d")];
        for (seconds, expected) in cases {
            assert_eq!(tell(seconds), expected);
        }
    }
}
