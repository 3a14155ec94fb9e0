//! Times as Go reads and writes them in JSON.
//!
//! `Time` has whole seconds, `MicroTime` exactly six fractional digits; both are shown in UTC. Refusals carry the text of
//! Go's `time.Parse`, which clients see in the answer.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

const SECONDS_LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const MICROS_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";
/// The first moment of the year 1, which Go shows as null.
const ZERO: Instant = Instant { seconds: -62_135_596_800, nanos: 0 };

/// Seconds since 1970 and the part of a second after them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Instant {
    pub(super) seconds: i64,
    pub(super) nanos: i32,
}

impl Instant {
    /// Reads the JSON form of `Time`.
    pub(super) fn parse_seconds(text: &str) -> Result<Instant, String> {
        Parser { text, rest: text, layout: SECONDS_LAYOUT }.instant()
    }

    /// Reads the JSON form of `MicroTime`.
    pub(super) fn parse_micros(text: &str) -> Result<Instant, String> {
        Parser { text, rest: text, layout: MICROS_LAYOUT }.instant()
    }

    pub(super) fn is_zero(&self) -> bool {
        *self == ZERO
    }

    /// The JSON form of `Time`; `None` outside of four-digit years.
    pub(super) fn seconds_text(&self) -> Option<String> {
        Some(format!("{}Z", self.civil_text()?))
    }

    /// The JSON form of `MicroTime`; `None` outside of four-digit years.
    pub(super) fn micros_text(&self) -> Option<String> {
        let micros = u32::try_from(self.nanos).ok()? / 1000;
        (micros < 1_000_000).then_some(())?;
        Some(format!("{}.{micros:06}Z", self.civil_text()?))
    }

    fn civil_text(&self) -> Option<String> {
        let civil = Offset::UTC.to_datetime(Timestamp::from_second(self.seconds).ok()?);
        let (year, month, day) = (civil.year(), civil.month(), civil.day());
        let (hour, minute, second) = (civil.hour(), civil.minute(), civil.second());
        (year >= 0).then(|| format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"))
    }
}

/// The moment that a text in the form of `Time` means.
pub(crate) fn parse_time(text: &str) -> Result<Timestamp, String> {
    let Instant { seconds, .. } = Instant::parse_seconds(text)?;
    Timestamp::from_second(seconds).map_err(|_| format!("parsing time {text:?}: year out of range"))
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl Parser<'_> {
    fn instant(&mut self) -> Result<Instant, String> {
        let year = self.digits(4, "2006")?;
        self.literal("-")?;
        let month = self.bounded("01", 1..=12, "month")?;
        self.literal("-")?;
        let day = self.digits(2, "02")?;
        self.literal("T")?;
        let hour = self.bounded("15", 0..=23, "hour")?;
        self.literal(":")?;
        let minute = self.bounded("04", 0..=59, "minute")?;
        self.literal(":")?;
        let second = self.bounded("05", 0..=59, "second")?;
        let nanos = if self.layout == MICROS_LAYOUT { self.micros()? } else { self.fraction() };
        let offset = self.offset()?;
        if !self.rest.is_empty() {
            return Err(format!("parsing time {:?}: extra text: {:?}", self.text, self.rest));
        }
        let civil =
            DateTime::new(year as i16, month as i8, day as i8, hour as i8, minute as i8, second as i8, 0);
        let civil = civil.map_err(|_| self.out_of_range("day"))?;
        let utc = Offset::UTC.to_timestamp(civil).map_err(|_| self.out_of_range("day"))?;
        Ok(Instant { seconds: utc.as_second() - offset, nanos })
    }

    fn digits(&mut self, count: usize, element: &str) -> Result<i32, String> {
        let digits = self.rest.get(..count).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let Some(digits) = digits else { return Err(self.mismatch(element)) };
        self.rest = &self.rest[count..];
        Ok(digits.bytes().fold(0, |value, digit| value * 10 + i32::from(digit - b'0')))
    }

    fn bounded(
        &mut self,
        element: &str,
        bounds: std::ops::RangeInclusive<i32>,
        unit: &str,
    ) -> Result<i32, String> {
        let value = self.digits(2, element)?;
        if bounds.contains(&value) { Ok(value) } else { Err(self.out_of_range(unit)) }
    }

    fn literal(&mut self, literal: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(literal).ok_or_else(|| self.mismatch(literal))?;
        Ok(())
    }

    fn micros(&mut self) -> Result<i32, String> {
        let before = self.rest;
        let point = self.rest.strip_prefix('.').or_else(|| self.rest.strip_prefix(','));
        self.rest = point.ok_or_else(|| self.mismatch(".000000"))?;
        let micros = self.digits(6, ".000000");
        micros.map(|micros| micros * 1000).map_err(|_| {
            self.rest = before;
            self.mismatch(".000000")
        })
    }

    /// Digits after the seconds, which the layout of `Time` does not ask for but Go accepts; `Time` drops them.
    fn fraction(&mut self) -> i32 {
        let digits = self.rest.strip_prefix(['.', ',']).unwrap_or_default();
        let after = digits.trim_start_matches(|digit: char| digit.is_ascii_digit());
        if after.len() < digits.len() {
            self.rest = after;
        }
        0
    }

    /// The seconds by which local time is ahead of UTC.
    fn offset(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let bytes = self.rest.as_bytes();
        let two = |at: usize| match bytes.get(at..at + 2) {
            Some([tens @ b'0'..=b'9', ones @ b'0'..=b'9']) => {
                Some(i64::from((tens - b'0') * 10 + ones - b'0'))
            }
            _ => None,
        };
        let sign = match bytes.first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Err(self.mismatch("Z07:00")),
        };
        match (two(1), bytes.get(3), two(4)) {
            (Some(hours), Some(b':'), Some(minutes)) if hours <= 24 && minutes <= 60 => {
                self.rest = &self.rest[6..];
                Ok(sign * (hours * 3600 + minutes * 60))
            }
            _ => Err(self.mismatch("Z07:00")),
        }
    }

    fn mismatch(&self, element: &str) -> String {
        let Parser { text, rest, layout } = self;
        format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}")
    }

    fn out_of_range(&self, unit: &str) -> String {
        format!("parsing time {:?}: {unit} out of range", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_utc() {
        for (text, shown) in [
            ("2024-02-29T12:00:00Z", "2024-02-29T12:00:00Z"),
            ("2024-02-29T12:00:00+02:00", "2024-02-29T10:00:00Z"),
            ("2024-01-01T00:30:00.987654321-01:30", "2024-01-01T02:00:00Z"),
            ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z"),
        ] {
            let instant = Instant::parse_seconds(text).unwrap();
            assert_eq!(instant.seconds_text().as_deref(), Some(shown), "{text}");
        }
        let micros = Instant::parse_micros("2024-02-29T12:00:00.000123+02:00").unwrap();
        assert_eq!(micros.micros_text().as_deref(), Some("2024-02-29T10:00:00.000123Z"));
        assert!(Instant::parse_seconds("0001-01-01T00:00:00Z").unwrap().is_zero());
    }

    #[test]
    fn moments_that_have_no_four_digit_year_have_no_text() {
        for seconds in [i64::MIN, i64::MAX, -62_200_000_000 - 86_400 * 366] {
            assert_eq!(Instant { seconds, nanos: 0 }.seconds_text(), None, "{seconds}");
        }
        assert_eq!(Instant { seconds: 0, nanos: -1 }.micros_text(), None);
    }
}
