//! What the rows look like. Nothing is wider than 100 columns; names are cut in the middle, where they say least.

/// Columns of a terminal that everybody has.
pub(super) const WIDTH: usize = 100;
pub(super) const WHAT_WIDTH: usize = 31;
const SEEN: usize = 7;
const BY: usize = 28; // the longest name and number of a process that are usual
const DRIFT: usize = 8;
const HEALED: usize = 7;
const VERIFIED: usize = 8;

const _: () = assert!(1 + WHAT_WIDTH + SEEN + BY + DRIFT + HEALED + VERIFIED + 5 * 2 <= WIDTH);

/// One drift.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) seen_ns: Option<u64>,
    pub(super) by: String,
    pub(super) drift: String,
    pub(super) heal_ns: Option<u64>,
    /// Why nobody is named.
    pub(super) unknown: Option<String>,
    pub(super) skipped: bool,
    /// Empty: everything is as it should be.
    pub(super) complaints: Vec<String>,
}

impl Row {
    pub(super) fn skipped(what: &str, reason: String) -> Row {
        Row {
            what: what.to_owned(),
            skipped: true,
            complaints: vec![],
            unknown: Some(reason),
            ..Row::default()
        }
    }

    pub(super) fn failed(what: &str, reason: String) -> Row {
        Row {
            what: what.to_owned(),
            by: "-".to_owned(),
            complaints: vec![reason],
            ..Row::default()
        }
    }
}

pub(super) fn heading() -> String {
    line(["what was done", "seen", "by", "drift", "healed", "verified"])
}

fn line(cells: [&str; 6]) -> String {
    let widths = [WHAT_WIDTH, SEEN, BY, DRIFT, HEALED, VERIFIED];
    let mut text = String::from(" ");
    for (cell, width) in cells.into_iter().zip(widths) {
        let cell = cut(cell, width);
        let padding = width - cell.chars().count() + 2;
        text.push_str(&cell);
        text.extend(std::iter::repeat_n(' ', padding));
    }
    text.trim_end().to_owned()
}

/// How a row is printed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) colour: bool,
}

impl Style {
    /// The row's line, and one more for each thing that is wrong.
    pub(super) fn lines(self, row: &Row) -> Vec<String> {
        if row.skipped {
            let reason = row.unknown.as_deref().unwrap_or_default();
            let indent = WHAT_WIDTH + 3;
            let mut lines = wrap(&format!("skipped: {reason}"), WIDTH - indent, "  ");
            for (index, line) in lines.iter_mut().enumerate() {
                let what = if index == 0 { &*row.what } else { "" };
                *line = format!(" {what:<WHAT_WIDTH$}  {line}");
            }
            return lines;
        }
        let or_dash = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), time);
        let good = row.complaints.is_empty();
        let verified = if good { "yes" } else { "NO" };
        let mut text = line([
            &row.what,
            &or_dash(row.seen_ns),
            &row.by,
            &row.drift,
            &or_dash(row.heal_ns),
            verified,
        ]);
        if self.colour {
            // The word says it too.
            text.truncate(text.len() - verified.len());
            let code = if good { 32 } else { 31 };
            text.push_str(&format!("\u{1b}[{code}m{verified}\u{1b}[0m"));
        }
        let mut lines = vec![text];
        for complaint in &row.complaints {
            lines.extend(wrap(&format!("     {complaint}"), WIDTH, "       "));
        }
        lines
    }
}

/// `text` with its middle left out when it is longer than `width`.
fn cut(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let keep = width.saturating_sub(1);
    let tail = keep / 2;
    let head = keep - tail;
    let head: String = text.chars().take(head).collect();
    let tail: String = text.chars().skip(count - tail).collect();
    format!("{head}…{tail}")
}

/// Lines of at most `width`, broken between words; those after the first begin with `indent`. A longer word keeps its line to itself: a path
/// that is broken cannot be copied.
pub(super) fn wrap(text: &str, width: usize, indent: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let lead: String = paragraph.chars().take_while(|c| *c == ' ').collect();
        if paragraph.chars().count() <= width {
            lines.push(paragraph.to_owned());
            continue;
        }
        let mut line = lead;
        let mut empty = true;
        for word in paragraph.split_whitespace() {
            if !empty && line.chars().count() + 1 + word.chars().count() > width {
                lines.push(std::mem::replace(&mut line, indent.to_owned()));
                empty = true;
            }
            if !empty {
                line.push(' ');
            }
            line.push_str(word);
            empty = false;
        }
        lines.push(line);
    }
    lines
}

/// Nanoseconds so that two of them can be compared at a glance.
pub(super) fn time(ns: u64) -> String {
    // Exact enough for a screen: an f64 holds 104 days of nanoseconds.
    #[expect(clippy::cast_precision_loss, reason = "a screen shows two digits")]
    let ms = ns as f64 / 1e6;
    if ms < 0.05 {
        "<0.1 ms".to_owned()
    } else if ms < 99.95 {
        format!("{ms:.1} ms")
    } else if ms < 999.5 {
        format!("{ms:.0} ms")
    } else {
        format!("{:.1} s", ms / 1e3)
    }
}

/// The middle one; of an even number the higher of the two in the middle.
pub(super) fn median(values: &[u64]) -> Option<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

/// `6.18` of `6.18.44-cloud-amd64`.
pub(super) fn major_minor(release: &str) -> String {
    release
        .trim()
        .split('.')
        .take(2)
        .collect::<Vec<_>>()
        .join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            what: "sed -i s/80/81/ app.conf".to_owned(),
            seen_ns: Some(1_310_000),
            by: "sed (pid 4127, root)".to_owned(),
            drift: "content".to_owned(),
            heal_ns: Some(1_100_000),
            ..Row::default()
        }
    }

    #[test]
    fn a_row_stands_below_its_heading() {
        let plain = Style { colour: false };
        assert_eq!(
            format!("{}\n{}", heading(), plain.lines(&row()).join("\n")),
            " what was done                    seen     by                            drift     healed   verified\n\
            \x20sed -i s/80/81/ app.conf         1.3 ms   sed (pid 4127, root)          content   1.1 ms   yes"
        );
    }

    #[test]
    fn nothing_is_wider_than_the_terminal() {
        let plain = Style { colour: false };
        let long = Row {
            what: "w".repeat(200),
            by: "b".repeat(200),
            drift: "d".repeat(200),
            seen_ns: Some(u64::from(u32::MAX) * 100),
            heal_ns: Some(99_940_000),
            complaints: vec!["word ".repeat(60)],
            ..Row::default()
        };
        let skipped = Row::skipped("chown", "because ".repeat(30));
        for line in [plain.lines(&long), plain.lines(&skipped), vec![heading()]].concat() {
            assert!(line.chars().count() <= WIDTH, "{}: {line}", line.len());
        }
    }

    #[test]
    fn colour_only_adds_to_the_words() {
        let coloured = Style { colour: true }.lines(&row()).join("\n");
        let plain = Style { colour: false }.lines(&row()).join("\n");
        assert_ne!(coloured, plain);
        let stripped = coloured.replace("\u{1b}[32m", "").replace("\u{1b}[0m", "");
        assert_eq!(stripped, plain);
    }

    #[test]
    fn names_are_cut_in_the_middle() {
        assert_eq!(cut("abcdefgh", 8), "abcdefgh");
        assert_eq!(cut("abcdefghi", 8), "abcd…ghi");
        assert_eq!(cut("ééééééééé", 4), "éé…é");
    }

    #[test]
    fn times_can_be_compared() {
        let shown: Vec<_> = [0, 49_000, 1_340_000, 99_900_000, 412_000_000, 1_250_000_000]
            .map(time)
            .into();
        assert_eq!(
            shown,
            ["<0.1 ms", "<0.1 ms", "1.3 ms", "99.9 ms", "412 ms", "1.2 s"]
        );
        assert_eq!(median(&[3, 1, 2]), Some(2));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn text_is_wrapped_between_words() {
        assert_eq!(wrap("  aa bb cc", 6, "    "), ["  aa", "    bb", "    cc"]);
        assert_eq!(wrap("short", 6, "  "), ["short"]);
        assert_eq!(
            wrap("/a/very/long/path b", 6, "  "),
            ["/a/very/long/path", "  b"]
        );
    }

    #[test]
    fn the_kernel_is_named_by_its_release() {
        assert_eq!(major_minor("6.18.44-fc\n"), "6.18");
        assert_eq!(major_minor("7"), "7");
    }
}
