//! What differs from another tree: of each path whether it is the same there, and what is there alone.

use std::path::Path;

use drift_common::policy::{AbsentSpec, Severity};

use super::{Entry, Walk};
use crate::capture::base::Print;

impl Walk<'_> {
    /// The path from the root of the one tree that is compared with another.
    fn rest<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        self.wanted.against.as_ref()?;
        path.strip_prefix(&self.wanted.paths.first()?.real).ok()
    }

    pub(super) fn meet(&mut self, path: &Path, is_looked_into: bool) {
        if let Some(rest) = self.rest(path) {
            self.met.insert(rest.to_owned(), is_looked_into);
        }
    }

    /// Whether the tree that it is compared with has the same there. What is not the same is told.
    pub(super) fn is_same(&mut self, path: &Path, print: Option<Print>) -> bool {
        let wanted = self.wanted;
        let (Some(rest), Some(base), Some(print)) =
            (self.rest(path), wanted.against.as_ref(), print)
        else {
            return false;
        };
        let other = base.prints.get(rest);
        if other == Some(&print) {
            return true;
        }
        let is_new = other.is_none();
        let declared = self.declared(path).0.value;
        let compared = &mut self.found.compared;
        if is_new {
            compared.added.push(declared);
        } else {
            compared.changed.push(declared);
        }
        false
    }

    /// What only the other tree has, and no pattern leaves out, is declared absent: of a directory that alone.
    pub(super) fn deleted(&mut self) {
        let wanted = self.wanted;
        let (Some(base), Some(asked)) = (&wanted.against, wanted.paths.first()) else {
            return;
        };
        for rest in base.prints.keys() {
            let above = rest.parent().and_then(|above| self.met.get(above));
            if self.met.contains_key(rest) || above != Some(&true) {
                continue;
            }
            let real = asked.real.join(rest);
            if self.is_ignored(&real, false) {
                self.found.ignored += 1;
                continue;
            }
            let (path, through) = self.declared(&real);
            self.found.compared.deleted.push(path.value.clone());
            self.found.entries.push(Entry::Absent(AbsentSpec {
                path,
                through,
                on_drift: None,
                severity: Severity::default(),
            }));
        }
        self.found.left.extend(base.left.iter().cloned());
    }
}
