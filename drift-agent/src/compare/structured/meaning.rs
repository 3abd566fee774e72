//! A declared content with what it says: read once, when it is declared, and compared with whatever is found.

use std::fmt;

use super::{Differences, EditError, Format, ParseError, Rules, Tree, compare, edit, parse};

/// What a declared content says, and what counts as the same.
#[derive(Clone)]
pub struct Meaning {
    tree: Tree,
    rules: Rules,
}

impl PartialEq for Meaning {
    fn eq(&self, other: &Self) -> bool {
        let one = |meaning: &Self| (meaning.tree.format, meaning.tree.marked);
        one(self) == one(other) && self.tree.text == other.tree.text && self.rules == other.rules
    }
}

impl Eq for Meaning {}

impl fmt::Debug for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The values may be secrets.
        write!(f, "Meaning({})", self.tree.format.name())
    }
}

/// What is to be said of a file beside what is declared of it.
#[derive(Debug)]
pub enum Verdict {
    /// The same, or different in nothing that counts.
    Same,
    /// Different; perhaps only in the way of writing ([`Differences::is_equivalent`]).
    Differs(Differences),
    /// What is there is not of the format: it cannot be as declared.
    Unparsable(ParseError),
}

impl Meaning {
    /// # Errors
    /// What is declared is not of the format.
    pub fn of(format: Format, rules: Rules, declared: &[u8]) -> Result<Self, ParseError> {
        let tree = parse(format, declared)?;
        Ok(Self { tree, rules })
    }

    #[must_use]
    pub fn format(&self) -> Format {
        self.tree.format
    }

    /// Whether all of the file is declared, and not only some of its keys.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.rules.manages_all()
    }

    /// What `observed` is beside it.
    #[must_use]
    pub fn verdict(&self, observed: &[u8]) -> Verdict {
        let found = match parse(self.tree.format, observed) {
            Ok(found) => found,
            Err(error) => return Verdict::Unparsable(error),
        };
        let differences = compare(&self.tree, &found, &self.rules);
        if differences.list.is_empty() {
            return Verdict::Same;
        }
        Verdict::Differs(differences)
    }

    /// `observed` with the managed keys as declared: see [`edit()`].
    ///
    /// # Errors
    /// Where that cannot be done with certainty.
    pub fn edit(&self, observed: &[u8]) -> Result<Vec<u8>, EditError> {
        edit(&self.tree, observed, &self.rules)
    }
}
