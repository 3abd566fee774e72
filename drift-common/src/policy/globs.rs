//! Patterns of names.

use std::{ffi::OsStr, fmt};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Characters of one pattern, at most.
const MAX_LENGTH: usize = 1024;

/// Patterns of names, as shells have them: `*.bak`, `.#*`, `[0-9]?`, `{a,b}`. `*` matches a leading dot too. Two are equal when their
/// patterns are.
#[derive(Clone, Default)]
pub struct Globs {
    patterns: Vec<String>,
    set: GlobSet,
}

impl Globs {
    /// # Errors
    /// Why one of them is no pattern, or why all together are too much.
    pub fn new(patterns: Vec<String>) -> Result<Self, String> {
        if patterns.iter().any(|pattern| pattern.contains('/')) {
            return Err("it matches no name in the directory".to_owned());
        }
        Self::of_paths(patterns)
    }

    /// Patterns of whole paths, in which only `**` and a `/` itself match a `/`.
    ///
    /// # Errors
    /// As [`Globs::new`].
    pub fn of_paths(patterns: Vec<String>) -> Result<Self, String> {
        let mut builder = GlobSetBuilder::new();
        for pattern in &patterns {
            if pattern.is_empty() {
                return Err("it matches no name in the directory".to_owned());
            }
            if pattern.len() > MAX_LENGTH {
                return Err("it is too long".to_owned());
            }
            let glob = GlobBuilder::new(pattern).literal_separator(true).build();
            builder.add(glob.map_err(|error| error.kind().to_string())?);
        }
        let set = builder.build().map_err(|error| error.kind().to_string())?;
        Ok(Self { patterns, set })
    }

    /// The pattern that matches just this name; `None` where there is none.
    #[must_use]
    pub fn literal(name: &OsStr) -> Option<String> {
        let mut pattern = String::new();
        for c in name.to_str()?.chars() {
            match c {
                '?' | '*' | '[' | ']' | '{' | '}' | '\\' => pattern.extend(['[', c, ']']),
                c => pattern.push(c),
            }
        }
        let globs = Self::new(vec![pattern]).ok()?;
        globs.matches(name).then(|| globs.patterns.concat())
    }

    #[must_use]
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// The first pattern that matches `name`.
    #[must_use]
    pub fn matching(&self, name: &OsStr) -> Option<&str> {
        let index = self.set.matches(name).into_iter().min()?;
        self.patterns.get(index).map(String::as_str)
    }

    #[must_use]
    pub fn matches(&self, name: &OsStr) -> bool {
        self.set.is_match(name)
    }
}

impl PartialEq for Globs {
    fn eq(&self, other: &Self) -> bool {
        self.patterns == other.patterns
    }
}

impl Eq for Globs {}

impl fmt::Debug for Globs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.patterns.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    use super::Globs;

    /// B073.
    #[test]
    fn any_name_in_utf8_has_its_pattern() {
        for name in [
            "a", "*", "?", "[", "]", "[a]", "{a,b}", "a\\", "\\*", "a\nb", "é", "!", "^", "-",
            "[!a]", ".#x", "a,b",
        ] {
            let pattern = Globs::literal(OsStr::new(name)).expect(name);
            let globs = Globs::new(vec![pattern]).expect(name);
            assert!(globs.matches(OsStr::new(name)), "{name}");
            for other in ["x", "ab", "b", "\\", ""] {
                assert!(
                    name == other || !globs.matches(OsStr::new(other)),
                    "{name} {other}"
                );
            }
        }
        assert_eq!(Globs::literal(OsStr::from_bytes(b"\xff")), None);
    }

    #[test]
    fn patterns_of_paths() {
        let globs = Globs::of_paths(vec!["/a/*.bak".into(), "/b/**".into()]).unwrap();
        for (path, matches) in [
            ("/a/x.bak", true),
            ("/a/b/x.bak", false),
            ("/b/c/d", true),
            ("/b", false),
        ] {
            assert_eq!(globs.matches(OsStr::new(path)), matches, "{path}");
        }
    }

    #[test]
    fn names_that_match() {
        #[track_caller]
        fn check(pattern: &str, name: &[u8], expected: bool) {
            let globs = Globs::new(vec![pattern.to_owned()]).unwrap();
            assert_eq!(
                globs.matches(OsStr::from_bytes(name)),
                expected,
                "{pattern}"
            );
        }
        check("*.bak", b"a.bak", true);
        check("*.bak", b".bak", true);
        check("*.bak", b"a.bak2", false);
        check("*", b".hidden", true);
        check("*", b"caf\xe9", true);
        check(".#*", b".#a", true);
        check("[0-9]?", b"1a", true);
        check("{a,b}.d", b"b.d", true);
        check("a", b"A", false);
    }

    #[test]
    fn patterns_that_cannot_be() {
        for pattern in ["", "a/b", "/a", "[", "{a", &"a".repeat(2000)] {
            let patterns = vec!["*.bak".to_owned(), pattern.to_owned()];
            assert!(Globs::new(patterns).is_err(), "{pattern}");
        }
    }
}
