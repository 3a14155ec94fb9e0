//! How much an amount of a resource is, as Kubernetes writes it: `500m`, `2Gi`, `1e3`.

/// Billionths are the smallest that Kubernetes knows.
const ONE: u128 = 1_000_000_000;
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// In billionths; nothing if it is no amount, or more than anybody has.
pub(crate) fn billionths(text: &str) -> Option<u128> {
    let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    let (number, suffix) = text.split_at(text.find(|letter| !is_number(letter)).unwrap_or(text.len()));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // Without a digit this is no number, with a second point neither.
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let parts = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    Some(digits.checked_mul(unit(suffix)?)? / parts)
}

fn unit(suffix: &str) -> Option<u128> {
    if let Some(place) = DECIMAL.iter().position(|known| *known == suffix) {
        return 1000_u128.checked_pow(u32::try_from(place).ok()?);
    }
    if let Some(place) = BINARY.iter().position(|known| *known == suffix) {
        return ONE.checked_mul(1024_u128.checked_pow(u32::try_from(place + 1).ok()?)?);
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    10_u128.checked_pow(u32::try_from(exponent.checked_add(9)?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_as_much_as_kubernetes_takes_them_for() {
        let same = [
            ("1", "1000m"),
            ("0.5", "500m"),
            (".5", "0.50"),
            ("1.", "1"),
            ("1Ki", "1024"),
            ("1.5Gi", "1536Mi"),
            ("1E", "1000P"),
            ("1e3", "1k"),
            ("1E+3", "1k"),
            ("5e-3", "5m"),
            ("1000n", "1u"),
            ("0", "0Gi"),
        ];
        for (a, b) in same {
            assert!(billionths(a).is_some() && billionths(a) == billionths(b), "{a} {b}");
        }
        let less = [("999m", "1"), ("1G", "1Gi"), ("1023Mi", "1Gi"), ("1P", "1Ei")];
        for (a, b) in less {
            assert!(billionths(a) < billionths(b), "{a} {b}");
        }
    }

    #[test]
    fn what_is_no_amount_is_none() {
        for text in [
            "", ".", "lots", "-1", "+1", "1 Gi", "1GB", "1gi", "1.2.3", "Gi", "1e", "1ee3", "1e-10", "1e99",
            "٣",
        ] {
            assert_eq!(billionths(text), None, "{text}");
        }
        assert_eq!(billionths(&"9".repeat(60)), None);
    }
}
