//! What is declared of an inode beside its content, mode and owner: as the kernel knows it.

use std::ffi::CString;

use drift_common::policy::{
    ACCESS_ACL, Acl, Attributes as Said, CAPABILITY, DEFAULT_ACL, FileCapabilities, Flags,
    Principal, Problems, SELINUX, Spanned, Wanted,
};

use super::{Basis, accounts::Accounts};

/// Each is declared or left alone by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// What the kernel keeps as extended attributes, in the order in which they are set.
    pub named: Vec<Attribute>,
    /// `None`: left alone.
    pub flags: Option<Flags>,
}

impl Attributes {
    /// Whether something is declared of the attribute `name`.
    #[must_use]
    pub fn has(&self, name: &[u8]) -> bool {
        self.named
            .iter()
            .any(|attribute| attribute.name.as_bytes() == name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    pub name: CString,
    pub expect: Expect,
}

/// What must be in an extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// It may not be there.
    Absent,
    /// These bytes.
    Value(Vec<u8>),
    /// This label, with a closing NUL or without.
    Label(String),
    Capabilities(FileCapabilities),
    /// Where the attribute is not there, the mode stands for it.
    Access(Acl<u32>),
    Default(Acl<u32>),
}

impl Expect {
    /// Whether it can only be so where the file system has such attributes. An access list that says no more than a mode can be one.
    #[must_use]
    pub fn needs_an_attribute(&self) -> bool {
        match self {
            Self::Absent => false,
            Self::Access(acl) => acl.mask.is_some(),
            Self::Value(_) | Self::Label(_) | Self::Capabilities(_) | Self::Default(_) => true,
        }
    }
}

/// Where the names in access lists are looked up.
pub(super) struct Names<'n, 'r> {
    pub(super) users: &'n mut Accounts<'r>,
    pub(super) groups: &'n mut Accounts<'r>,
    pub(super) basis: &'n mut Basis,
    pub(super) problems: &'n mut Problems,
}

impl Names<'_, '_> {
    /// Names become ids. `None` where there is a problem.
    pub(super) fn attributes(&mut self, said: &Said) -> Option<Attributes> {
        let Said {
            xattrs,
            acl,
            default_acl,
            selinux,
            capabilities,
            flags,
        } = said;
        // Access lists change the mode, so they come before what it could clear, and capabilities last: nothing may be written after them.
        let access = self.expect(acl, Expect::Access);
        let default = self.expect(default_acl, Expect::Default);
        let mut named = vec![(ACCESS_ACL, access?), (DEFAULT_ACL, default?)];
        for (name, value) in xattrs {
            let expect = match value {
                None => Expect::Absent,
                Some(bytes) => Expect::Value(bytes.clone()),
            };
            named.push((name, Some(expect)));
        }
        named.push((SELINUX, selinux.clone().map(Expect::Label)));
        let capabilities = match capabilities {
            Wanted::LeftAlone => None,
            Wanted::Absent => Some(Expect::Absent),
            Wanted::Present(capabilities) => Some(Expect::Capabilities(*capabilities)),
        };
        named.push((CAPABILITY, capabilities));
        let named = named.into_iter().filter_map(|(name, expect)| {
            Some(Attribute {
                // The language allows no NUL in a name.
                name: CString::new(name).ok()?,
                expect: expect?,
            })
        });
        // Collected where the wishes stood, and most of them are none.
        let mut named: Vec<_> = named.collect();
        named.shrink_to_fit();
        Some(Attributes {
            named,
            flags: *flags,
        })
    }

    /// `Some(None)`: left alone.
    fn expect(
        &mut self,
        acl: &Wanted<Acl<Spanned<Principal>>>,
        expect: fn(Acl<u32>) -> Expect,
    ) -> Option<Option<Expect>> {
        let acl = match acl {
            Wanted::LeftAlone => return Some(None),
            Wanted::Absent => return Some(Some(Expect::Absent)),
            Wanted::Present(acl) => acl,
        };
        let users = self.named(&acl.users, true);
        let groups = self.named(&acl.groups, false);
        Some(Some(expect(Acl {
            user: acl.user,
            group: acl.group,
            other: acl.other,
            mask: acl.mask,
            users: users?,
            groups: groups?,
        })))
    }

    /// Sorted by id.
    fn named(
        &mut self,
        entries: &[(Spanned<Principal>, u8)],
        users: bool,
    ) -> Option<Vec<(u32, u8)>> {
        let (accounts, what, example) = if users {
            (&mut *self.users, "user", "user:1000:r--")
        } else {
            (&mut *self.groups, "group", "group:1000:r--")
        };
        let mut ids: Vec<(u32, u8)> = Vec::with_capacity(entries.len());
        let mut whole = true;
        for (who, permissions) in entries {
            match accounts.id(who, example, self.basis) {
                Ok(id) if ids.iter().any(|(other, _)| *other == id) => {
                    let message = format!("two entries of the access list are about {what} {id}");
                    let problem = who.at.problem(message);
                    self.problems.push(problem.help("remove one of them"));
                    whole = false;
                }
                Ok(id) => ids.push((id, *permissions)),
                Err(problem) => {
                    self.problems.push(problem);
                    whole = false;
                }
            }
        }
        ids.sort_unstable();
        whole.then_some(ids)
    }
}
