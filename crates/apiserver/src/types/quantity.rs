//! Quantities such as `1500m` or `2Gi`: what Go refuses, and the form it writes.
//!
//! A quantity is brought to the largest suffix that leaves no fraction, except where the written text counts as canonical
//! already. Amounts that 128 bits cannot hold or no suffix can name keep their text.

const WRONG_FORMAT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const WRONG_SUFFIX: &str = "unable to parse quantity's suffix";

const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Go reads numbers of so many digits as 64 bits.
const MOST_DIGITS: usize = 18;
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The canonical text of a quantity, or Go's words for what is wrong with it.
pub(super) fn canonical(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    let parts = Parts::split(text)?;
    let unit = Unit::of(parts.suffix).ok_or(WRONG_SUFFIX)?;
    Ok(parts.render(unit).unwrap_or_else(|| text.to_owned()))
}

/// A quantity's text, taken apart.
struct Parts<'a> {
    negative: bool,
    /// Without leading zeros.
    digits: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

#[derive(Clone, Copy)]
enum Unit {
    /// A power of ten with a letter.
    Decimal(i32),
    /// A power of ten written as `e3`.
    Exponent(i32),
    /// A power of two.
    Binary(u32),
}

impl Unit {
    fn of(suffix: &str) -> Option<Unit> {
        if let Some(at) = DECIMAL_SUFFIXES.iter().position(|known| *known == suffix) {
            return Some(Unit::Decimal(at as i32 * 3 - 9));
        }
        if let Some(at) = BINARY_SUFFIXES.iter().position(|known| *known == suffix) {
            return Some(Unit::Binary(at as u32 * 10));
        }
        let exponent = suffix.strip_prefix(['e', 'E'])?;
        exponent.parse().ok().map(Unit::Exponent)
    }
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Parts<'a>, &'static str> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        if text.is_empty() {
            return Err(WRONG_FORMAT);
        }
        let (digits, rest) = split_digits(unsigned.trim_start_matches('0'));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        let exponent = suffix.trim_start_matches(|letter| "eEinumkKMGTP".contains(letter));
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(WRONG_FORMAT);
        }
        Ok(Parts { negative: text.starts_with('-'), digits, fraction, suffix })
    }

    /// `None` where the text stays.
    fn render(&self, unit: Unit) -> Option<String> {
        let digits = format!("{}{}", if self.digits.is_empty() { "0" } else { self.digits }, self.fraction);
        let value: i128 = digits.parse().ok()?;
        if value == 0 {
            return Some("0".to_owned());
        }
        let places = i32::try_from(self.fraction.len()).ok()?;
        let rendered = match unit {
            Unit::Binary(shift) => self.render_binary(value, shift, places)?,
            Unit::Decimal(power) | Unit::Exponent(power) => {
                let scale = power.checked_sub(places)?;
                // Go takes such a text as canonical, whatever else it is.
                let exact = digits.len() <= MOST_DIGITS && scale >= -9;
                if exact && scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0') {
                    return None;
                }
                decimal(value, scale, matches!(unit, Unit::Exponent(_)))?
            }
        };
        Some(if self.negative { format!("-{rendered}") } else { rendered })
    }

    fn render_binary(&self, value: i128, shift: u32, places: i32) -> Option<String> {
        // As above: Go only looks at the lowest bits here.
        if places == 0 && value & 7 != 0 && fits_fast_path(self.digits, shift) {
            return None;
        }
        // What overflows here is beyond 64 bits as well, unless most of it are decimal places.
        let Some(scaled) = value.checked_mul(1 << shift) else {
            return (places < 20).then(|| i64::MAX.to_string());
        };
        let divisor = 10i128.checked_pow(places as u32)?;
        let (amount, whole) = (scaled / divisor, scaled % divisor == 0);
        if amount > i128::from(i64::MAX) || (amount == i128::from(i64::MAX) && !whole) {
            return Some(i64::MAX.to_string());
        }
        if !whole || amount < 1024 {
            return decimal(scaled, -places, false);
        }
        let steps = amount.trailing_zeros() / 10;
        let suffix = BINARY_SUFFIXES.get(steps as usize)?;
        Some(format!("{}{suffix}", amount >> (10 * steps)))
    }
}

/// Whether Go reads the number as 64 bits without looking closer.
fn fits_fast_path(digits: &str, shift: u32) -> bool {
    14 - digits.len() as i64 - i64::from(shift) * 3 / 10 >= 0
}

/// `value` times ten to the power of `scale`, with an exponent that is a multiple of three.
fn decimal(mut value: i128, mut scale: i32, exponent: bool) -> Option<String> {
    // More precise than nano is rounded up, so that a little never becomes nothing.
    while scale < -9 {
        scale = if value == 1 { -9 } else { scale + 1 };
        value = value / 10 + i128::from(value % 10 != 0);
    }
    while value % 10 == 0 {
        value /= 10;
        scale = scale.checked_add(1)?;
    }
    while scale % 3 != 0 {
        value = value.checked_mul(10)?;
        scale -= 1;
    }
    if exponent {
        return Some(if scale == 0 { value.to_string() } else { format!("{value}e{scale}") });
    }
    let suffix = DECIMAL_SUFFIXES.get(usize::try_from(scale / 3 + 3).ok()?)?;
    Some(format!("{value}{suffix}"))
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_take_the_form_that_go_writes() {
        let goldens: Vec<Vec<(String, String)>> =
            serde_json::from_str(include_str!("testdata/quantities.json")).unwrap();
        for (text, expected) in goldens.into_iter().flatten() {
            assert_eq!(canonical(&text).unwrap_or_else(str::to_owned), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_either_refused_or_has_a_form(text in "[+-]?[0-9.]{0,40}[eEinumkKMGTP]{0,2}[-+]?[0-9]{0,12}") {
            if let Ok(form) = canonical(&text) {
                prop_assert!(canonical(&form).is_ok(), "{form}");
            }
        }
    }
}
