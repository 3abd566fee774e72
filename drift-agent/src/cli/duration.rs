//! Durations on the command line: `500ms`, `2s`, `10m`, `1h`, `7d`.

use std::time::Duration;

/// A number and its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: u64 = text[..text.len() - unit.len()]
        .parse()
        .map_err(|_| "a duration is a number and a unit: 500ms, 2s, 10m, 1h, 7d".to_owned())?;
    let seconds = |each: u64| Duration::from_secs(number.saturating_mul(each));
    match unit {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(seconds(1)),
        "m" => Ok(seconds(60)),
        "h" => Ok(seconds(3600)),
        "d" => Ok(seconds(24 * 3600)),
        "" => Err(format!("{number} what? 500ms, 2s, 10m, 1h, 7d")),
        _ => Err(format!("unknown unit `{unit}`: 500ms, 2s, 10m, 1h, 7d")),
    }
}

/// How often something is done that takes a core's time.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if duration < Duration::from_millis(100) {
        return Err("at least 100ms: scanning more often takes a whole core".to_owned());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_unit() {
        for (text, expected) in [
            ("500ms", Some(Duration::from_millis(500))),
            ("0s", Some(Duration::ZERO)),
            ("2s", Some(Duration::from_secs(2))),
            ("10m", Some(Duration::from_secs(600))),
            ("1h", Some(Duration::from_secs(3600))),
            ("1d", Some(Duration::from_secs(86_400))),
            ("1", None),
            ("s", None),
            ("", None),
            ("-1s", None),
            ("99999999999999999999s", None),
            ("1w", None),
        ] {
            assert_eq!(duration(text).ok(), expected, "{text}");
        }
        assert!(interval("1ms").is_err());
        assert_eq!(interval("100ms"), Ok(Duration::from_millis(100)));
    }
}
