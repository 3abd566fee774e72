//! Text that came from files, names and processes, made safe to show.
//!
//! A path may hold a new line, a comment may turn the direction of writing around, a name may move the cursor: whatever can make a
//! terminal or a reader see something else than what is there is replaced by an escape. Nothing is dropped.

use std::{fmt, os::unix::ffi::OsStrExt, path::Path};

/// Whether `c`, shown as it is, can hide or reorder what stands around it: control characters, marks of writing direction, characters
/// without a width, separators that some programs take for a line's end.
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// How `c` is shown: itself, `\xNN` for a control character of ASCII, `\u{…}` for the other deceptive ones.
pub(crate) fn write_char(c: char, out: &mut impl fmt::Write) -> fmt::Result {
    match c {
        c if !is_deceptive(c) => out.write_char(c),
        c if c.is_ascii() => write!(out, "\\x{:02x}", u32::from(c)),
        c => write!(out, "\\u{{{:x}}}", u32::from(c)),
    }
}

/// `text`, safe to show.
pub fn text(text: &str) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| text.chars().try_for_each(|c| write_char(c, f)))
}

/// `path`, safe to show: bytes that are not UTF-8 are shown as `\xNN`.
pub fn path(path: &Path) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| {
        for chunk in path.as_os_str().as_bytes().utf8_chunks() {
            write!(f, "{}", text(chunk.valid()))?;
            chunk
                .invalid()
                .iter()
                .try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        Ok(())
    })
}

/// More characters than this of a name are not shown.
const NAME_SHOWN: usize = 60;

/// `name` in backquotes, safe to show, and cut in the middle when it is long: both ends of a name say more than its middle.
pub fn name(name: &str) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| {
        let count = name.chars().count();
        if count <= NAME_SHOWN {
            return write!(f, "`{}`", text(name));
        }
        let half = NAME_SHOWN / 2;
        let at = |n: usize| name.char_indices().nth(n).map_or(name.len(), |(at, _)| at);
        let (start, end) = (&name[..at(half)], &name[at(count - half)..]);
        write!(f, "`{}…{}`", text(start), text(end))
    })
}

/// `path` as [`name`] shows a name.
pub fn path_name(path: &Path) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| {
        let shown = self::path(path).to_string();
        write!(f, "{}", name(&shown))
    })
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

    #[test]
    fn what_can_deceive_is_escaped_and_the_rest_is_not() {
        let shown = super::text("ä 配 \u{1b}[31m \u{202e}dcba \u{200b} \u{2028} \u{85} \x7f \t")
            .to_string();
        assert_eq!(
            shown,
            r"ä 配 \x1b[31m \u{202e}dcba \u{200b} \u{2028} \u{85} \x7f \x09"
        );
    }

    #[test]
    fn a_path_shows_its_bytes() {
        let path = Path::new(OsStr::from_bytes(b"/etc/caf\xe9\n.conf"));
        assert_eq!(super::path(path).to_string(), r"/etc/caf\xe9\x0a.conf");
    }

    #[test]
    fn a_long_name_is_cut_in_the_middle() {
        let name = format!("{}{}", "a".repeat(500), "é".repeat(500));
        assert_eq!(
            super::name(&name).to_string(),
            format!("`{}…{}`", "a".repeat(30), "é".repeat(30))
        );
        assert_eq!(super::name("mode").to_string(), "`mode`");
    }
}
