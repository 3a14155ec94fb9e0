//! Numbers against `minimum`, `maximum`, `multipleOf` and their formats.
//!
//! Integers are compared as integers, everything else as floating point. A limit that does not fit the schema's own type
//! (`type: integer` with `maximum: 1.5`) is an error of every object, as on a real API server.

use serde_json::{Number, Value};

use super::format::Format;
use super::path;
use super::structural::{Schema, Type};
use super::verdict::{Verdict, invalid, nowhere};
use crate::invalid::FieldError;

/// A number as the API server holds it: an integer where it fits, a float otherwise.
#[derive(Clone, Copy, Debug)]
enum Num {
    Int(i64),
    Float(f64),
}

impl Num {
    fn of(number: &Number) -> Self {
        number.as_i64().map_or_else(|| Self::Float(number.as_f64().unwrap_or(f64::NAN)), Self::Int)
    }

    fn float(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }

    fn text(self) -> String {
        match self {
            Self::Int(int) => int.to_string(),
            Self::Float(float) => float_text(float),
        }
    }

    /// As a value that prints like the API server prints it: `2`, not `2.0`.
    fn value(self) -> Value {
        match self {
            Self::Int(int) => int.into(),
            Self::Float(float) if float.fract() == 0.0 && float.abs() < 1e15 => (float as i64).into(),
            Self::Float(float) => float.into(),
        }
    }

    /// This number in the representation of `other`, so that both compare exactly.
    fn like(self, other: Self) -> Self {
        match (self, other) {
            (Self::Float(float), Self::Int(_)) => Self::Int(float as i64),
            (number, _) => number,
        }
    }

    fn compare(self, other: Self) -> std::cmp::Ordering {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.cmp(&b),
            (a, b) => a.float().total_cmp(&b.float()),
        }
    }
}

/// A value as messages show it: a whole float without its fraction.
pub(super) fn shown(value: &Value) -> Value {
    match value {
        Value::Number(number) => Num::of(number).value(),
        other => other.clone(),
    }
}

impl Schema {
    pub(super) fn check_number(&self, number: &Number, at: &str) -> Verdict {
        let number = Num::of(number);
        let mut verdict = Verdict::matched();
        verdict.errors.extend(self.out_of_range(number, "Checked", at));
        let limits = &self.limits;
        if let Some(factor) = limits.multiple_of {
            self.check_limit(&mut verdict, factor, number, "MultipleOf", at, check_multiple);
        }
        if let Some(minimum) = limits.minimum {
            let check = if limits.exclusive_minimum { check_above } else { check_minimum };
            self.check_limit(&mut verdict, minimum, number, "Minimum boundary", at, check);
        }
        if let Some(maximum) = limits.maximum {
            let check = if limits.exclusive_maximum { check_below } else { check_maximum };
            self.check_limit(&mut verdict, maximum, number, "Maximum boundary", at, check);
        }
        verdict
    }

    fn check_limit(
        &self,
        verdict: &mut Verdict,
        limit: f64,
        number: Num,
        role: &str,
        at: &str,
        check: Check,
    ) {
        let misfit = self.out_of_range(Num::Float(limit), role, at);
        let error = match misfit {
            None => check(number, Num::Float(limit).like(number), at),
            Some(_) => check(Num::Float(number.float()), Num::Float(limit), at),
        };
        verdict.errors.extend(misfit);
        verdict.errors.extend(error);
    }

    fn out_of_range(&self, number: Num, role: &str, at: &str) -> Option<FieldError> {
        let [kind] = self.types() else { return None };
        let format = self.limits.format.as_ref();
        let fits = match (kind, format) {
            (Type::Integer, Some(Format::Int32)) => {
                integer(number).is_some_and(|int| i32::try_from(int).is_ok())
            }
            (Type::Integer, _) => integer(number).is_some(),
            (Type::Number, Some(Format::Float)) => (number.float() as f32).is_finite(),
            _ => true,
        };
        let format = match format {
            Some(format) if matches!(kind, Type::Integer | Type::Number) => {
                format!("with format {}", format.name())
            }
            _ => "(default format)".to_owned(),
        };
        let kind = kind.name();
        (!fits).then(|| nowhere(format!("{role} value must be of type {kind} {format} in {at}")))
    }
}

type Check = fn(Num, Num, &str) -> Option<FieldError>;

fn check_minimum(number: Num, limit: Num, at: &str) -> Option<FieldError> {
    let text = format!("should be greater than or equal to {}", limit.text());
    number.compare(limit).is_lt().then(|| invalid(at, number.value(), text))
}

fn check_above(number: Num, limit: Num, at: &str) -> Option<FieldError> {
    let text = format!("should be greater than {}", limit.text());
    number.compare(limit).is_le().then(|| invalid(at, number.value(), text))
}

fn check_maximum(number: Num, limit: Num, at: &str) -> Option<FieldError> {
    let text = format!("should be less than or equal to {}", limit.text());
    number.compare(limit).is_gt().then(|| invalid(at, number.value(), text))
}

fn check_below(number: Num, limit: Num, at: &str) -> Option<FieldError> {
    let text = format!("should be less than {}", limit.text());
    number.compare(limit).is_ge().then(|| invalid(at, number.value(), text))
}

fn check_multiple(number: Num, factor: Num, at: &str) -> Option<FieldError> {
    if factor.float() <= 0.0 {
        let detail = format!("factor MultipleOf declared for {at} must be positive: {}", factor.text());
        return Some(FieldError::invalid(path::field(at), factor.value(), detail));
    }
    let divides = match (number, factor) {
        (Num::Int(number), Num::Int(factor)) => number.checked_rem(factor) == Some(0),
        (number, factor) if factor.float() < 1.0 => is_whole(1.0 / factor.float() * number.float()),
        (number, factor) => is_whole(number.float() / factor.float()),
    };
    let text = format!("should be a multiple of {}", factor.text());
    (!divides).then(|| invalid(at, number.value(), text))
}

fn integer(number: Num) -> Option<i64> {
    match number {
        Num::Int(int) => Some(int),
        Num::Float(float) => {
            (float.fract() == 0.0 && (-TWO_63..TWO_63).contains(&float)).then_some(float as i64)
        }
    }
}

const TWO_63: f64 = 9_223_372_036_854_775_808.0;

/// Whether a float stands for an integer, within the tolerance for division errors.
pub(super) fn is_whole(float: f64) -> bool {
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    if !float.is_finite() || float.abs() > LARGEST {
        return false;
    }
    let whole = float.round();
    float == whole || (float - whole).abs() < 1e-9 * whole.abs()
}

/// A float as Go prints it with `%v`: plain, or with an exponent when very large or very small.
pub(super) fn float_text(float: f64) -> String {
    let size = float.abs();
    if size != 0.0 && !(1e-4..1e21).contains(&size) {
        let text = format!("{float:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{float}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_in_go() {
        let cases = [
            (1.0, "1"),
            (1.5, "1.5"),
            (1e21, "1e+21"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (-2.5e-7, "-2.5e-07"),
        ];
        for (float, text) in cases {
            assert_eq!(float_text(float), text);
        }
    }

    #[test]
    fn wholeness_tolerates_division_errors_only() {
        for (float, whole) in
            [(3.0, true), (-3.0, true), (0.0, true), (1.5, false), (0.3 / 0.1, true), (1e300, false)]
        {
            assert_eq!(is_whole(float), whole, "{float}");
        }
    }
}
