//! What an inode has beside its content, mode and owner: extended attributes, access lists, a label, capabilities, flags.
//!
//! Each is declared or left alone by itself. The last four are named for what they mean, not for the attribute or the call that holds them, and are compared by
//! what they mean.

pub mod acl;
pub mod capability;

use std::collections::BTreeMap;

use self::{acl::Acl, capability::FileCapabilities};
use super::{source::Spanned, version::Principal};

/// What is declared of the attributes of one path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Extended attributes by name, `None`: it must not be there. Those that are not named are left alone.
    pub xattrs: BTreeMap<String, Option<Vec<u8>>>,
    /// Who may do what. `Absent`: nobody beside those of the mode.
    pub acl: Wanted<Acl<Spanned<Principal>>>,
    /// What is made in a directory begins with.
    pub default_acl: Wanted<Acl<Spanned<Principal>>>,
    /// The label of SELinux.
    pub selinux: Option<String>,
    pub capabilities: Wanted<FileCapabilities>,
    pub flags: Option<Flags>,
}

impl Attributes {
    /// Whether nothing is declared.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What is declared of one attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Wanted<T> {
    #[default]
    LeftAlone,
    Absent,
    Present(T),
}

/// Flags that keep a file or directory from being changed, by anybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    pub immutable: bool,
    /// It can only become longer.
    pub append: bool,
}

impl Flags {
    /// Each flag with the word for it.
    pub const ALL: [(&'static str, Self); 2] = [
        (
            "immutable",
            Self {
                immutable: true,
                append: false,
            },
        ),
        (
            "append",
            Self {
                immutable: false,
                append: true,
            },
        ),
    ];

    /// What either has.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            immutable: self.immutable || other.immutable,
            append: self.append || other.append,
        }
    }

    /// The words for those that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::ALL
            .into_iter()
            .filter(move |(_, flag)| self.and(*flag) == self)
            .map(|(word, _)| word)
    }
}

/// The kernel's names for what is declared by another field.
pub const ACCESS_ACL: &str = "system.posix_acl_access";
pub const DEFAULT_ACL: &str = "system.posix_acl_default";
pub const SELINUX: &str = "security.selinux";
pub const CAPABILITY: &str = "security.capability";

/// Bytes of an attribute's value, at most (XATTR_SIZE_MAX).
pub const MAX_VALUE: usize = 64 << 10;
