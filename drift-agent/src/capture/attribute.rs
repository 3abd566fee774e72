//! What an inode has beside its content, mode and owner, as it is declared.

use std::{ffi::CString, fmt};

use drift_common::{
    escape,
    policy::{
        ACCESS_ACL, Acl, Attributes, CAPABILITY, DEFAULT_ACL, FileCapabilities, Flags, Principal,
        SELINUX, Spanned, Wanted,
    },
};

use crate::{
    declare::Names,
    observe::{Reading, Stat},
    report::Redactor,
};

/// Bytes of all values of `user.` attributes of one path. More is no configuration, and has no blobs.
const LONGEST_VALUES: usize = 2 << 10;

/// Why an attribute that is there is not declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alone {
    /// Its name, safe to show.
    pub name: String,
    pub why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// There are no blobs for attributes.
    Secret,
    TooLarge,
    Unreadable,
    /// It is not what the kernel would have written.
    Unknown,
}

impl fmt::Display for Alone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match self.why {
            Why::Secret => write!(f, "{name} may be secret"),
            Why::TooLarge => write!(f, "{name} is too large"),
            Why::Unreadable => write!(f, "{name} cannot be read"),
            Why::Unknown => write!(f, "{name} is in no form that is known"),
        }
    }
}

/// What is declared of what was read, and what is not. `closed`: others may not read the file.
pub(super) fn attributes(
    stat: &Stat,
    readings: Vec<(CString, Reading)>,
    closed: bool,
    names: &Names,
    spanned: impl Fn(Principal) -> Spanned<Principal> + Copy,
) -> (Attributes, Vec<Alone>) {
    let mut attributes = Attributes {
        flags: stat.flags.filter(|flags| *flags != Flags::default()),
        ..Attributes::default()
    };
    let mut alone = Vec::new();
    let mut room = LONGEST_VALUES;
    for (name, reading) in readings {
        let mut leave = |why| {
            let name = escape::bytes(name.as_bytes()).into_owned();
            alone.push(Alone { name, why });
        };
        let value = match reading {
            Reading::Value(value) => value,
            Reading::Absent | Reading::Unsupported => continue,
            Reading::Failed(_) => {
                leave(Why::Unreadable);
                continue;
            }
        };
        let Ok(text) = name.to_str() else {
            leave(Why::Unknown);
            continue;
        };
        let acl = |value: &[u8]| {
            let acl = Acl::from_xattr(value)?;
            Some(Wanted::Present(by_name(acl, names, spanned)))
        };
        let known = match text {
            ACCESS_ACL => acl(&value).map(|acl| attributes.acl = acl),
            DEFAULT_ACL => acl(&value).map(|acl| attributes.default_acl = acl),
            CAPABILITY => FileCapabilities::from_xattr(&value)
                .map(|capabilities| attributes.capabilities = Wanted::Present(capabilities)),
            SELINUX => label(&value).map(|label| attributes.selinux = Some(label)),
            _ if is_secret(text, &value, closed) => {
                leave(Why::Secret);
                continue;
            }
            _ if value.len() > room => {
                leave(Why::TooLarge);
                continue;
            }
            text => {
                room -= value.len();
                attributes.xattrs.insert(text.to_owned(), Some(value));
                Some(())
            }
        };
        if known.is_none() {
            leave(Why::Unknown);
        }
    }
    (attributes, alone)
}

fn is_secret(name: &str, value: &[u8], closed: bool) -> bool {
    let name = name.trim_start_matches("user.");
    let text = String::from_utf8_lossy(value);
    !value.is_empty()
        && (closed
            || Redactor::default()
                .secret_in(&format!("{name} = {text}"))
                .is_some())
}

fn label(value: &[u8]) -> Option<String> {
    let label = value.strip_suffix(b"\0").unwrap_or(value);
    let label = std::str::from_utf8(label).ok()?;
    let is_plain = !label.is_empty() && !label.contains(|c: char| c.is_control());
    is_plain.then(|| label.to_owned())
}

fn by_name(
    acl: Acl<u32>,
    names: &Names,
    spanned: impl Fn(Principal) -> Spanned<Principal> + Copy,
) -> Acl<Spanned<Principal>> {
    let Acl {
        user,
        group,
        other,
        mask,
        users,
        groups,
    } = acl;
    let named = |ids: Vec<(u32, u8)>, name: &dyn Fn(u32) -> Principal| {
        let mut named: Vec<_> = ids.into_iter().map(|(id, bits)| (name(id), bits)).collect();
        named.sort_unstable();
        let named = named.into_iter();
        named.map(|(who, bits)| (spanned(who), bits)).collect()
    };
    Acl {
        user,
        group,
        other,
        mask,
        users: named(users, &|id| names.user(id)),
        groups: named(groups, &|id| names.group(id)),
    }
}
