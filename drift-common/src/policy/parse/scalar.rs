//! Values that are written as one scalar.

use std::{sync::Arc, time::Duration};

use semver::Version;

use crate::{
    escape,
    policy::{
        Principal,
        decode::{Cursor, Decoder},
        source::Spanned,
        tree::Value,
    },
};

/// The text of a scalar that is more than a text to YAML, and of one that is not: for values whose text is what counts.
pub(super) fn raw(
    decoder: &mut Decoder<'_>,
    cursor: Cursor<'_>,
    expected: &str,
    help: &str,
) -> Option<Arc<str>> {
    match cursor.scalar() {
        Some((text, Value::Text | Value::Integer | Value::Float)) => Some(text.clone()),
        _ => decoder.expected(cursor, expected, help),
    }
}

/// Whether a policy or a document can be called so: as Kubernetes allows it (RFC 1123, a subdomain).
#[must_use]
pub fn is_name(text: &str) -> bool {
    let end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(end) && label.ends_with(end) && label.chars().all(|c| end(c) || c == '-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// The name of an object.
pub(super) fn name(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Spanned<String>> {
    let text = decoder.text(cursor)?;
    if !is_name(&text) {
        return decoder.wrong(
            cursor,
            format!("{} cannot be a name", escape::name(&text)),
            "a name has lower-case letters, digits, `-` and `.`, a letter or digit at both ends and beside each `.`, and at most 253 of them",
        );
    }
    Some(decoder.spanned(cursor, text.to_string()))
}

/// A semantic version. `1.2` is a number to YAML, and the text of a version to people: said as such.
pub(super) fn version(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Spanned<Version>> {
    let text = raw(
        decoder,
        cursor,
        "a semantic version",
        "write it as in `1.2.0`",
    )?;
    match semantic_version(&text) {
        Ok(version) => Some(decoder.spanned(cursor, version)),
        Err(help) => decoder.wrong(
            cursor,
            format!("{} is not a semantic version", escape::name(&text)),
            help,
        ),
    }
}

/// The semantic version that `text` is.
///
/// # Errors
/// It is none; what to write instead.
pub fn semantic_version(text: &str) -> Result<Version, String> {
    if let Ok(version) = text.parse() {
        return Ok(version);
    }
    let bare = text.trim_start_matches(['v', 'V']);
    let meant = [bare.to_owned(), format!("{bare}.0"), format!("{bare}.0.0")]
        .into_iter()
        .find(|text| text.parse::<Version>().is_ok());
    Err(match meant {
        Some(meant) => format!("write `{meant}`"),
        None => {
            "three numbers without leading zeros, and perhaps a pre-release: `1.2.0`, `1.2.0-rc.1`"
                .to_owned()
        }
    })
}

/// Permission bits, always octal: what is written is what `chmod` would be given.
pub(super) fn file_mode(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<u32> {
    const HELP: &str = "write the octal digits that chmod takes, as in \"0644\" or \"4755\"";
    let text = raw(decoder, cursor, "a file mode", HELP)?;
    let digits = text.strip_prefix("0o").unwrap_or(&text);
    let bits = match digits.len() {
        3..=5 if digits.bytes().all(|c| matches!(c, b'0'..=b'7')) => {
            u32::from_str_radix(digits, 8).ok()
        }
        _ => None,
    };
    match bits {
        Some(bits) if bits <= 0o7777 => Some(bits),
        _ => decoder.wrong(
            cursor,
            format!("{} is not a file mode", escape::name(&text)),
            HELP,
        ),
    }
}

/// A user or group (`what` of them).
pub(super) fn principal(
    decoder: &mut Decoder<'_>,
    cursor: Cursor<'_>,
    what: &str,
) -> Option<Spanned<Principal>> {
    let text = raw(decoder, cursor, &format!("the name or id of a {what}"), "")?;
    let is_text = matches!(cursor.scalar(), Some((_, Value::Text)));
    principal_of(decoder, cursor, &text, is_text, what)
}

/// A user or group (`what` of them) that `text` names, which is all or a part of what stands at `cursor`; `is_text`: YAML does not take it for a number.
pub(super) fn principal_of(
    decoder: &mut Decoder<'_>,
    cursor: Cursor<'_>,
    text: &str,
    is_text: bool,
    what: &str,
) -> Option<Spanned<Principal>> {
    let digits = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    let principal = if digits {
        match text.parse() {
            // The last number means "leave it alone" to the kernel.
            Ok(id) if id != u32::MAX => Principal::Id(id),
            _ => {
                let message = format!("{} is too large for the id of a {what}", escape::name(text));
                return decoder.wrong(cursor, message, format!("ids go up to {}", u32::MAX - 1));
            }
        }
    } else {
        let odd =
            |c: char| escape::is_deceptive(c) || c.is_whitespace() || matches!(c, ':' | ',' | '/');
        if text.is_empty()
            || text.len() > 256
            || text.starts_with(['-', '+'])
            || text.contains(odd)
            || !is_text
        {
            let message = format!("{} cannot be the name of a {what}", escape::name(text));
            return decoder.wrong(
                cursor,
                message,
                "write the name as it is in /etc/passwd or /etc/group, or the id",
            );
        }
        Principal::Name(text.to_string())
    };
    Some(decoder.spanned(cursor, principal))
}

/// A whole number from `least` to `most`.
pub(super) fn whole_number(
    decoder: &mut Decoder<'_>,
    cursor: Cursor<'_>,
    least: u32,
    most: u32,
) -> Option<u32> {
    let number = match cursor.scalar() {
        Some((text, Value::Integer)) => text.parse().ok(),
        _ => None,
    };
    match number {
        Some(number) if (least..=most).contains(&number) => Some(number),
        _ => decoder.expected(
            cursor,
            &format!("a whole number from {least} to {most}"),
            "",
        ),
    }
}

/// Bytes, from 1 to `most`: `512`, `64KiB`, `1MiB`.
pub(super) fn size(decoder: &mut Decoder<'_>, cursor: Cursor<'_>, most: u64) -> Option<u64> {
    const HELP: &str = "write whole numbers, as in `512`, `64KiB`, `1MiB`";
    let text = raw(decoder, cursor, "a size", HELP)?;
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = text[..text.len() - unit.len()].parse::<u64>();
    let factor = match unit {
        "" | "B" => Some(1),
        "KiB" | "Ki" => Some(1 << 10),
        "MiB" | "Mi" => Some(1 << 20),
        _ => None,
    };
    let (Ok(number), Some(factor)) = (number, factor) else {
        let message = format!("{} is not a size", escape::name(&text));
        return decoder.wrong(cursor, message, HELP);
    };
    match number.checked_mul(factor) {
        Some(bytes) if (1..=most).contains(&bytes) => Some(bytes),
        _ => {
            let message = format!("{} is not a possible size", escape::name(&text));
            decoder.wrong(cursor, message, format!("write 1 to {}MiB", most >> 20))
        }
    }
}

/// The longest duration there is a use for. Far from where sums and products of durations overflow.
const LONGEST: Duration = Duration::from_hours(24 * 365);

/// Numbers with units, one after the other: `0s`, `500ms`, `1h30m`.
pub(super) fn duration(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Duration> {
    const HELP: &str =
        "write whole numbers with units (h, m, s, ms), as in `500ms`, `2s`, `5m`, `1h30m`";
    let text = raw(decoder, cursor, "a duration", HELP)?;
    let Some(duration) = parse_duration(&text) else {
        let unitless = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        let help = if unitless {
            format!("write the unit: `{}s`", escape::text(&text))
        } else {
            HELP.to_owned()
        };
        return decoder.wrong(
            cursor,
            format!("{} is not a duration", escape::name(&text)),
            help,
        );
    };
    if duration > LONGEST {
        let message = format!("{} is too long", escape::name(&text));
        return decoder.wrong(
            cursor,
            message,
            "the longest duration allowed is a year, 8760h",
        );
    }
    Some(duration)
}

fn parse_duration(mut text: &str) -> Option<Duration> {
    // The units in the order they may come in, each once.
    let mut units = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)].iter();
    let mut millis: u64 = 0;
    while !text.is_empty() {
        let digits = text.find(|c: char| !c.is_ascii_digit())?;
        let (number, rest) = text.split_at(digits);
        let end = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let (unit, rest) = rest.split_at(end);
        let (_, factor) = units.find(|(known, _)| *known == unit)?;
        // Too much for a number is too long for a duration: the caller says so.
        let number = if number.len() > 18 {
            u64::MAX
        } else {
            number.parse().ok()?
        };
        millis = millis.saturating_add(number.saturating_mul(*factor));
        text = rest;
        if text.is_empty() {
            return Some(Duration::from_millis(millis));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::parse_duration;

    #[test]
    fn durations() {
        #[track_caller]
        fn check(text: &str, millis: Option<u64>) {
            assert_eq!(
                parse_duration(text),
                millis.map(Duration::from_millis),
                "{text}"
            );
        }
        check("0s", Some(0));
        check("500ms", Some(500));
        check("2s", Some(2000));
        check("5m", Some(300_000));
        check("1h", Some(3_600_000));
        check("1h30m", Some(5_400_000));
        check("1m0s5ms", Some(60_005));
        check("99999999999999999999h", Some(u64::MAX));
        for wrong in [
            "", "5", "s", "5 s", "1.5s", "-1s", "5S", "30m1h", "1s1s", "5d", "5s ", "1h5", "٣s",
        ] {
            check(wrong, None);
        }
    }
}
