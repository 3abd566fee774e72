//! What has to change, as data.

use std::sync::Arc;

use super::EditError;
use crate::compare::structured::{
    canonical,
    pointer::{Pointer, Token},
    rules::{Coverage, Place, Rules},
    value::{Entry, Node, Span, Tree, Value},
};

/// One thing to change in the observed tree.
pub(super) enum Change<'n> {
    Set {
        pointer: Pointer,
        parent: Option<&'n Node>,
        /// Of a map: the entry the value is of.
        entry: Option<&'n Entry>,
        observed: &'n Node,
        declared: Node,
    },
    Remove {
        pointer: Pointer,
        parent: &'n Node,
        /// Indexes into the parent's entries.
        entries: Vec<usize>,
    },
    Add {
        /// Of the parent.
        pointer: Pointer,
        parent: &'n Node,
        additions: Vec<Addition<'n>>,
    },
    /// A whole document of YAML behind the last.
    Document { pointer: Pointer, declared: Node },
}

pub(super) struct Addition<'n> {
    pub(super) key: Arc<str>,
    pub(super) value: Node,
    /// The last entry of the same key.
    pub(super) after: Option<&'n Entry>,
}

impl Change<'_> {
    pub(super) fn is_addition(&self) -> bool {
        matches!(self, Change::Add { .. } | Change::Document { .. })
    }

    pub(super) fn pointer(&self) -> Pointer {
        match self {
            Change::Set { pointer, .. }
            | Change::Remove { pointer, .. }
            | Change::Add { pointer, .. }
            | Change::Document { pointer, .. } => pointer.clone(),
        }
    }
}

/// What has to change in `observed` so that what is managed is as `declared`.
pub(super) fn plan<'n>(
    declared: &Tree,
    observed: &'n Tree,
    rules: &Rules,
) -> Result<Vec<Change<'n>>, EditError> {
    let mut planner = Planner {
        at: Pointer::default(),
        changes: Vec::new(),
    };
    let count = declared.documents.len().max(observed.documents.len());
    for index in 0..count {
        planner.at.document = (count > 1).then_some(index);
        let place = Place::document(rules, index, declared.format);
        match (declared.documents.get(index), observed.documents.get(index)) {
            (one, Some(other)) => planner.value(&place, None, None, one, other)?,
            (Some(one), None) => {
                if let Some(declared) = planner.managed(one, &place)? {
                    let pointer = planner.at.clone();
                    planner.changes.push(Change::Document { pointer, declared });
                }
            }
            (None, None) => {}
        }
    }
    Ok(planner.changes)
}

const PART_OF_LIST: &str = "an item of a list is managed in part";

/// Part of a list is managed that is not there: where among what others have there it belongs, nobody said.
struct PartOfList;

/// What of a declared node is managed.
fn managed(node: &Node, place: &Place<'_>) -> Result<Option<Node>, PartOfList> {
    if place.is_ignored() {
        return Ok(None);
    }
    match (place.coverage(), &node.value) {
        (Coverage::All, _) => Ok(Some(node.clone())),
        (Coverage::Some, Value::Map(entries)) => {
            let mut kept = Vec::new();
            for entry in entries {
                let place = place.child(&Token::Key(entry.key.clone()));
                if let Some(value) = managed(&entry.value, &place)? {
                    kept.push(Entry {
                        value,
                        ..entry.clone()
                    });
                }
            }
            let map = || Node::new(Span::default(), Value::Map(kept.clone()));
            Ok((!kept.is_empty()).then(map))
        }
        (Coverage::Some, Value::List(items)) => {
            for (index, item) in items.iter().enumerate() {
                if managed(item, &place.child(&Token::Index(index)))?.is_some() {
                    return Err(PartOfList);
                }
            }
            Ok(None)
        }
        (Coverage::Some | Coverage::None, _) => Ok(None),
    }
}

struct Planner<'n> {
    at: Pointer,
    changes: Vec<Change<'n>>,
}

impl<'n> Planner<'n> {
    fn value(
        &mut self,
        place: &Place<'_>,
        parent: Option<&'n Node>,
        entry: Option<&'n Entry>,
        declared: Option<&Node>,
        observed: &'n Node,
    ) -> Result<(), EditError> {
        let whole = match place.coverage() {
            _ if place.is_ignored() => return Ok(()),
            Coverage::None => return Ok(()),
            Coverage::All => true,
            Coverage::Some => false,
        };
        let set = |planner: &mut Self, declared: Node| {
            planner.changes.push(Change::Set {
                pointer: planner.at.clone(),
                parent,
                entry,
                observed,
                declared,
            });
        };
        let Some(declared) = declared else {
            if !whole && observed.is_container() && !observed.shared {
                return self.inside(place, None, observed);
            }
            if whole && parent.is_none() {
                return Err(self.unsupported("a whole document that is not declared"));
            }
            return Ok(());
        };
        if whole && canonical::same(declared, observed, place) {
            return Ok(());
        }
        let alike = declared.value.kind() == observed.value.kind() && declared.tag == observed.tag;
        let descends = match (&declared.value, &observed.value) {
            (Value::Map(one), Value::Map(other)) => {
                // A map of which nothing stays is written anew.
                let any_case = place.rules.is_any_case();
                let there = canonical::positions(other, any_case);
                let mut keys = one.iter().map(|entry| canonical::key(entry, any_case));
                !whole || keys.any(|key| there.of.contains_key(&key))
            }
            (Value::List(one), Value::List(other)) => {
                !whole || one.len() == other.len() && !place.is_set()
            }
            _ => false,
        };
        if alike && descends && !observed.shared {
            return self.inside(place, Some(declared), observed);
        }
        if whole {
            set(self, declared.clone());
            return Ok(());
        }
        let Some(declared) = self.managed(declared, place)? else {
            if observed.is_container() && !observed.shared {
                return self.inside(place, None, observed);
            }
            return Ok(());
        };
        match &observed.value {
            Value::Null => set(self, declared),
            _ if observed.shared => {
                let there = self.managed(observed, place)?;
                if there.is_some_and(|there| canonical::same(&declared, &there, place)) {
                    return Ok(());
                }
                return Err(self.unsupported("it stands there through an alias"));
            }
            _ => return Err(self.unsupported("what is above it there is no map")),
        }
        Ok(())
    }

    fn inside(
        &mut self,
        place: &Place<'_>,
        declared: Option<&Node>,
        observed: &'n Node,
    ) -> Result<(), EditError> {
        match &observed.value {
            Value::Map(entries) => {
                let declared = declared.and_then(Node::entries).unwrap_or_default();
                self.map(place, declared, observed, entries)
            }
            Value::List(items) => {
                let others = match declared.map(|node| &node.value) {
                    Some(Value::List(others)) => others.as_slice(),
                    _ => &[],
                };
                for (index, item) in items.iter().enumerate() {
                    let token = Token::Index(index);
                    let place = place.child(&token);
                    self.at.tokens.push(token);
                    self.value(&place, Some(observed), None, others.get(index), item)?;
                    self.at.tokens.pop();
                }
                let rest = others.iter().enumerate().skip(items.len());
                for (index, other) in rest {
                    let place = place.child(&Token::Index(index));
                    if self.managed(other, &place)?.is_some() {
                        return Err(self.unsupported(PART_OF_LIST));
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn map(
        &mut self,
        place: &Place<'_>,
        declared: &[Entry],
        parent: &'n Node,
        observed: &'n [Entry],
    ) -> Result<(), EditError> {
        let any_case = place.rules.is_any_case();
        let absence = place.rules.absence;
        let wanted = canonical::groups(declared, place);
        let mut removed = Vec::new();
        let mut additions = Vec::new();
        let there = canonical::positions(observed, any_case);
        for (key, indexes) in &there.order {
            let first = &observed[indexes[0]];
            let token = Token::Key(first.key.clone());
            let place = place.child(&token);
            let coverage = place.coverage();
            if place.is_ignored() || coverage == Coverage::None {
                continue;
            }
            self.at.tokens.push(token);
            let values = wanted.get(key).unwrap_or_default();
            let found: Vec<&Node> = indexes.iter().map(|at| &observed[*at].value).collect();
            if coverage == Coverage::All && canonical::same_set(values, &found, &place) {
                self.at.tokens.pop();
                continue;
            }
            let count = indexes.len().max(values.len());
            for (number, index) in indexes.iter().enumerate() {
                let entry = &observed[*index];
                let place = canonical::repeated(&place, number, count, &entry.value);
                if count > 1 {
                    self.at.tokens.push(Token::Repeat(number));
                }
                let value = values.get(number).copied();
                let same = value.is_some_and(|value| canonical::same(value, &entry.value, &place));
                if entry.merged && coverage == Coverage::All && !same {
                    // A key of its own goes before what is merged.
                    let Some(value) = value else {
                        return Err(self.unsupported("it comes from a merge key"));
                    };
                    additions.push(Addition {
                        key: entry.key.clone(),
                        value: value.clone(),
                        after: None,
                    });
                } else if value.is_none() && coverage == Coverage::All {
                    // What counts as absent is as good as removed.
                    if !canonical::is_absent(&entry.value, absence) {
                        removed.push(*index);
                    }
                } else {
                    self.value(&place, Some(parent), Some(entry), value, &entry.value)?;
                }
                if count > 1 {
                    self.at.tokens.pop();
                }
            }
            for (number, value) in values.iter().enumerate().skip(indexes.len()) {
                let place = canonical::repeated(&place, number, count, value);
                if let Some(value) = self.managed(value, &place)? {
                    additions.push(Addition {
                        key: first.key.clone(),
                        value,
                        after: indexes.last().map(|index| &observed[*index]),
                    });
                }
            }
            self.at.tokens.pop();
        }
        for (entry, values) in &wanted.order {
            if there.of.contains_key(&canonical::key(entry, any_case)) {
                continue;
            }
            let place = place.child(&Token::Key(entry.key.clone()));
            for (number, value) in values.iter().enumerate() {
                let place = canonical::repeated(&place, number, values.len(), value);
                let value = self.managed(value, &place)?;
                additions.extend(value.map(|value| Addition {
                    key: entry.key.clone(),
                    value,
                    after: None,
                }));
            }
        }
        if !removed.is_empty() {
            self.changes.push(Change::Remove {
                pointer: self.at.clone(),
                parent,
                entries: removed,
            });
        }
        if !additions.is_empty() {
            self.changes.push(Change::Add {
                pointer: self.at.clone(),
                parent,
                additions,
            });
        }
        Ok(())
    }

    fn managed(&self, node: &Node, place: &Place<'_>) -> Result<Option<Node>, EditError> {
        managed(node, place).map_err(|PartOfList| self.unsupported(PART_OF_LIST))
    }

    fn unsupported(&self, why: &'static str) -> EditError {
        EditError::Unsupported {
            pointer: self.at.clone(),
            why,
        }
    }
}
