//! Sizes on the command line: `512MiB`, `1GiB`, `2GB`.

/// What a unit stands for, in bytes.
const UNITS: [(&str, u64); 9] = [
    ("B", 1),
    ("kB", 1000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
    ("TB", 1_000_000_000_000),
    ("TiB", 1 << 40),
];

/// Less than this would not hold the policies of a small machine.
const LEAST_QUOTA: u64 = 1 << 20;

/// A number and its unit, in bytes.
fn size(text: &str) -> Result<u64, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: u64 = text[..text.len() - unit.len()]
        .parse()
        .map_err(|_| "a size is a number and a unit: 512MiB, 1GiB, 2GB".to_owned())?;
    let known = UNITS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit));
    match known {
        Some((_, each)) => number
            .checked_mul(*each)
            .ok_or_else(|| "larger than any disk".to_owned()),
        None if unit.is_empty() => Err(format!("{number} what? 512MiB, 1GiB, 2GB")),
        None => Err(format!("unknown unit `{unit}`: 512MiB, 1GiB, 2GB")),
    }
}

/// What a store may take of the disk.
pub(super) fn quota(text: &str) -> Result<u64, String> {
    let size = size(text)?;
    if size < LEAST_QUOTA {
        return Err("at least 1MiB: less would not hold the policies in force".to_owned());
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_unit() {
        for (text, expected) in [
            ("0B", Some(0)),
            ("512MiB", Some(512 << 20)),
            ("1GiB", Some(1 << 30)),
            ("2GB", Some(2_000_000_000)),
            ("7kb", Some(7000)),
            ("16777215TiB", Some(16_777_215 << 40)),
            ("16777216TiB", None),
            ("1", None),
            ("GiB", None),
            ("-1GiB", None),
            ("1.5GiB", None),
            ("1 GiB", None),
            ("1XiB", None),
            ("", None),
        ] {
            assert_eq!(size(text).ok(), expected, "{text}");
        }
        assert!(quota("1023KiB").is_err());
        assert_eq!(quota("1MiB"), Ok(1 << 20));
        assert_eq!(quota("1GiB"), Ok(crate::store::DEFAULT_QUOTA));
    }
}
