//! Places in a tree: JSON pointers, and patterns that stand for many of them.

use std::{fmt, sync::Arc};

use drift_common::escape;

/// One step into a tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Token {
    Key(Arc<str>),
    Index(usize),
    /// Which of several that have the same key. In a pattern it may be left out.
    Repeat(usize),
}

/// Where a value stands: `/spec/ports/0/name` (RFC 6901: `~1` is a slash in a key, `~0` a tilde). The whole of a document is the empty
/// pointer. Where a file has several documents, `#1/spec` is in the second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pointer {
    pub(super) document: Option<usize>,
    pub(super) tokens: Vec<Token>,
}

impl Pointer {
    #[must_use]
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// As [`fmt::Display`] shows it, with dots instead of slashes where no key has one: `tls.password`, as people say it.
    #[must_use]
    pub fn dotted(&self) -> String {
        let plain = |token: &Token| match token {
            Token::Key(key) => !key.is_empty() && !key.contains(['.', '/', '~', ' ']),
            Token::Index(_) | Token::Repeat(_) => true,
        };
        if self.tokens.is_empty() || !self.tokens.iter().all(plain) {
            return self.to_string();
        }
        let document = self.document.map(|document| format!("#{document} "));
        let shown = self.to_string();
        let path = shown.split_once('/').map_or("", |(_, path)| path);
        format!("{}{}", document.unwrap_or_default(), path.replace('/', "."))
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(document) = self.document {
            write!(f, "#{document}")?;
        }
        for token in &self.tokens {
            match token {
                Token::Key(key) => {
                    let key = key.replace('~', "~0").replace('/', "~1");
                    write!(f, "/{}", escape::text(&key))?;
                }
                Token::Index(index) | Token::Repeat(index) => write!(f, "/{index}")?,
            }
        }
        Ok(())
    }
}

/// A pattern that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error(
        "a pointer begins with `/`, as in `/spec/replicas`, or with the number of a document, as in `#0/spec`"
    )]
    Start,
    #[error("a `~` in a pointer is written `~0`, a `/` within a key `~1`")]
    Tilde,
    #[error("more than {MAX_SEGMENTS} keys in one pointer")]
    Long,
}

impl PatternError {
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            PatternError::Start => "pointer-start",
            PatternError::Tilde => "pointer-tilde",
            PatternError::Long => "pointer-long",
        }
    }
}

/// Deeper than any tree.
const MAX_SEGMENTS: usize = 200;

/// A pointer whose keys may be `*` (any one), `**` (any number, also none) or have `*` in them (any characters).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    document: Option<usize>,
    segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Key(String),
    /// What stands between the `*`s.
    Glob(Vec<String>),
    Any,
    Deep,
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Self, PatternError> {
        let (document, path) = match text.strip_prefix('#') {
            Some(rest) => {
                let (number, _) = rest.split_once('/').unwrap_or((rest, ""));
                let document = number.parse().map_err(|_| PatternError::Start)?;
                (Some(document), &rest[number.len()..])
            }
            None => (None, text),
        };
        if path.is_empty() {
            return Ok(Self {
                document,
                segments: Vec::new(),
            });
        }
        let path = path.strip_prefix('/').ok_or(PatternError::Start)?;
        let segments = path
            .split('/')
            .map(segment)
            .collect::<Result<Vec<_>, _>>()?;
        if segments.len() > MAX_SEGMENTS {
            return Err(PatternError::Long);
        }
        Ok(Self { document, segments })
    }
}

fn segment(text: &str) -> Result<Segment, PatternError> {
    let key = |text: &str| {
        let mut key = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('~') {
            key.push_str(before);
            key.push(match after.as_bytes().first() {
                Some(b'0') => '~',
                Some(b'1') => '/',
                _ => return Err(PatternError::Tilde),
            });
            rest = &after[1..];
        }
        key.push_str(rest);
        Ok(key)
    };
    Ok(match text {
        "*" => Segment::Any,
        "**" => Segment::Deep,
        text if text.contains('*') => {
            Segment::Glob(text.split('*').map(key).collect::<Result<_, _>>()?)
        }
        text => Segment::Key(key(text)?),
    })
}

impl Segment {
    fn fits(&self, token: &Token, any_case: bool) -> bool {
        let number;
        let text: &str = match token {
            Token::Key(key) => key,
            Token::Index(index) | Token::Repeat(index) => {
                number = index.to_string();
                &number
            }
        };
        match self {
            Segment::Any | Segment::Deep => true,
            Segment::Key(key) if any_case => key.to_lowercase() == text.to_lowercase(),
            Segment::Key(key) => key == text,
            Segment::Glob(pieces) if any_case => {
                let pieces: Vec<_> = pieces.iter().map(|piece| piece.to_lowercase()).collect();
                glob(&pieces, &text.to_lowercase())
            }
            Segment::Glob(pieces) => glob(pieces, text),
        }
    }
}

/// Whether `text` is the `pieces` with anything between them. Takes the first place each piece fits, which is enough.
fn glob(pieces: &[String], text: &str) -> bool {
    let [first, middle @ .., last] = pieces else {
        return false;
    };
    let Some(mut rest) = text.strip_prefix(first.as_str()) else {
        return false;
    };
    for piece in middle {
        let Some(at) = rest.find(piece.as_str()) else {
            return false;
        };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last.as_str())
}

/// Patterns, and how a walk through a tree stands to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Patterns(Vec<Pattern>);

/// Which patterns may still fit, and how much of them has: (pattern, segments done).
#[derive(Clone, Debug, Default)]
pub(super) struct Cursor(Vec<(u32, u32)>);

impl Patterns {
    pub(super) fn push(&mut self, pattern: Pattern) {
        self.0.push(pattern);
    }

    pub(super) fn start(&self, document: usize) -> Cursor {
        let mut cursor = Cursor::default();
        for (number, pattern) in (0..).zip(&self.0) {
            if pattern.document.is_none_or(|only| only == document) {
                self.add(&mut cursor, number, 0);
            }
        }
        cursor
    }

    pub(super) fn step(&self, from: &Cursor, token: &Token, any_case: bool) -> Cursor {
        // The number among equals may be left out of a pattern.
        let mut cursor = match token {
            Token::Repeat(_) => from.clone(),
            Token::Key(_) | Token::Index(_) => Cursor::default(),
        };
        for (number, done) in &from.0 {
            match self.segment(*number, *done) {
                Some(Segment::Deep) => self.add(&mut cursor, *number, *done),
                Some(segment) if segment.fits(token, any_case) => {
                    self.add(&mut cursor, *number, done + 1);
                }
                Some(_) | None => {}
            }
        }
        cursor
    }

    /// A step to the only value of a key that could stand several times: what a pattern says of the first (`/Match/0/X`), or of each
    /// (`/Peer/*/X`), is said of it too. Where `is_scalar` is not true, its own keys are below, and the last segment of a pattern is one of them.
    pub(super) fn only(&self, from: &Cursor, is_scalar: bool) -> Cursor {
        let mut cursor = from.clone();
        for (number, done) in &from.0 {
            let is_number = match self.segment(*number, *done) {
                Some(Segment::Key(key)) => key == "0",
                Some(Segment::Any) => true,
                Some(Segment::Glob(_) | Segment::Deep) | None => false,
            };
            if is_number && (is_scalar || self.segment(*number, done + 1).is_some()) {
                self.add(&mut cursor, *number, done + 1);
            }
        }
        cursor
    }

    /// The first pattern that fits here, as a number in the order they were given.
    pub(super) fn hit(&self, cursor: &Cursor) -> Option<usize> {
        let done = |(number, done): &&(u32, u32)| self.segment(*number, *done).is_none();
        let hits = cursor.0.iter().filter(done);
        hits.map(|(number, _)| *number as usize).min()
    }

    fn segment(&self, number: u32, done: u32) -> Option<&Segment> {
        self.0.get(number as usize)?.segments.get(done as usize)
    }

    fn add(&self, cursor: &mut Cursor, number: u32, done: u32) {
        if cursor.0.contains(&(number, done)) {
            return;
        }
        cursor.0.push((number, done));
        if matches!(self.segment(number, done), Some(Segment::Deep)) {
            self.add(cursor, number, done + 1);
        }
    }
}

impl Cursor {
    /// No pattern fits this or anything below.
    pub(super) fn is_lost(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Token {
        match text.strip_prefix('@') {
            Some(index) => Token::Repeat(index.parse().expect("a number")),
            None => text
                .parse()
                .map_or_else(|_| Token::Key(text.into()), Token::Index),
        }
    }

    #[track_caller]
    fn check(pattern: &str, path: &[&str], fits: bool) {
        let mut patterns = Patterns::default();
        patterns.push(Pattern::parse(pattern).expect("a pattern"));
        let mut cursor = patterns.start(0);
        for step in path {
            cursor = patterns.step(&cursor, &token(step), false);
        }
        assert_eq!(patterns.hit(&cursor).is_some(), fits, "{pattern} {path:?}");
    }

    #[test]
    fn patterns_fit_what_they_say() {
        check("/a/b", &["a", "b"], true);
        check("/a/b", &["a"], false);
        check("/a/b", &["a", "b", "c"], false);
        check("/a/*/c", &["a", "7", "c"], true);
        check("/a/*/c", &["a", "c"], false);
        check("/a/**", &["a"], true);
        check("/a/**", &["a", "b", "c"], true);
        check("/a/**/z", &["a", "z"], true);
        check("/a/**/z", &["a", "b", "c", "z"], true);
        check("/**/status", &["spec", "0", "status"], true);
        check("/a/x*z", &["a", "xyz"], true);
        check("/a/x*z", &["a", "xyza"], false);
        check("/a/*-*-end", &["a", "1-2-3-end"], true);
        check("/a~1b/c~0d", &["a/b", "c~d"], true);
        check("", &[], true);
        check("/", &[""], true);
        check("#0/a", &["a"], true);
        check("#1/a", &["a"], false);
        check("/Peer/Key", &["Peer", "@1", "Key"], true);
        check("/Peer/1/Key", &["Peer", "@1", "Key"], true);
        check("/Peer/0/Key", &["Peer", "@1", "Key"], false);
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for (text, error) in [
            ("a/b", PatternError::Start),
            ("#x/a", PatternError::Start),
            ("/a~", PatternError::Tilde),
            ("/a~2", PatternError::Tilde),
            (&"/a".repeat(201), PatternError::Long),
        ] {
            assert_eq!(Pattern::parse(text).err(), Some(error), "{text}");
        }
    }

    #[test]
    fn a_pointer_is_shown_as_it_is_written_and_as_people_say_it() {
        let pointer = Pointer {
            document: None,
            tokens: vec![token("tls"), token("0"), token("password")],
        };
        assert_eq!(pointer.to_string(), "/tls/0/password");
        assert_eq!(pointer.dotted(), "tls.0.password");
        let pointer = Pointer {
            document: Some(1),
            tokens: vec![token("a/b~\u{1b}")],
        };
        assert_eq!(pointer.to_string(), r"#1/a~1b~0\x1b");
        assert_eq!(pointer.dotted(), r"#1/a~1b~0\x1b");
    }
}
