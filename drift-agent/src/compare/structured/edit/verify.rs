//! Whether an edit did what it was to do, and nothing else.

use super::EditError;
use crate::compare::structured::{
    canonical, diff,
    pointer::Token,
    rules::{Coverage, Place, Rules},
    value::{Entry, Node, Tree, Value},
};

/// `after` has what is managed from `declared` and the rest from `before`.
pub(super) fn verify(
    declared: &Tree,
    before: &Tree,
    after: &Tree,
    rules: &Rules,
) -> Result<(), EditError> {
    let managed = diff::values(declared, after, rules);
    let rest = diff::values(&rest(before, rules), &rest(after, rules), &Rules::default());
    match managed.list.into_iter().chain(rest.list).next() {
        Some(difference) => Err(EditError::Unsound(difference.pointer)),
        None => Ok(()),
    }
}

/// What of a tree is not managed.
fn rest(tree: &Tree, rules: &Rules) -> Tree {
    let documents = tree.documents.iter().enumerate();
    let documents = documents.map(|(index, node)| {
        let nothing = || Node::new(node.span, Value::Map(Vec::new()));
        unmanaged(node, &Place::document(rules, index, tree.format)).unwrap_or_else(nothing)
    });
    let mut documents: Vec<Node> = documents.collect();
    // A document that was made for what is managed is none.
    while documents
        .last()
        .is_some_and(|node| node.entries().is_some_and(<[_]>::is_empty))
    {
        documents.pop();
    }
    Tree {
        documents,
        ..tree.clone()
    }
}

/// Maps that are there only for what is managed below are nothing of their own.
fn unmanaged(node: &Node, place: &Place<'_>) -> Option<Node> {
    match place.coverage() {
        Coverage::All => return None,
        Coverage::None => return Some(node.clone()),
        Coverage::Some => {}
    }
    let mut left = node.clone();
    match &node.value {
        Value::Null => return None,
        Value::Map(entries) => {
            let positions = canonical::positions(entries, place.rules.is_any_case());
            let mut kept: Vec<(usize, Entry)> = Vec::new();
            for (_, indexes) in &positions.order {
                for (number, index) in indexes.iter().enumerate() {
                    let entry = &entries[*index];
                    let place = place.child(&Token::Key(entry.key.clone()));
                    let place = canonical::repeated(&place, number, indexes.len(), &entry.value);
                    if let Some(value) = unmanaged(&entry.value, &place) {
                        let entry = Entry {
                            value,
                            ..entry.clone()
                        };
                        kept.push((*index, entry));
                    }
                }
            }
            kept.sort_by_key(|(index, _)| *index);
            let entries: Vec<Entry> = kept.into_iter().map(|(_, entry)| entry).collect();
            if entries.is_empty() {
                return None;
            }
            left.value = Value::Map(entries);
        }
        Value::List(items) => {
            let items = items.iter().enumerate().map(|(index, item)| {
                let place = place.child(&Token::Index(index));
                unmanaged(item, &place).unwrap_or_else(|| Node::new(item.span, Value::Null))
            });
            left.value = Value::List(items.collect());
        }
        _ => {}
    }
    Some(left)
}
