//! YAML text as events: the one way in for policies and for the YAML files that are compared.
//!
//! YAML 1.2. The parser is given text of unknown origin, and it takes in a whole `{…}` or `[…]` before it says what that is, at up to half a
//! kilobyte a mark of punctuation: so the marks are metered, and over [`MAX_MARKS`] the text ends with a [`Fault`].

mod meter;
mod schema;
mod syntax;

pub use saphyr_parser::{Event, Marker, ScalarStyle, Span, Tag};

use meter::{Meter, Metered};
use saphyr_parser::{Parser, ScanError};
pub use schema::{Value, resolve};
pub use syntax::{TAB_IN_TEXT, explain, is_unclosed};

/// Marks of punctuation read without coming to the end of a node, at most.
pub const MAX_MARKS: u32 = 200_000;

/// Why no more events come.
#[derive(Clone, Debug)]
pub enum Fault {
    /// A control character that YAML allows nowhere but as an escape, at this byte.
    Forbidden(char, usize),
    /// More than [`MAX_MARKS`] marks in one node.
    Marks(Span),
    /// What [`explain`] explains.
    Syntax(ScanError),
}

/// The events of a text, up to its end or its first [`Fault`].
pub struct Events<'s> {
    parser: Parser<'s, Metered<'s>>,
    meter: Meter,
    fault: Option<Fault>,
    over: bool,
}

impl<'s> Events<'s> {
    #[must_use]
    pub fn new(text: &'s str) -> Self {
        let meter = Meter::default();
        let forbidden = text
            .char_indices()
            .find(|(_, c)| syntax::is_forbidden(*c))
            .map(|(at, c)| Fault::Forbidden(c, at));
        Self {
            parser: Parser::new(Metered::new(text, meter.clone())),
            meter,
            fault: forbidden,
            over: false,
        }
    }

    fn fail<T>(&mut self, fault: Fault) -> Option<Result<T, Fault>> {
        self.over = true;
        Some(Err(fault))
    }
}

impl<'s> Iterator for Events<'s> {
    type Item = Result<(Event<'s>, Span), Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        if let Some(fault) = self.fault.take() {
            return self.fail(fault);
        }
        let event = self.parser.next()?;
        if self.meter.is_over() {
            let span = match event {
                Ok((_, span)) => span,
                Err(error) => Span::empty(*error.marker()),
            };
            return self.fail(Fault::Marks(span));
        }
        self.meter.reset();
        match event {
            Ok(event) => Some(Ok(event)),
            Err(error) => self.fail(Fault::Syntax(error)),
        }
    }
}

impl std::fmt::Debug for Events<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The text may hold secrets.
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

/// The tag as people write it: `!!str`, `!mine`, or in full.
#[must_use]
pub fn tag_name(tag: &Tag) -> String {
    let full = format!("{}{}", tag.handle, tag.suffix);
    match full.strip_prefix("tag:yaml.org,2002:") {
        Some(name) => format!("!!{name}"),
        None => full,
    }
}
