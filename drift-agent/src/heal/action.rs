//! What healing would do, as data.

use std::ffi::OsString;

use crate::declare::{Declared, Target};

/// One action on one declared path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put a new file, link or directory as declared in place of whatever stands there.
    Replace,
    /// Put the managed keys of the file that stands there to their declared values, and set its attributes.
    Edit,
    /// What it is and holds is right: set owner, mode and other attributes on what is there. A file that may have no other name, and has one, is replaced: what is
    /// there under that name is not ours to change.
    Attributes,
    /// Remove what stands there.
    Remove,
    /// Remove these names from the directory, and set its attributes.
    Clear(Vec<OsString>),
}

impl Action {
    /// A short name for it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Action::Replace => "replace",
            Action::Edit => "edit",
            Action::Attributes => "attributes",
            Action::Remove => "remove",
            Action::Clear(_) => "clear",
        }
    }

    /// What it comes to at a path, as a person would say it.
    #[must_use]
    pub fn words(&self, declared: &Declared) -> String {
        match (self, &declared.target) {
            (Action::Replace | Action::Edit, target) if target.is_in_place() => {
                "write what is declared beside the file and sync it, then into the file that is there, and read it back; a new file where there is none"
                    .to_owned()
            }
            (Action::Replace, Target::File(content)) => {
                let bytes = content.size.map(|size| format!(" of {size} bytes"));
                format!(
                    "write a new file{}, sync it, read it back, and put it in the place of what is there",
                    bytes.unwrap_or_default()
                )
            }
            (Action::Replace, Target::Symlink(_)) => {
                "make a new link, and put it in the place of what is there".to_owned()
            }
            (Action::Replace, Target::Directory(_)) => {
                "make a new directory, and put it in the place of what is there".to_owned()
            }
            (Action::Edit, _) => {
                "write a new file with the managed keys as declared and every other byte as it is, sync it, read it back, and put it in the place of what is there"
                    .to_owned()
            }
            (Action::Attributes, _) => "set its attributes, and leave what it holds".to_owned(),
            (Action::Remove, _) | (Action::Replace, Target::Absent) => {
                "remove what is there; a directory only when it is empty".to_owned()
            }
            (Action::Clear(names), _) => format!(
                "remove {} of what is in it, directories only when they are empty",
                match names.len() {
                    1 => "one name".to_owned(),
                    count => format!("{count} names"),
                }
            ),
        }
    }
}
