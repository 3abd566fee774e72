//! Puts the managed keys of a file to their declared values, and leaves every other byte as it is.
//!
//! The edit is a list of pieces of text to replace, made from where the values stand. What comes out is read again and compared: with the
//! declaration in what is managed, with what was there in everything else. Where either differs (an anchor whose alias is elsewhere, a
//! comment that would change what follows), nothing is written: the caller gets an error, never a wrong file.

mod flow;
mod json;
mod lines;
mod plan;
mod render;
mod splice;
mod toml;
mod verify;
mod yaml;

use super::{Format, ParseError, Pointer, Rules, Tree, parse};
use plan::Change;
use splice::Splices;

/// Rounds until nothing is left to change: values and removals first, then additions, then what they made room for.
const ROUNDS: usize = 4;

/// Why a file was not edited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("no keys are declared as managed: the whole content is to be replaced")]
    NothingManaged,
    #[error("what is there is not of its format: {0}")]
    Observed(#[source] ParseError),
    #[error("{pointer} cannot be changed by itself: {why}")]
    Unsupported { pointer: Pointer, why: &'static str },
    /// What came out would not have said what was meant.
    #[error(
        "changing only the managed keys would change {0} too, or not have the effect that is declared"
    )]
    Unsound(Pointer),
}

impl EditError {
    /// A short name for records and metrics.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            EditError::NothingManaged => "nothing-managed",
            EditError::Observed(_) => "unparsable",
            EditError::Unsupported { .. } => "unsupported-edit",
            EditError::Unsound(_) => "unsound-edit",
        }
    }
}

/// `observed` with what `rules` manage as `declared` has it, and nothing else changed. What is equal under `rules` stays as it is.
///
/// # Errors
/// Where that cannot be done with certainty.
pub fn edit(declared: &Tree, observed: &[u8], rules: &Rules) -> Result<Vec<u8>, EditError> {
    if rules.manages_all() {
        return Err(EditError::NothingManaged);
    }
    let format = declared.format;
    let before = parse(format, observed).map_err(EditError::Observed)?;
    let mut now = before.clone();
    for _ in 0..ROUNDS {
        let changes = plan::plan(declared, &now, rules)?;
        if changes.is_empty() {
            break;
        }
        let text = apply(format, &now, &changes)?;
        now = Tree::of(format, &text, now.marked).map_err(|_| unsound(&changes))?;
    }
    verify::verify(declared, &before, &now, rules)?;
    let mark: &[u8] = if now.marked {
        "\u{feff}".as_bytes()
    } else {
        b""
    };
    Ok([mark, now.text.as_bytes()].concat())
}

fn apply(format: Format, tree: &Tree, changes: &[Change<'_>]) -> Result<String, EditError> {
    let text = &*tree.text;
    let mut splices = Splices::new(text);
    // What is added stands behind what is there: first that has to be right.
    let has_others = changes.iter().any(|change| !change.is_addition());
    for change in changes {
        if has_others && change.is_addition() {
            continue;
        }
        match format {
            Format::Yaml => yaml::apply(change, &mut splices),
            Format::Json | Format::Json5 => json::apply(change, &mut splices),
            Format::Toml => toml::apply(tree, change, &mut splices),
            Format::Ini | Format::Env | Format::KeyValue => {
                lines::apply(tree, change, &mut splices)
            }
        }?;
    }
    splices.finish().ok_or_else(|| unsound(changes))
}

fn unsound(changes: &[Change<'_>]) -> EditError {
    EditError::Unsound(changes.first().map(Change::pointer).unwrap_or_default())
}
