//! Drifts -> an action. Pure.

use crate::{
    compare::Drift,
    declare::{Declared, Target},
    observe::Found,
};

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
                "a symbolic link that is not as declared, or something that is no directory, stands in the way of the declared path, or something is mounted over it, or, in a pod, no directory of the host is mounted there: writing would land elsewhere. Put the directory or the declared link back, unmount what hides it, or declare the path that it leads to, or the link (`through`)"
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

/// The drifts that the policy wants to be put back, and that can be: what nobody declared in a directory stays there unless it says otherwise, what says what is
/// declared is as good as it, other names of a file stay, and attributes that the file system does not have are `out_of_reach`.
#[must_use]
pub fn healable(declared: &Declared, drifts: &[Drift], out_of_reach: bool) -> Vec<Drift> {
    let reports = match &declared.target {
        Target::Directory(Some(exhaustive)) => !exhaustive.removes,
        Target::Directory(None) | Target::File(_) | Target::Symlink(_) | Target::Absent => false,
    };
    let kept = |drift: &Drift| match drift {
        Drift::Unexpected => !reports,
        // It says what is declared: whoever wants these very bytes compares them.
        Drift::ContentEquivalent => false,
        // Nobody says which of the names is the one too many.
        Drift::Hardlinked => false,
        Drift::Xattr => !out_of_reach,
        _ => true,
    };
    drifts.iter().copied().filter(kept).collect()
}

/// What would put the declared state back, where `found` stands. `drifts` is not empty.
pub fn plan(declared: &Declared, drifts: &[Drift], found: &Found) -> Result<Action, Impossible> {
    let is_shared = matches!(&declared.target, Target::File(content) if !content.is_whole());
    let mut action = Action::Attributes;
    for drift in drifts {
        match drift {
            Drift::Relocated => return Err(Impossible::Relocated),
            Drift::Unreadable => return Err(Impossible::Unreadable),
            Drift::Unstable => return Err(Impossible::Unstable),
            Drift::Content if is_shared => action = Action::Edit,
            Drift::Content | Drift::Missing | Drift::Type | Drift::LinkTarget => {
                action = Action::Replace;
            }
            Drift::Unexpected => {
                action = match found {
                    Found::Directory(unexpected) => Action::Clear(unexpected.names.clone()),
                    Found::Absent
                    | Found::Relocated
                    | Found::Unreadable(_)
                    | Found::Unstable
                    | Found::Link(_)
                    | Found::Other(_)
                    | Found::File(_) => Action::Remove,
                };
            }
            Drift::ContentEquivalent
            | Drift::Mode
            | Drift::Owner
            | Drift::Xattr
            | Drift::Hardlinked => {}
        }
    }
    Ok(action)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        declare::{Exhaustive, sample},
        observe::Unexpected,
        report::FileType,
    };

    #[test]
    fn attributes_are_set_in_place_and_all_else_is_replaced() {
        let exact = sample::declared("/etc/f", sample::file(b"x"));
        for (drifts, expected) in [
            (&[Drift::Mode][..], Ok(Action::Attributes)),
            (&[Drift::Mode, Drift::Owner], Ok(Action::Attributes)),
            (&[Drift::Xattr], Ok(Action::Attributes)),
            (&[Drift::Content], Ok(Action::Replace)),
            (&[Drift::Content, Drift::Mode], Ok(Action::Replace)),
            (&[Drift::LinkTarget, Drift::Owner], Ok(Action::Replace)),
            (&[Drift::Unexpected], Ok(Action::Remove)),
            (&[Drift::Missing], Ok(Action::Replace)),
            (&[Drift::Type], Ok(Action::Replace)),
            (&[Drift::Relocated], Err(Impossible::Relocated)),
            (&[Drift::Unreadable], Err(Impossible::Unreadable)),
            (&[Drift::Unstable], Err(Impossible::Unstable)),
        ] {
            assert_eq!(
                plan(&exact, drifts, &Found::Other(FileType::File)),
                expected,
                "{drifts:?}"
            );
        }
    }

    #[test]
    fn what_nobody_declared_is_removed_only_when_that_is_said() {
        let directory = |removes| {
            let exhaustive = Exhaustive {
                removes,
                ..Exhaustive::default()
            };
            sample::declared("/etc/d", Target::Directory(Some(exhaustive)))
        };
        let drifts = [Drift::Unexpected, Drift::Mode];
        assert_eq!(healable(&directory(true), &drifts, false), drifts);
        assert_eq!(healable(&directory(false), &drifts, false), [Drift::Mode]);
        let absent = sample::declared("/etc/a", Target::Absent);
        assert_eq!(healable(&absent, &drifts, false), drifts);
        let drifts = [Drift::Mode, Drift::Xattr];
        assert_eq!(healable(&absent, &drifts, true), [Drift::Mode]);
        assert_eq!(healable(&absent, &drifts, false), drifts);
        let drifts = [Drift::Unexpected, Drift::Mode];

        let names = vec!["x".into()];
        let found = Found::Directory(Unexpected {
            names: names.clone(),
            count: 1,
        });
        let declared = directory(true);
        assert_eq!(plan(&declared, &drifts, &found), Ok(Action::Clear(names)));
        assert_eq!(
            plan(&declared, &[Drift::Mode], &found),
            Ok(Action::Attributes)
        );
    }
}
