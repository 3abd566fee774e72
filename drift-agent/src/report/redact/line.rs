//! Lines of a text whose format nobody knows: what can be told of keys and secrets from the look of each line and of those before it.

use super::{MASK, Redact, Redactor, Why, detect, key, mask};

/// A key longer than this is no key.
const LONGEST_KEY: usize = 100;

/// What may stand before a key and its value at the beginning of a line, in lower case.
const BEFORE_KEY: [&str; 8] = [
    "export",
    "set",
    "setenv",
    "env",
    "enable",
    "proxy_set_header",
    "fastcgi_param",
    "add_header",
];

/// What is hidden in the lines to come.
#[derive(Default)]
enum Within {
    #[default]
    Nothing,
    /// Until the last line of a PEM block.
    Pem,
    /// As long as lines are indented further than this, or are items of a list that is indented as its key: the value of a secret key that
    /// begins on the next line.
    Indented(usize, bool),
    /// Until these quotes.
    Quotes(&'static str),
}

/// The lines of one text, in order.
pub(super) struct Lines<'r> {
    redactor: &'r Redactor,
    within: Within,
}

impl<'r> Lines<'r> {
    pub(super) fn new(redactor: &'r Redactor) -> Self {
        Self {
            redactor,
            within: Within::Nothing,
        }
    }

    /// `line` without its end, redacted and not yet escaped.
    pub(super) fn next(&mut self, line: &str) -> (String, Option<Why>) {
        let level = self.redactor.level;
        if level == Redact::All {
            let blank = line.trim().is_empty();
            let shown = if blank { "" } else { MASK };
            return (shown.to_owned(), (!blank).then_some(Why::All));
        }
        if level == Redact::Keys {
            match self.within {
                Within::Pem => {
                    let Some(end) = line.find("-----END ") else {
                        return self.hidden(line, 0, Why::Look);
                    };
                    self.within = Within::Nothing;
                    let (rest, _) = self.redactor.in_text(&line[end..]);
                    let before = if line[..end].trim().is_empty() {
                        ""
                    } else {
                        MASK
                    };
                    return (format!("{before}{rest}"), Some(Why::Look));
                }
                Within::Indented(..) if line.trim().is_empty() => {}
                Within::Indented(least, has_items)
                    if indentation(line) > least
                        || has_items
                            && indentation(line) == least
                            && line.trim_start().starts_with("- ") =>
                {
                    return self.hidden(line, indentation(line), Why::Key);
                }
                Within::Indented(..) => self.within = Within::Nothing,
                Within::Quotes(quotes) => {
                    if line.contains(quotes) {
                        self.within = Within::Nothing;
                    }
                    return self.hidden(line, 0, Why::Key);
                }
                Within::Nothing => {}
            }
            if line.contains("-----BEGIN ") && !line.contains("-----END ") {
                self.within = Within::Pem;
            }
            if let Some(value) = self.secret_value(line) {
                return self.after_key(line, value);
            }
        }
        let secrets = &self.redactor.secrets;
        if secrets.is_one(line) {
            return self.hidden(line, 0, Why::Secret);
        }
        if let Some(value) = value_start(line)
            && secrets.is_one(line[value..].trim_matches(['"', '\'', ' ', ',', ';']))
        {
            return self.hidden(line, value, Why::Secret);
        }
        let mut spans = secrets.within(line);
        let mut why = (!spans.is_empty()).then_some(Why::Secret);
        if level == Redact::Keys {
            let found = detect::spans(line);
            why = why.max((!found.is_empty()).then_some(Why::Look));
            spans.extend(found);
        }
        (mask(line, spans).into_owned(), why)
    }

    /// The line of a secret key whose value begins at byte `value`.
    fn after_key(&mut self, line: &str, value: usize) -> (String, Option<Why>) {
        let text = line[value..].trim();
        for quotes in ["\"\"\"", "'''"] {
            if text.starts_with(quotes) && !text[3..].contains(quotes) {
                self.within = Within::Quotes(quotes);
            }
        }
        // Also where something stands here already: values may go on below, and what is no value is seldom indented further.
        self.within = match self.within {
            Within::Nothing => Within::Indented(indentation(line), text.is_empty()),
            Within::Pem | Within::Indented(..) | Within::Quotes(_) => {
                std::mem::take(&mut self.within)
            }
        };
        if text.is_empty() || matches!(text, "|" | ">" | "|-" | ">-" | "|+" | ">+" | "{" | "[") {
            let why = (!text.is_empty()).then_some(Why::Key);
            return (self.redactor.in_text(line).0.into_owned(), why);
        }
        self.hidden(line, value, Why::Key)
    }

    /// `line` with all from byte `from` on hidden, and what is a secret before it.
    fn hidden(&self, line: &str, from: usize, why: Why) -> (String, Option<Why>) {
        let (before, _) = self.redactor.in_text(&line[..from]);
        (format!("{before}{MASK}"), Some(why))
    }

    /// Where the value of the first secret key of the line begins; it is taken to go to the line's end.
    fn secret_value(&self, line: &str) -> Option<usize> {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        let mut rest = 0;
        let mut is_first = true;
        let mut is_login = false;
        while let Some(start) = line[rest..].find(is_part).map(|at| rest + at) {
            let end = line[start..]
                .find(|c| !is_part(c))
                .map_or(line.len(), |at| start + at);
            rest = end;
            let word = &line[start..end];
            if is_first && BEFORE_KEY.contains(&word.to_ascii_lowercase().as_str()) {
                continue;
            }
            let (before, behind) = (&line[..start], &line[end..]);
            let unquoted = behind.strip_prefix(['"', '\'']).unwrap_or(behind);
            let bare = unquoted.trim_start();
            // `<key>value`, `define('KEY', 'value')`, `$a['key'] = 'value'`.
            let is_argument = before.ends_with("('") || before.ends_with("(\"");
            let separated = bare
                .strip_prefix(":=")
                .or_else(|| bare.strip_prefix(['=', ':']))
                .or_else(|| bare.strip_prefix('>').filter(|_| before.ends_with('<')))
                .or_else(|| bare.strip_prefix(',').filter(|_| is_argument))
                .or_else(|| bare.strip_prefix(']')?.trim_start().strip_prefix('='));
            is_login |= is_first && matches!(word, "machine" | "default" | "login");
            // `Key value` at the start of a line, `--key value` anywhere; in a `.netrc` all are on one line.
            let is_spaced = is_first || is_login || word.starts_with("--");
            let spaced = is_spaced && bare.len() < unquoted.len();
            let value = match separated {
                Some(value) => Some(value),
                None if spaced => Some(bare),
                None => None,
            };
            is_first = false;
            if let Some(value) = value
                && word.len() <= LONGEST_KEY
                && key::is_secret(word)
                && !self.redactor.allowed.contains(&word.to_lowercase())
            {
                return Some(line.len() - value.trim_start().len());
            }
        }
        None
    }
}

/// Where what follows the first `=` or `:` begins.
fn value_start(line: &str) -> Option<usize> {
    let at = line.find(['=', ':'])? + 1;
    Some(line.len() - line[at..].trim_start().len())
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}
