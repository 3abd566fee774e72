//! Numbers, quantities and durations, exactly: no two that differ in a digit are the same.

/// `digits * 10^exponent`, the digits without zeros at either end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// A sign, digits with or without a point, and an exponent.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (negative, text) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all_digits = |text: &str| text.bytes().all(|c| c.is_ascii_digit());
        if !all_digits(whole) || !all_digits(fraction) || whole.len() + fraction.len() == 0 {
            return None;
        }
        let digits = format!("{whole}{fraction}");
        let exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        Self::of(negative, &digits, exponent)
    }

    fn of(negative: bool, digits: &str, exponent: i64) -> Option<Self> {
        let digits = digits.trim_start_matches('0');
        let short = digits.trim_end_matches('0');
        if short.is_empty() {
            return Some(Self {
                negative: false,
                digits: "0".to_owned(),
                exponent: 0,
            });
        }
        let dropped = i64::try_from(digits.len() - short.len()).ok()?;
        Some(Self {
            negative,
            digits: short.to_owned(),
            exponent: exponent.checked_add(dropped)?,
        })
    }

    /// The same for every way of writing the same number.
    pub(super) fn canonical(&self) -> String {
        let sign = if self.negative { "-" } else { "" };
        format!("{sign}{}e{}", self.digits, self.exponent)
    }

    fn times_ten_to(mut self, power: i64) -> Option<Self> {
        if self.digits != "0" {
            self.exponent = self.exponent.checked_add(power)?;
        }
        Some(self)
    }

    fn times(self, factor: u128) -> Option<Self> {
        let product = self.digits.parse::<u128>().ok()?.checked_mul(factor)?;
        Self::of(self.negative, &product.to_string(), self.exponent)
    }
}

/// What every way of writing this number comes to; also `0x`, `0o` and `0b` ones, infinities and what is no number.
pub(super) fn canonical(text: &str) -> Option<String> {
    if let Some(decimal) = Decimal::parse(text) {
        return Some(decimal.canonical());
    }
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = rest.to_ascii_lowercase();
    match lower.trim_start_matches('.') {
        "inf" | "infinity" => return Some(format!("{sign}inf")),
        "nan" => return Some("nan".to_owned()),
        _ => {}
    }
    let (digits, radix) = match lower.as_bytes() {
        [b'0', b'x', ..] => (&lower[2..], 16),
        [b'0', b'o', ..] => (&lower[2..], 8),
        [b'0', b'b', ..] => (&lower[2..], 2),
        _ => return None,
    };
    if digits.starts_with('+') {
        return None;
    }
    let number = u128::from_str_radix(digits, radix).ok()?;
    Some(Decimal::of(sign == "-", &number.to_string(), 0)?.canonical())
}

/// A quantity as Kubernetes writes them: `100m`, `0.1`, `2k`, `1Gi`, `1e3`.
pub(super) fn quantity(text: &str) -> Option<String> {
    if let Some(decimal) = Decimal::parse(text) {
        return Some(decimal.canonical());
    }
    let at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, suffix) = text.split_at(at);
    let number = Decimal::parse(number)?;
    let scaled = match suffix {
        "n" => number.times_ten_to(-9),
        "u" => number.times_ten_to(-6),
        "m" => number.times_ten_to(-3),
        "k" => number.times_ten_to(3),
        "M" => number.times_ten_to(6),
        "G" => number.times_ten_to(9),
        "T" => number.times_ten_to(12),
        "P" => number.times_ten_to(15),
        "E" => number.times_ten_to(18),
        "Ki" => number.times(1 << 10),
        "Mi" => number.times(1 << 20),
        "Gi" => number.times(1 << 30),
        "Ti" => number.times(1 << 40),
        "Pi" => number.times(1 << 50),
        "Ei" => number.times(1 << 60),
        _ => None,
    };
    Some(scaled?.canonical())
}

/// A duration with units (`1h30m`, `90 min`, `1.5h`), or a number of seconds.
pub(super) fn duration(text: &str) -> Option<String> {
    /// A trillionth of a nanosecond: what 12 digits behind the point are counted in.
    const FRACTION: usize = 12;
    let mut total: u128 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let after = after.trim_start();
        let end = after
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let nanoseconds: u128 = match unit {
            "ns" | "nsec" => 1,
            "us" | "µs" | "μs" | "usec" => 1_000,
            "ms" | "msec" => 1_000_000,
            "s" | "sec" | "secs" | "second" | "seconds" | "" => 1_000_000_000,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000_000,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000_000_000,
            "d" | "day" | "days" => 86_400_000_000_000,
            "w" | "week" | "weeks" => 604_800_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.len() + fraction.len() == 0 || fraction.contains('.') || fraction.len() > FRACTION
        {
            return None;
        }
        let scale = u32::try_from(FRACTION - fraction.len()).ok()?;
        let number: u128 = format!("{whole}{fraction}").parse().ok()?;
        let part = number
            .checked_mul(10_u128.pow(scale))?
            .checked_mul(nanoseconds)?;
        total = total.checked_add(part)?;
        rest = after.trim_start();
    }
    Some(total.to_string())
}

/// What people write for yes and no.
pub(super) fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" | "1" | "enabled" => Some(true),
        "false" | "no" | "off" | "n" | "0" | "disabled" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_has_one_form() {
        #[track_caller]
        fn same(of: fn(&str) -> Option<String>, texts: &[&str]) {
            let first = of(texts[0]).expect("a number");
            for text in texts {
                assert_eq!(of(text).as_ref(), Some(&first), "{text}");
            }
        }
        same(
            canonical,
            &["1000", "1e3", "1000.0", "+1E+3", "0x3e8", "0b1111101000"],
        );
        same(canonical, &["0", "-0", "0.000", "0e9"]);
        same(canonical, &["-.5", "-0.5", "-5e-1"]);
        same(canonical, &["inf", ".inf", "+.INF", "Infinity"]);
        // B053
        same(quantity, &["1", "1000m", "1.0", "1000000u", "1e0"]);
        same(quantity, &["1Gi", "1024Mi", "1073741824"]);
        same(
            duration,
            &["1h30m", "90m", "90 min", "5400", "5400s", "1.5h", "1h 30m"],
        );
    }

    #[test]
    fn what_differs_stays_different() {
        #[track_caller]
        fn differ(of: fn(&str) -> Option<String>, one: &str, other: &str) {
            assert_ne!(of(one), of(other), "{one} {other}");
        }
        differ(canonical, "9007199254740992", "9007199254740993");
        differ(canonical, "0.1", "0.10000000000000001");
        differ(canonical, "1", "-1");
        differ(quantity, "1000m", "1000M");
        differ(quantity, "1G", "1Gi");
        differ(duration, "1m", "1ms");
        for text in [
            "",
            "-",
            ".",
            "e3",
            "1e",
            "0x",
            "1_000",
            "1e99999999999999999999",
            "٣",
        ] {
            assert_eq!(canonical(text), None, "{text}");
        }
        for text in [
            "",
            "h",
            "1x",
            "1.2.3s",
            "-1s",
            "99999999999999999999999999999999999999w",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
        assert_eq!(quantity("1Xi"), None);
    }
}
