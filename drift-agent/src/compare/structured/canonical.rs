//! One form for every way of writing the same value, under the rules of its place.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use super::{
    Absence, Equal, number,
    pointer::Token,
    rules::Place,
    value::{Entry, Node, Value},
};

pub(super) type Digest = blake3::Hash;

/// Whether two scalars are the same here.
pub(super) fn same_scalar(one: &Node, other: &Node, place: &Place<'_>) -> bool {
    let equal = place.equal();
    one.tag == other.tag && scalar(&one.value, equal) == scalar(&other.value, equal)
}

/// The same keys and values in the same order: a short cut past maps of keys, for the most of two files that differ little. Where this
/// says no, they may still be the same.
pub(super) fn written_alike(one: &Node, other: &Node) -> bool {
    one.tag == other.tag
        && match (&one.value, &other.value) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(one), Value::Bool(other)) => one == other,
            (Value::Integer(one), Value::Integer(other))
            | (Value::Float(one), Value::Float(other))
            | (Value::Text(one), Value::Text(other))
            | (Value::Word(one), Value::Word(other))
            | (Value::Time(one), Value::Time(other)) => one == other,
            (Value::List(one), Value::List(other)) => {
                let mut pairs = one.iter().zip(other);
                one.len() == other.len() && pairs.all(|(one, other)| written_alike(one, other))
            }
            (Value::Map(one), Value::Map(other)) => {
                let mut pairs = one.iter().zip(other);
                one.len() == other.len()
                    && pairs.all(|(one, other)| {
                        one.key == other.key && written_alike(&one.value, &other.value)
                    })
            }
            _ => false,
        }
}

/// Whether two values count as the same here.
pub(super) fn same(one: &Node, other: &Node, place: &Place<'_>) -> bool {
    place.is_plain() && written_alike(one, other) || digest(one, place) == digest(other, place)
}

/// What kind of scalar it is, and its form. A list or a map has none.
fn scalar(value: &Value, equal: Option<Equal>) -> (u8, Cow<'_, str>) {
    if let (Some(equal), Some(text)) = (equal, text(value))
        && let Some(form) = typed(&text, equal)
    {
        return (b'=', Cow::Owned(form));
    }
    match value {
        Value::Null => (b'n', Cow::Borrowed("")),
        Value::Bool(is) => (b'b', Cow::Borrowed(if *is { "true" } else { "false" })),
        Value::Integer(text) => (b'i', exactly(text)),
        Value::Float(text) => (b'f', exactly(text)),
        Value::Text(text) => (b't', Cow::Borrowed(text)),
        Value::Word(text) => (b'w', Cow::Borrowed(text)),
        Value::Time(text) => (b'd', Cow::Borrowed(text)),
        Value::List(_) => (b'l', Cow::Borrowed("")),
        Value::Map(_) => (b'm', Cow::Borrowed("")),
    }
}

fn exactly(text: &str) -> Cow<'_, str> {
    number::canonical(text).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// What is written there, whatever kind it is taken for.
pub(super) fn text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::Bool(is) => Some(Cow::Borrowed(if *is { "true" } else { "false" })),
        Value::Integer(text)
        | Value::Float(text)
        | Value::Text(text)
        | Value::Word(text)
        | Value::Time(text) => Some(Cow::Borrowed(text)),
        Value::Null | Value::List(_) | Value::Map(_) => None,
    }
}

/// The form of a text that is of the kind the rule names; a text of another kind is compared as everywhere else.
fn typed(text: &str, equal: Equal) -> Option<String> {
    match equal {
        Equal::Number => number::canonical(text.trim()),
        Equal::Quantity => number::quantity(text.trim()),
        Equal::Duration => number::duration(text),
        Equal::Bool => number::truth(text.trim()).map(|is| is.to_string()),
        Equal::CaseInsensitive => Some(text.to_lowercase()),
    }
}

/// Whether this counts as not being there.
pub(super) fn is_absent(node: &Node, absence: Absence) -> bool {
    match (absence, &node.value) {
        (Absence::Strict, _) => false,
        (_, Value::Null) => node.tag.is_none(),
        (Absence::Null, _) => false,
        (Absence::Empty, Value::Text(text)) => text.is_empty(),
        (Absence::Empty, Value::List(items)) => items.is_empty(),
        (Absence::Empty, Value::Map(entries)) => {
            let mut values = entries.iter().map(|entry| &entry.value);
            values.all(|value| is_absent(value, absence))
        }
        (Absence::Empty, _) => false,
    }
}

/// The key as it is compared.
pub(super) fn key<'e>(entry: &'e Entry, any_case: bool) -> Cow<'e, str> {
    if any_case {
        Cow::Owned(entry.key.to_lowercase())
    } else {
        Cow::Borrowed(&entry.key)
    }
}

/// The values of each key of a map, in the order of the first of each.
pub(super) fn groups<'n>(entries: &'n [Entry], place: &Place<'_>) -> Groups<'n> {
    let any_case = place.rules.is_any_case();
    let mut groups = Groups {
        order: Vec::with_capacity(entries.len()),
        of: HashMap::with_capacity(entries.len()),
    };
    for entry in entries {
        if is_absent(&entry.value, place.rules.absence) {
            continue;
        }
        let key = key(entry, any_case);
        if let Some(at) = groups.of.get(&key) {
            let (_, values): &mut (_, Vec<&Node>) = &mut groups.order[*at];
            values.push(&entry.value);
        } else {
            groups.of.insert(key, groups.order.len());
            groups.order.push((entry, vec![&entry.value]));
        }
    }
    groups
}

/// The entries of a map by their key.
pub(super) struct Groups<'n> {
    /// The first entry of each key, and the values of all.
    pub(super) order: Vec<(&'n Entry, Vec<&'n Node>)>,
    of: HashMap<Cow<'n, str>, usize>,
}

impl<'n> Groups<'n> {
    pub(super) fn get(&self, key: &str) -> Option<&[&'n Node]> {
        let (_, values) = self.order.get(*self.of.get(key)?)?;
        Some(values)
    }
}

/// Where each key of a map stands among its entries, also where its value counts as absent.
pub(super) struct Positions<'n> {
    pub(super) order: Vec<(Cow<'n, str>, Vec<usize>)>,
    pub(super) of: HashMap<Cow<'n, str>, usize>,
}

pub(super) fn positions(entries: &[Entry], any_case: bool) -> Positions<'_> {
    let mut positions = Positions {
        order: Vec::new(),
        of: HashMap::new(),
    };
    for (index, entry) in entries.iter().enumerate() {
        let key = key(entry, any_case);
        if let Some(at) = positions.of.get(&key) {
            positions.order[*at].1.push(index);
        } else {
            positions.of.insert(key.clone(), positions.order.len());
            positions.order.push((key, vec![index]));
        }
    }
    positions
}

/// The same for two values exactly when they count as the same here.
pub(super) fn digest(node: &Node, place: &Place<'_>) -> Digest {
    let mut hasher = blake3::Hasher::new();
    let mut put = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    put(node.tag.as_deref().unwrap_or_default().as_bytes());
    let (kind, form) = scalar(&node.value, place.equal());
    put(&[kind]);
    match &node.value {
        Value::List(items) => {
            let mut digests: Vec<_> = (0..)
                .zip(items)
                .filter_map(|(index, item)| {
                    let place = place.child(&Token::Index(index));
                    (!place.is_ignored()).then(|| *digest(item, &place).as_bytes())
                })
                .collect();
            if place.is_set() {
                digests.sort_unstable();
            }
            digests.iter().for_each(|digest| put(digest));
        }
        Value::Map(entries) => {
            let groups = groups(entries, place);
            let mut sorted = BTreeMap::new();
            for (entry, values) in &groups.order {
                let place = place.child(&Token::Key(entry.key.clone()));
                if !place.is_ignored() {
                    let digests = repeats(values, &place);
                    sorted.insert(key(entry, place.rules.is_any_case()), digests);
                }
            }
            for (key, digests) in &sorted {
                put(key.as_bytes());
                put(&(digests.len() as u64).to_le_bytes());
                digests.iter().for_each(|digest| put(digest));
            }
        }
        _ => put(form.as_bytes()),
    }
    hasher.finalize()
}

/// The digests of the values of one key, which stand at `place`.
fn repeats(values: &[&Node], place: &Place<'_>) -> Vec<[u8; 32]> {
    let digests = (0..).zip(values).map(|(index, value)| {
        let place = repeated(place, index, values.len(), value);
        *digest(value, &place).as_bytes()
    });
    let mut digests: Vec<_> = digests.collect();
    if values.len() > 1 && place.is_set() {
        digests.sort_unstable();
    }
    digests
}

/// Whether the order of the values of one key is free here, and they are the same in another.
pub(super) fn same_set(one: &[&Node], other: &[&Node], place: &Place<'_>) -> bool {
    one.len() > 1
        && one.len() == other.len()
        && place.is_set()
        && repeats(one, place) == repeats(other, place)
}

/// The place of `value`, which is number `index` of `of` that have the same key.
pub(super) fn repeated<'r>(place: &Place<'r>, index: usize, of: usize, value: &Node) -> Place<'r> {
    if of == 1 {
        return place.only(!value.is_container());
    }
    place.child(&Token::Repeat(index))
}
