//! What differs between two trees, place by place.

use std::{collections::HashMap, fmt};

use super::{
    Absence, Format,
    canonical::{self, Digest, Groups},
    listing,
    pointer::{Pointer, Token},
    rules::{Coverage, Place, Rules},
    value::{Entry, Node, Tree, Value},
};
use crate::{compare::text, report::Redactable};

/// Differences kept, at most: more are counted.
pub const MAX_DIFFERENCES: usize = 1000;

/// What kind of difference it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The same, written in another way.
    Equivalent,
    Changed,
    /// There, and not declared.
    Added,
    /// Declared, and not there.
    Removed,
}

impl Kind {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Equivalent => "equivalent",
            Kind::Changed => "changed",
            Kind::Added => "added",
            Kind::Removed => "removed",
        }
    }
}

/// One value of a difference: its digest, and what people may be shown.
///
/// A digest of a short value can be guessed. Whoever lets one leave the node asks [`crate::report::Redactor::digest`] for it.
pub struct Side {
    pub(crate) digest: Digest,
    pub text: Redactable<'static>,
}

impl fmt::Debug for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Side(…)")
    }
}

/// One difference.
#[derive(Debug)]
pub struct Difference {
    pub pointer: Pointer,
    pub kind: Kind,
    pub declared: Option<Side>,
    pub observed: Option<Side>,
}

/// All differences, in the order of the declared file, what was added to a map after what is declared of it.
#[derive(Debug, Default)]
pub struct Differences {
    pub list: Vec<Difference>,
    /// How many more there are.
    pub omitted: usize,
}

impl Differences {
    /// How many of each kind, as in `2 values changed, 1 added`.
    #[must_use]
    pub fn count(&self) -> String {
        let mut said = Vec::new();
        for kind in [Kind::Changed, Kind::Added, Kind::Removed] {
            let of_kind = |difference: &&Difference| difference.kind == kind;
            match self.list.iter().filter(of_kind).count() {
                0 => {}
                1 if said.is_empty() => said.push(format!("1 value {}", kind.name())),
                count if said.is_empty() => said.push(format!("{count} values {}", kind.name())),
                count => said.push(format!("{count} {}", kind.name())),
            }
        }
        if self.omitted > 0 {
            said.push(format!("{} more", self.omitted));
        }
        said.join(", ")
    }

    /// Whether at most the way of writing differs.
    #[must_use]
    pub fn is_equivalent(&self) -> bool {
        let mut kinds = self.list.iter().map(|difference| difference.kind);
        kinds.all(|kind| kind == Kind::Equivalent)
    }
}

/// What differs between `declared` and `observed`. Where the values are the same and only the way of writing differs, that is one
/// difference of kind [`Kind::Equivalent`] (none, where only some keys are managed: the rest is not looked at).
#[must_use]
pub fn compare(declared: &Tree, observed: &Tree, rules: &Rules) -> Differences {
    let mut found = values(declared, observed, rules);
    if rules.manages_all() {
        found.list.extend(mark(declared, observed));
    }
    let (one, other) = (declared.text.as_bytes(), observed.text.as_bytes());
    let is_written_alike = || text::exact(one, other, rules.into()) == text::Exact::Same;
    if found.list.is_empty()
        && rules.manages_all()
        && (declared.marked != observed.marked || !is_written_alike())
    {
        found.list.push(Difference {
            pointer: Pointer::default(),
            kind: Kind::Equivalent,
            declared: None,
            observed: None,
        });
    }
    found
}

/// A byte order mark that one of the two begins with, where not every program takes it for nothing: to most it is part of the first key.
fn mark(declared: &Tree, observed: &Tree) -> Option<Difference> {
    match declared.format {
        Format::Yaml | Format::Json5 => return None, // as these have it themselves
        Format::Json | Format::Toml | Format::Ini | Format::Env | Format::KeyValue => {}
    }
    let side = || {
        let mut text = Redactable::default();
        text.syntax("a byte order mark");
        let digest = blake3::hash("\u{feff}".as_bytes());
        Some(Side { digest, text })
    };
    let (kind, declared, observed) = match (declared.marked, observed.marked) {
        (true, false) => (Kind::Removed, side(), None),
        (false, true) => (Kind::Added, None, side()),
        (true, true) | (false, false) => return None,
    };
    Some(Difference {
        pointer: Pointer::default(),
        kind,
        declared,
        observed,
    })
}

/// What differs in more than the way of writing.
pub(super) fn values(declared: &Tree, observed: &Tree, rules: &Rules) -> Differences {
    let mut walk = Walk {
        format: declared.format,
        tokens: Vec::new(),
        document: None,
        found: Differences::default(),
    };
    let count = declared.documents.len().max(observed.documents.len());
    for index in 0..count {
        walk.document = (count > 1).then_some(index);
        let (one, other) = (declared.documents.get(index), observed.documents.get(index));
        walk.node(&Place::document(rules, index, declared.format), one, other);
    }
    walk.found
}

struct Walk {
    format: Format,
    document: Option<usize>,
    tokens: Vec<Token>,
    found: Differences,
}

impl Walk {
    fn node(&mut self, place: &Place<'_>, declared: Option<&Node>, observed: Option<&Node>) {
        if place.is_ignored() {
            return;
        }
        if let (Some(one), Some(other)) = (declared, observed)
            && place.is_plain()
            && canonical::written_alike(one, other)
        {
            return;
        }
        // A document is there, also when it says nothing.
        let absence = if self.tokens.is_empty() {
            Absence::Strict
        } else {
            place.rules.absence
        };
        let mut declared = declared.filter(|node| !canonical::is_absent(node, absence));
        let mut observed = observed.filter(|node| !canonical::is_absent(node, absence));
        match place.coverage() {
            Coverage::None => return,
            Coverage::Some => {
                // What is declared is below; a scalar here has nothing below.
                declared = declared.filter(|node| node.is_container());
                observed = observed.filter(|node| node.is_container());
                self.below(place, declared, observed);
                return;
            }
            Coverage::All => {}
        }
        match (declared, observed) {
            (None, None) => {}
            (Some(one), Some(other)) => match (&one.value, &other.value) {
                (Value::Map(_), Value::Map(_)) | (Value::List(_), Value::List(_))
                    if one.tag == other.tag =>
                {
                    self.below(place, declared, observed);
                }
                _ if canonical::same_scalar(one, other, place) && !one.is_container() => {}
                _ => self.push(place, Kind::Changed, declared, observed),
            },
            (Some(_), None) => self.push(place, Kind::Removed, declared, None),
            (None, Some(_)) => self.push(place, Kind::Added, None, observed),
        }
    }

    fn below(&mut self, place: &Place<'_>, declared: Option<&Node>, observed: Option<&Node>) {
        let value = |node: Option<&Node>| node.map(|node| node.value.kind());
        if let (Some(one), Some(other)) = (value(declared), value(observed))
            && one != other
        {
            self.below(place, declared, None);
            self.below(place, None, observed);
            return;
        }
        match declared.or(observed).map(|node| &node.value) {
            Some(Value::Map(_)) => self.maps(place, declared, observed),
            Some(Value::List(_)) if place.is_set() => {
                let (one, other) = (items(declared), items(observed));
                let (one, other): (Vec<_>, Vec<_>) = (one.iter().collect(), other.iter().collect());
                self.sets(place, &one, &other, Token::Index);
            }
            Some(Value::List(_)) => self.lists(place, items(declared), items(observed)),
            _ => {}
        }
    }

    fn maps(&mut self, place: &Place<'_>, declared: Option<&Node>, observed: Option<&Node>) {
        let one = canonical::groups(entries(declared), place);
        let other = canonical::groups(entries(observed), place);
        let any_case = place.rules.is_any_case();
        let visit = |walk: &mut Self, key: &_, one: &[&Node], other: &[&Node]| {
            let token = Token::Key(std::sync::Arc::clone(key));
            let place = place.child(&token);
            walk.tokens.push(token);
            walk.repeats(&place, one, other);
            walk.tokens.pop();
        };
        for (entry, values) in &one.order {
            let key = canonical::key(entry, any_case);
            let others = other.get(&key).unwrap_or_default();
            visit(self, &entry.key, values, others);
        }
        let is_new = |groups: &Groups<'_>, key: &str| groups.get(key).is_none();
        for (entry, values) in &other.order {
            if is_new(&one, &canonical::key(entry, any_case)) {
                visit(self, &entry.key, &[], values);
            }
        }
    }

    /// The values of one key.
    fn repeats(&mut self, place: &Place<'_>, declared: &[&Node], observed: &[&Node]) {
        let count = declared.len().max(observed.len());
        if count == 1 {
            let (one, other) = (declared.first().copied(), observed.first().copied());
            let is_container = one.or(other).is_some_and(Node::is_container);
            self.node(&place.only(!is_container), one, other);
            return;
        }
        if place.is_set() && place.coverage() == Coverage::All {
            self.sets(place, declared, observed, Token::Repeat);
            return;
        }
        self.aligned(place, declared, observed, Token::Repeat);
    }

    fn lists(&mut self, place: &Place<'_>, declared: &[Node], observed: &[Node]) {
        let (declared, observed): (Vec<_>, Vec<_>) =
            (declared.iter().collect(), observed.iter().collect());
        self.aligned(place, &declared, &observed, Token::Index);
    }

    /// Items in order. Where one side has more, what is the same at both ends stays together, so that one new item is one difference.
    fn aligned(
        &mut self,
        place: &Place<'_>,
        declared: &[&Node],
        observed: &[&Node],
        token: fn(usize) -> Token,
    ) {
        let (mut start, mut end) = (0, 0);
        let shorter = declared.len().min(observed.len());
        if declared.len() != observed.len() && shorter > 0 && place.coverage() == Coverage::All {
            let digests = |nodes: &[&Node]| -> Vec<Digest> {
                let digest = |(index, node): (usize, &&Node)| {
                    canonical::digest(node, &place.child(&token(index)))
                };
                nodes.iter().enumerate().map(digest).collect()
            };
            let (one, other) = (digests(declared), digests(observed));
            let same = |pair: &(&Digest, &Digest)| pair.0 == pair.1;
            start = one.iter().zip(&other).take_while(same).count();
            let rest = one.iter().rev().zip(other.iter().rev());
            end = rest.take(shorter - start).take_while(same).count();
        }
        let (one, other) = (
            &declared[start..declared.len() - end],
            &observed[start..observed.len() - end],
        );
        for index in 0..one.len().max(other.len()) {
            let token = token(start + index);
            let place = place.child(&token);
            self.tokens.push(token);
            self.node(&place, one.get(index).copied(), other.get(index).copied());
            self.tokens.pop();
        }
    }

    /// Items in any order: what one side has more often than the other.
    fn sets(
        &mut self,
        place: &Place<'_>,
        declared: &[&Node],
        observed: &[&Node],
        token: fn(usize) -> Token,
    ) {
        let digests = |nodes: &[&Node]| -> Vec<Option<Digest>> {
            let digest = |(index, node): (usize, &&Node)| {
                let place = place.child(&token(index));
                (!place.is_ignored()).then(|| canonical::digest(node, &place))
            };
            nodes.iter().enumerate().map(digest).collect()
        };
        let (one, other) = (digests(declared), digests(observed));
        let mut left: HashMap<Digest, usize> = HashMap::new();
        for digest in other.iter().flatten() {
            *left.entry(*digest).or_default() += 1;
        }
        for (index, digest) in one.iter().enumerate() {
            let Some(digest) = digest else { continue };
            match left.get_mut(digest) {
                Some(count) if *count > 0 => *count -= 1,
                _ => self.item(place, token(index), declared.get(index).copied(), None),
            }
        }
        // What is left over is found from the end: the first of equal ones were the declared.
        let mut added = Vec::new();
        for (index, digest) in other.iter().enumerate().rev() {
            if let Some(count) = digest.as_ref().and_then(|digest| left.get_mut(digest))
                && *count > 0
            {
                *count -= 1;
                added.push(index);
            }
        }
        for index in added.into_iter().rev() {
            self.item(place, token(index), None, observed.get(index).copied());
        }
    }

    fn item(
        &mut self,
        place: &Place<'_>,
        token: Token,
        declared: Option<&Node>,
        observed: Option<&Node>,
    ) {
        let place = place.child(&token);
        self.tokens.push(token);
        self.node(&place, declared, observed);
        self.tokens.pop();
    }

    fn push(
        &mut self,
        place: &Place<'_>,
        kind: Kind,
        declared: Option<&Node>,
        observed: Option<&Node>,
    ) {
        if self.found.list.len() == MAX_DIFFERENCES {
            self.found.omitted += 1;
            return;
        }
        let side = |node: &Node| Side {
            digest: canonical::digest(node, place),
            text: listing::redactable(node, &self.tokens, self.format),
        };
        let difference = Difference {
            pointer: Pointer {
                document: self.document,
                tokens: self.tokens.clone(),
            },
            kind,
            declared: declared.map(side),
            observed: observed.map(side),
        };
        self.found.list.push(difference);
    }
}

fn entries(node: Option<&Node>) -> &[Entry] {
    node.and_then(Node::entries).unwrap_or_default()
}

fn items(node: Option<&Node>) -> &[Node] {
    match node.map(|node| &node.value) {
        Some(Value::List(items)) => items,
        _ => &[],
    }
}
