//! A bound for what the YAML parser takes in before it says anything.

use std::{cell::Cell, rc::Rc};

use saphyr_parser::{Input, StrInput, input::SkipTabs};

use super::MAX_MARKS;

/// How many marks of punctuation went in since the last event.
#[derive(Clone, Debug, Default)]
pub(super) struct Meter(Rc<Cell<u32>>);

impl Meter {
    /// An event came out.
    pub(super) fn reset(&self) {
        self.0.set(0);
    }

    /// Whether the text was ended early.
    pub(super) fn is_over(&self) -> bool {
        self.0.get() > MAX_MARKS
    }
}

/// The text of a file, which ends early where [`MAX_MARKS`] is reached. Every token but a scalar begins with one of the marks, and two
/// scalars have a mark between them, so the tokens the parser holds are bounded too.
pub(super) struct Metered<'s> {
    text: StrInput<'s>,
    meter: Meter,
}

impl<'s> Metered<'s> {
    pub(super) fn new(text: &'s str, meter: Meter) -> Self {
        let text = StrInput::new(text);
        Self { text, meter }
    }
}

impl Input for Metered<'_> {
    fn skip(&mut self) {
        if matches!(
            self.text.peek(),
            ',' | '[' | ']' | '{' | '}' | ':' | '?' | '&' | '*' | '!'
        ) {
            self.meter.0.set(self.meter.0.get().saturating_add(1));
            if self.meter.is_over() {
                self.text = StrInput::new("");
            }
        }
        self.text.skip();
    }

    fn lookahead(&mut self, count: usize) {
        self.text.lookahead(count);
    }

    fn buflen(&self) -> usize {
        self.text.buflen()
    }

    fn bufmaxlen(&self) -> usize {
        self.text.bufmaxlen()
    }

    fn raw_read_ch(&mut self) -> char {
        self.text.raw_read_ch()
    }

    fn raw_read_non_breakz_ch(&mut self) -> Option<char> {
        self.text.raw_read_non_breakz_ch()
    }

    fn skip_n(&mut self, count: usize) {
        self.text.skip_n(count);
    }

    fn peek(&self) -> char {
        self.text.peek()
    }

    fn peek_nth(&self, n: usize) -> char {
        self.text.peek_nth(n)
    }

    fn peek_opt(&self) -> Option<char> {
        self.text.peek_opt()
    }

    // The rest has defaults made of the above. These are what comments and blanks go through, whose marks do not count.

    fn skip_ws_to_eol(&mut self, skip_tabs: SkipTabs) -> (usize, Result<SkipTabs, &'static str>) {
        self.text.skip_ws_to_eol(skip_tabs)
    }

    fn skip_while_non_breakz(&mut self) -> usize {
        self.text.skip_while_non_breakz()
    }
}
