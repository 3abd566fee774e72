//! Drifts -> an action. Pure.

use crate::compare::Drift;

use super::action::Action;

/// Why a drift cannot be put back by writing to its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impossible {
    /// Something stands in the way of the path: what would be written would land elsewhere.
    Relocated,
    /// What is there cannot be read, so what would be lost cannot be told.
    Unreadable,
    /// Somebody is still writing.
    Unstable,
}

impl Impossible {
    /// A closed set, for records.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Impossible::Relocated => "relocated",
            Impossible::Unreadable => "unreadable",
            Impossible::Unstable => "unstable",
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Impossible::Relocated => {
                "a symbolic link, or something that is no directory, stands in the way of the declared path: writing would land elsewhere. Put the directory back, or declare the path that it leads to"
            }
            Impossible::Unreadable => {
                "the file is there and cannot be read: see the agent's permissions and the disk"
            }
            Impossible::Unstable => {
                "the file is being written without a pause: it is looked at again"
            }
        }
    }
}

/// What would put the declared state back. `drifts` is not empty.
pub fn plan(drifts: &[Drift]) -> Result<Action, Impossible> {
    let mut action = Action::Attributes;
    for drift in drifts {
        match drift {
            Drift::Relocated => return Err(Impossible::Relocated),
            Drift::Unreadable => return Err(Impossible::Unreadable),
            Drift::Unstable => return Err(Impossible::Unstable),
            Drift::Content | Drift::Missing | Drift::Type => action = Action::Replace,
            Drift::Mode | Drift::Owner => {}
        }
    }
    Ok(action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_set_in_place_and_all_else_is_replaced() {
        for (drifts, expected) in [
            (&[Drift::Mode][..], Ok(Action::Attributes)),
            (&[Drift::Mode, Drift::Owner], Ok(Action::Attributes)),
            (&[Drift::Content], Ok(Action::Replace)),
            (&[Drift::Content, Drift::Mode], Ok(Action::Replace)),
            (&[Drift::Missing], Ok(Action::Replace)),
            (&[Drift::Type], Ok(Action::Replace)),
            (&[Drift::Relocated], Err(Impossible::Relocated)),
            (&[Drift::Unreadable], Err(Impossible::Unreadable)),
            (&[Drift::Unstable], Err(Impossible::Unstable)),
        ] {
            assert_eq!(plan(drifts), expected, "{drifts:?}");
        }
    }
}
