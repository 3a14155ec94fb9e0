//! Time spans as people read them: `5s`, `3m20s`, `2d4h`.

use jiff::Timestamp;
use serde_json::Value;

use crate::rules::field;

/// A span of seconds in two or three significant figures.
///
/// A second into the future is a clock that is slightly off; more is an error and says so.
pub(crate) fn human_duration(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    match seconds {
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => pair(days, "d", hours % 24, "h"),
        _ if days < 730 => format!("{days}d"),
        _ if days < 8 * 365 => pair(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

/// How long ago the time at `path` was, or `<unknown>` when there is none.
pub(super) fn since(object: &Value, path: &str, now: Timestamp) -> String {
    match time(object, path) {
        Some(then) => elapsed(then, now),
        None => "<unknown>".to_owned(),
    }
}

/// How long ago the object was created.
pub(super) fn of(object: &Value, now: Timestamp) -> Value {
    since(object, "metadata.creationTimestamp", now).into()
}

/// The time at `path`.
pub(super) fn time(object: &Value, path: &str) -> Option<Timestamp> {
    field::text(object, path).parse().ok()
}

/// The span between two times.
pub(super) fn elapsed(then: Timestamp, now: Timestamp) -> String {
    // Rounds towards zero, so that the first second is `0s`.
    human_duration(
        i64::try_from((now.as_nanosecond() - then.as_nanosecond()) / 1_000_000_000).unwrap_or(i64::MAX),
    )
}

fn pair(large: i64, unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_as_kubectl_shows_them() {
        let (minute, hour, day) = (60, 3600, 86_400);
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * minute, "2m"),
            (2 * minute + 1, "2m1s"),
            (10 * minute - 1, "9m59s"),
            (10 * minute + 59, "10m"),
            (3 * hour - 1, "179m"),
            (3 * hour, "3h"),
            (3 * hour + 5 * minute, "3h5m"),
            (8 * hour + 5 * minute, "8h"),
            (2 * day - 1, "47h"),
            (2 * day, "2d"),
            (2 * day + hour, "2d1h"),
            (8 * day + hour, "8d"),
            (729 * day, "729d"),
            (730 * day, "2y"),
            (731 * day, "2y1d"),
            (8 * 365 * day, "8y"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(human_duration(seconds), expected);
        }
    }
}
