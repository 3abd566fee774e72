//! What a tree comes to: aliases are paid for by size.

use super::{Kind, Node};

/// What a node and all in it come to.
pub(super) struct Size {
    pub(super) nodes: usize,
    /// Bytes of keys and scalars.
    pub(super) text: usize,
    /// Lists and mappings within each other.
    pub(super) height: usize,
}

impl Size {
    /// Goes as deep as [`super::MAX_DEPTH`].
    pub(super) fn of(node: &Node) -> Self {
        let mut size = Self {
            nodes: 1,
            text: node.kind.text(),
            height: 0,
        };
        let mut inside = |node: &Node, key: usize| {
            let inner = Self::of(node);
            size.nodes += inner.nodes + usize::from(key > 0);
            size.text += inner.text + key;
            size.height = size.height.max(inner.height);
        };
        match &node.kind {
            Kind::Scalar(..) | Kind::Broken => return size,
            Kind::List(items) => items.iter().for_each(|item| inside(item, 0)),
            Kind::Map(entries) => entries
                .iter()
                .for_each(|entry| inside(&entry.value, entry.key.len())),
        }
        size.height += 1;
        size
    }
}

impl Kind {
    /// Bytes of the scalar itself.
    fn text(&self) -> usize {
        match self {
            Self::Scalar(text, _) => text.len(),
            Self::Broken | Self::List(_) | Self::Map(_) => 0,
        }
    }
}
