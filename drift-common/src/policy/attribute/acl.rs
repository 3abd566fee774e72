//! POSIX access lists: as text, and as the kernel keeps them.

use std::fmt;

/// Who may do what. Permissions are three bits, as in a mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl<P> {
    /// The owner.
    pub user: u8,
    /// The owning group.
    pub group: u8,
    pub other: u8,
    /// The most that named ones and the owning group may do. There wherever somebody is named.
    pub mask: Option<u8>,
    /// Others by name or id, sorted, none twice.
    pub users: Vec<(P, u8)>,
    pub groups: Vec<(P, u8)>,
}

/// Whom an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    User,
    Group,
    Mask,
    Other,
}

/// One entry as text, as `getfacl` prints and `setfacl` takes it; `name` may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'t> {
    pub tag: Tag,
    pub name: &'t str,
    pub permissions: u8,
}

/// Why a text is no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoEntry {
    /// It begins with `default:`.
    Default,
    Tag,
    Permissions,
    Shape,
}

impl<'t> Entry<'t> {
    /// Reads one entry.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &'t str) -> Result<Self, NoEntry> {
        // What `getfacl` notes behind an entry.
        let text = text.split('#').next().unwrap_or(text).trim();
        let fields: Vec<&str> = text.split(':').map(str::trim).collect();
        if matches!(fields.first(), Some(&("default" | "d"))) {
            return Err(NoEntry::Default);
        }
        let tag = match fields.first() {
            Some(&("user" | "u")) => Tag::User,
            Some(&("group" | "g")) => Tag::Group,
            Some(&("mask" | "m")) => Tag::Mask,
            Some(&("other" | "o")) => Tag::Other,
            _ => return Err(NoEntry::Tag),
        };
        let (name, permissions) = match (tag, &fields[1..]) {
            (_, [name, permissions]) => (*name, *permissions),
            (Tag::Mask | Tag::Other, [permissions]) => ("", *permissions),
            _ => return Err(NoEntry::Shape),
        };
        if matches!(tag, Tag::Mask | Tag::Other) && !name.is_empty() {
            return Err(NoEntry::Shape);
        }
        Ok(Self {
            tag,
            name,
            permissions: permissions_of(permissions).ok_or(NoEntry::Permissions)?,
        })
    }
}

/// `rwx`, `r-x`, `rx`, `5`.
fn permissions_of(text: &str) -> Option<u8> {
    if let [digit @ b'0'..=b'7'] = text.as_bytes() {
        return Some(digit - b'0');
    }
    if text.is_empty() || text.len() > 3 {
        return None;
    }
    let mut permissions = 0;
    for letter in text.bytes() {
        let bit = match letter {
            b'r' => 4,
            b'w' => 2,
            b'x' => 1,
            b'-' => continue,
            _ => return None,
        };
        if permissions & bit != 0 {
            return None;
        }
        permissions |= bit;
    }
    Some(permissions)
}

/// `rw-`.
#[must_use]
pub fn permissions_text(permissions: u8) -> String {
    let letter = |bit: u8, letter: char| {
        if permissions & bit == 0 { '-' } else { letter }
    };
    [letter(4, 'r'), letter(2, 'w'), letter(1, 'x')]
        .iter()
        .collect()
}

impl<P> Acl<P> {
    /// The entries as texts, in the order in which `getfacl` prints them; `name` is how somebody is called.
    pub fn entries(&self, name: impl Fn(&P) -> String) -> Vec<String> {
        let entry =
            |tag: &str, name: &str, bits: u8| format!("{tag}:{name}:{}", permissions_text(bits));
        let mut entries = vec![entry("user", "", self.user)];
        entries.extend(
            self.users
                .iter()
                .map(|(who, bits)| entry("user", &name(who), *bits)),
        );
        entries.push(entry("group", "", self.group));
        entries.extend(
            self.groups
                .iter()
                .map(|(who, bits)| entry("group", &name(who), *bits)),
        );
        entries.extend(self.mask.map(|bits| entry("mask", "", bits)));
        entries.push(entry("other", "", self.other));
        entries
    }

    /// The permission bits that a mode has where this is the access list: the group's are the mask's.
    #[must_use]
    pub fn mode(&self) -> u32 {
        let group = self.mask.unwrap_or(self.group);
        u32::from(self.user) << 6 | u32::from(group) << 3 | u32::from(self.other)
    }
}

/// `ACL_EA_VERSION`.
const VERSION: u32 = 2;
const NO_ID: u32 = u32::MAX;
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

impl Acl<u32> {
    /// What a mode says.
    #[must_use]
    pub fn of_mode(mode: u32) -> Self {
        let bits = |shift: u32| (mode >> shift & 7) as u8;
        Self {
            user: bits(6),
            group: bits(3),
            other: bits(0),
            mask: None,
            users: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// From the value of an extended attribute; `None` where it is none of these.
    #[must_use]
    pub fn from_xattr(value: &[u8]) -> Option<Self> {
        let (version, entries) = value.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*version) != VERSION || entries.len() % 8 != 0 {
            return None;
        }
        let mut acl = Self::of_mode(0);
        let mut base = 0;
        for entry in entries.chunks_exact(8) {
            let tag = u16::from_le_bytes([entry[0], entry[1]]);
            let bits = u8::try_from(u16::from_le_bytes([entry[2], entry[3]]))
                .ok()
                .filter(|bits| *bits <= 7)?;
            let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
            match tag {
                USER_OBJ => acl.user = bits,
                GROUP_OBJ => acl.group = bits,
                OTHER => acl.other = bits,
                MASK => acl.mask = Some(bits),
                USER => acl.users.push((id, bits)),
                GROUP => acl.groups.push((id, bits)),
                _ => return None,
            }
            base |= tag & (USER_OBJ | GROUP_OBJ | OTHER);
        }
        acl.users.sort_unstable();
        acl.groups.sort_unstable();
        (base == USER_OBJ | GROUP_OBJ | OTHER).then_some(acl)
    }

    /// The value of an extended attribute.
    #[must_use]
    pub fn to_xattr(&self) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        let mut put = |tag: u16, bits: u8, id: u32| {
            value.extend(tag.to_le_bytes());
            value.extend(u16::from(bits).to_le_bytes());
            value.extend(id.to_le_bytes());
        };
        put(USER_OBJ, self.user, NO_ID);
        for (id, bits) in &self.users {
            put(USER, *bits, *id);
        }
        put(GROUP_OBJ, self.group, NO_ID);
        for (id, bits) in &self.groups {
            put(GROUP, *bits, *id);
        }
        if let Some(bits) = self.mask {
            put(MASK, bits, NO_ID);
        }
        put(OTHER, self.other, NO_ID);
        value
    }
}

/// As `getfacl -n` prints it, on one line.
impl fmt::Display for Acl<u32> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.entries(u32::to_string).join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_setfacl_takes_them() {
        #[track_caller]
        fn check(text: &str, expected: Result<(Tag, &str, u8), NoEntry>) {
            let read = Entry::parse(text).map(|entry| (entry.tag, entry.name, entry.permissions));
            assert_eq!(read, expected, "{text}");
        }
        check("user::rw-", Ok((Tag::User, "", 6)));
        check("u:alice:rx", Ok((Tag::User, "alice", 5)));
        check("group:100:7", Ok((Tag::Group, "100", 7)));
        check(" g : adm : --- ", Ok((Tag::Group, "adm", 0)));
        check("mask::r", Ok((Tag::Mask, "", 4)));
        check("m:rw", Ok((Tag::Mask, "", 6)));
        check("other::---", Ok((Tag::Other, "", 0)));
        check(
            "user:alice:rwx\t\t#effective:r-x",
            Ok((Tag::User, "alice", 7)),
        );
        check("default:user::rwx", Err(NoEntry::Default));
        check("usr::rw-", Err(NoEntry::Tag));
        check("", Err(NoEntry::Tag));
        check("user:rw-", Err(NoEntry::Shape));
        check("mask:alice:rw-", Err(NoEntry::Shape));
        check("user::a:b", Err(NoEntry::Shape));
        for wrong in ["", "8", "rwX", "rr", "rwxr", "77"] {
            check(&format!("user::{wrong}"), Err(NoEntry::Permissions));
        }
    }

    #[test]
    fn the_kernels_form_comes_back_the_same() {
        let acl = Acl {
            user: 6,
            group: 4,
            other: 0,
            mask: Some(6),
            users: vec![(1000, 6), (70_000, 0)],
            groups: vec![(4, 4)],
        };
        let value = acl.to_xattr();
        assert_eq!(value.len(), 4 + 8 * 7);
        assert_eq!(Acl::from_xattr(&value), Some(acl.clone()));
        assert_eq!(acl.mode(), 0o660);
        assert_eq!(
            acl.to_string(),
            "user::rw-,user:1000:rw-,user:70000:---,group::r--,group:4:r--,mask::rw-,other::---"
        );
        assert_eq!(Acl::of_mode(0o4751).mode(), 0o751);
    }

    #[test]
    fn what_is_no_access_list_is_none() {
        let value = Acl::of_mode(0o644).to_xattr();
        for length in 0..value.len() {
            assert_eq!(Acl::from_xattr(&value[..length]), None, "{length}");
        }
        let mut odd = value.clone();
        odd[0] = 1;
        assert_eq!(Acl::from_xattr(&odd), None);
        odd = value.clone();
        odd[6] = 8; // no permission
        assert_eq!(Acl::from_xattr(&odd), None);
        odd = value;
        odd[4] = 0x40; // no tag
        assert_eq!(Acl::from_xattr(&odd), None);
    }
}
