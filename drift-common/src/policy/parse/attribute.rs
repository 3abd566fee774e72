//! What is declared of an inode beside its content, mode and owner.

use std::{collections::BTreeMap, sync::Arc};

use super::scalar;
use crate::{
    escape,
    policy::{
        Attributes, Encoding, Flags, Packed, Principal, Wanted,
        attribute::{
            ACCESS_ACL, CAPABILITY, DEFAULT_ACL, MAX_VALUE, SELINUX,
            acl::{self, Acl, Entry, NoEntry, Tag},
            capability::{self, FileCapabilities, NoCapabilities},
        },
        decode::{Cursor, Decoder, Fields},
        shape,
        source::Spanned,
        suggest,
        tree::Value,
    },
};

/// Of what there are attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    File,
    Directory,
    Symlink,
}

/// Attributes of one path, and entries of one access list, at most.
const MOST: usize = 256;
/// A name's length, at most (XATTR_NAME_MAX).
const MAX_NAME: usize = 255;

/// The fields that `owner` can have. `mode` is what is declared of it.
pub(super) fn attributes(
    decoder: &mut Decoder<'_>,
    fields: &mut Fields<'_>,
    owner: Owner,
    mode: Option<u32>,
) -> Attributes {
    let xattrs = fields.optional(decoder, "xattrs", |decoder, cursor| {
        xattrs(decoder, cursor, owner)
    });
    let selinux = fields.optional(decoder, "selinux", label);
    let mut attributes = Attributes {
        xattrs: xattrs.unwrap_or_default(),
        selinux,
        ..Attributes::default()
    };
    if owner == Owner::Symlink {
        return attributes;
    }
    let access = fields.optional(decoder, "acl", |decoder, cursor| {
        let list = access_list(decoder, cursor)?;
        agrees(decoder, cursor, &list, mode)?;
        Some(list)
    });
    attributes.acl = access.unwrap_or_default();
    let flags = fields.optional(decoder, "flags", flags);
    attributes.flags = flags;
    if owner == Owner::Directory {
        let default = fields.optional(decoder, "defaultAcl", access_list);
        attributes.default_acl = default.unwrap_or_default();
    } else {
        let capabilities = fields.optional(decoder, "capabilities", capabilities);
        attributes.capabilities = capabilities.unwrap_or_default();
    }
    attributes
}

fn xattrs(
    decoder: &mut Decoder<'_>,
    cursor: Cursor<'_>,
    owner: Owner,
) -> Option<BTreeMap<String, Option<Vec<u8>>>> {
    let mut all = BTreeMap::new();
    decoder.map(
        cursor,
        "a mapping of names to values",
        |decoder, name, at, value| {
            let value = xattr_value(decoder, value);
            if let Some((message, help)) = unfit(name, owner) {
                decoder.problem(at.problem(message).help(help));
            } else if let Some(value) = value {
                all.insert(name.to_string(), value);
            }
        },
    )?;
    if all.len() > MOST {
        let message = format!("more than {MOST} attributes");
        return decoder.wrong(cursor, message, "no file system keeps so many of one file");
    }
    Some(all)
}

/// Why there cannot be an attribute of this name, and what to write instead.
fn unfit(name: &str, owner: Owner) -> Option<(String, String)> {
    let shown = escape::name(name);
    let own = |field: &str| {
        let message = format!("{shown} is declared by a field of its own");
        Some((message, format!("write it as `{field}`")))
    };
    match name {
        SELINUX => return own("selinux"),
        CAPABILITY => return own("capabilities"),
        ACCESS_ACL => return own("acl"),
        DEFAULT_ACL => return own("defaultAcl"),
        _ => {}
    }
    if name.starts_with("trusted.overlay.") {
        let message = format!("{shown} belongs to the overlay file system itself");
        return Some((message, "remove it".to_owned()));
    }
    let space = name.split_once('.');
    let is_known = space.is_some_and(|(space, rest)| {
        matches!(space, "user" | "trusted" | "security") && !rest.is_empty()
    });
    if !is_known || name.len() > MAX_NAME || name.contains('\0') {
        let message = format!("{shown} cannot be the name of an extended attribute");
        let help = format!(
            "names begin with `user.`, `trusted.` or `security.`, and have at most {MAX_NAME} bytes"
        );
        return Some((message, help));
    }
    if owner == Owner::Symlink && name.starts_with("user.") {
        let message = format!("a symbolic link cannot have the attribute {shown}");
        let help = "only `trusted.` and `security.` ones can be on a link itself";
        return Some((message, help.to_owned()));
    }
    None
}

/// A text, `{base64: …}`, or `{absent: true}`. It may be a secret.
fn xattr_value(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Option<Vec<u8>>> {
    let cursor = cursor.private();
    let bytes = match cursor.scalar() {
        Some((text, Value::Text)) => text.as_bytes().to_vec(),
        Some((_, Value::Null)) => {
            let help =
                "an empty one is written `\"\"`; one that must not be there, `{absent: true}`";
            return decoder.expected(cursor, "a value", help);
        }
        Some(_) => decoder.text(cursor)?.as_bytes().to_vec(),
        None => {
            let mut fields = decoder.shaped(cursor, &shape::XATTR)?;
            let one = fields.one_of(decoder, &["base64", "absent"]);
            let bytes = fields.optional(decoder, "base64", |decoder, cursor| {
                let text = scalar::raw(decoder, cursor, "base64", "")?;
                let encoding = Encoding::Base64;
                match (Packed { encoding, text }).unpack(MAX_VALUE as u64) {
                    Ok(bytes) => Some(bytes),
                    Err(why) => decoder.wrong(cursor, why.to_string(), why.help()),
                }
            });
            let absent = fields.optional(decoder, "absent", truth);
            fields.end(decoder);
            match (one, bytes, absent) {
                (true, Some(bytes), _) => bytes,
                (true, None, Some(())) => return Some(None),
                _ => return None,
            }
        }
    };
    if bytes.len() > MAX_VALUE {
        let message = format!("{} bytes are too many for an attribute", bytes.len());
        return decoder.wrong(cursor, message, format!("there can be {MAX_VALUE}"));
    }
    Some(Some(bytes))
}

fn truth(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<()> {
    if decoder.flag(cursor)? {
        return Some(());
    }
    decoder.wrong(
        cursor,
        "an attribute that may be there is left alone",
        "write `absent: true`, or remove the attribute",
    )
}

/// A label of SELinux.
fn label(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<String> {
    const MAX_LABEL: usize = 4095;
    let text = decoder.text(cursor)?;
    let odd = |c: char| c.is_whitespace() || escape::is_deceptive(c);
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() < 3 || parts.contains(&"") || text.len() > MAX_LABEL || text.contains(odd) {
        let message = format!("{} is not a label", escape::name(&text));
        let help = "write it as `ls -Z` prints it, as in `system_u:object_r:etc_t:s0`";
        return decoder.wrong(cursor, message, help);
    }
    Some(text.to_string())
}

fn flags(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Flags> {
    let set = decoder.list(cursor, |decoder, flag| {
        decoder.word(flag, "flag", &Flags::ALL)
    })?;
    Some(set.into_iter().fold(Flags::default(), Flags::and))
}

/// `none`, or what `setcap` takes.
fn capabilities(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Wanted<FileCapabilities>> {
    const HELP: &str =
        "write it as `getcap` prints it, as in `cap_net_raw=ep`; a file that has none, `none`";
    let text = scalar::raw(decoder, cursor, "capabilities", HELP)?;
    if &*text == "none" {
        return Some(Wanted::Absent);
    }
    let shown = escape::name(&text);
    match FileCapabilities::parse(&text) {
        Ok(capabilities) => Some(Wanted::Present(capabilities)),
        Err(NoCapabilities::Unknown(name)) => {
            let names: Vec<String> = capability::names().collect();
            let meant = suggest::did_you_mean(&name, names.iter().map(String::as_str));
            let message = format!("there is no capability {}{meant}", escape::name(&name));
            decoder.wrong(cursor, message, HELP)
        }
        Err(NoCapabilities::Shape) => decoder.wrong(
            cursor,
            format!("{shown} is not a file's capabilities"),
            HELP,
        ),
        Err(NoCapabilities::Effective) => decoder.wrong(
            cursor,
            format!("no file can have {shown}: in effect are all that it gives, or none"),
            "give each capability the flag `e`, or none of them",
        ),
        Err(NoCapabilities::Nothing) => {
            decoder.wrong(cursor, format!("{shown} gives nothing"), "write `none`")
        }
    }
}

type Access = Wanted<Acl<Spanned<Principal>>>;

/// A text with commas or line ends between the entries, or a list of them. An empty list: nobody beside those of the mode.
fn access_list(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Access> {
    let before = decoder.problems();
    let mut list = List::default();
    match cursor.scalar() {
        Some((text, Value::Text)) => {
            for line in text.lines() {
                let line = line.split('#').next().unwrap_or(line);
                for entry in line.split(',').filter(|entry| !entry.trim().is_empty()) {
                    list.add(decoder, cursor, &Arc::from(entry));
                }
            }
            if list.count == 0 {
                let help = "where nobody is named beside those of the mode, write `[]`";
                return decoder.wrong(cursor, "there is no entry in it", help);
            }
        }
        Some(_) => return decoder.expected(cursor, "a list of entries, or a text", ""),
        None => {
            decoder.list(cursor, |decoder, cursor| {
                let text = decoder.text(cursor)?;
                list.add(decoder, cursor, &text);
                Some(())
            })?;
        }
    }
    if list.count > MOST {
        let message = format!("more than {MOST} entries");
        return decoder.wrong(cursor, message, "make them members of a group");
    }
    if decoder.problems() != before {
        return None;
    }
    if list.count == 0 {
        return Some(Wanted::Absent);
    }
    list.whole(decoder, cursor).map(Wanted::Present)
}

/// An access list that is being read.
#[derive(Default)]
struct List {
    count: usize,
    user: Option<u8>,
    group: Option<u8>,
    mask: Option<u8>,
    other: Option<u8>,
    users: Vec<(Spanned<Principal>, u8)>,
    groups: Vec<(Spanned<Principal>, u8)>,
}

impl List {
    fn add(
        &mut self,
        decoder: &mut Decoder<'_>,
        cursor: Cursor<'_>,
        text: &Arc<str>,
    ) -> Option<()> {
        const HELP: &str = "write entries as `getfacl` prints them, as in `user::rw-`, `user:alice:r--`, `group::r--`, `mask::r--`, `other::---`";
        self.count += 1;
        if self.count > MOST {
            return None; // said once, at the end
        }
        let shown = escape::name(text.trim());
        let entry = match Entry::parse(text) {
            Ok(entry) => entry,
            Err(NoEntry::Default) => {
                let message = format!("{shown} is about what will be made in the directory");
                let help = "write it in `defaultAcl`, without `default:`";
                return decoder.wrong(cursor, message, help);
            }
            Err(NoEntry::Permissions) => {
                let message = format!("{shown} does not say what is permitted");
                return decoder.wrong(
                    cursor,
                    message,
                    "write `r`, `w` and `x`, or `-` in their place",
                );
            }
            Err(NoEntry::Tag | NoEntry::Shape) => {
                let word = text.trim().split(':').next().unwrap_or_default();
                let meant = suggest::did_you_mean(word, ["user", "group", "mask", "other"]);
                let message = format!("{shown} is not an entry of an access list{meant}");
                return decoder.wrong(cursor, message, HELP);
            }
        };
        let place = match (entry.tag, entry.name) {
            (Tag::User, "") => &mut self.user,
            (Tag::Group, "") => &mut self.group,
            (Tag::Mask, _) => &mut self.mask,
            (Tag::Other, _) => &mut self.other,
            (tag @ (Tag::User | Tag::Group), name) => {
                let (what, named) = match tag {
                    Tag::User => ("user", &mut self.users),
                    _ => ("group", &mut self.groups),
                };
                let who = scalar::principal_of(decoder, cursor, name, true, what)?;
                if named.iter().any(|(other, _)| *other == who) {
                    let message = format!("{} has two entries", escape::name(name));
                    return decoder.wrong(cursor, message, "remove one of them");
                }
                named.push((who, entry.permissions));
                return Some(());
            }
        };
        if place.replace(entry.permissions).is_some() {
            let message = format!("{shown} is the second of its kind");
            return decoder.wrong(cursor, message, "remove one of them");
        }
        Some(())
    }

    /// The access list, if nothing is missing.
    fn whole(
        self,
        decoder: &mut Decoder<'_>,
        cursor: Cursor<'_>,
    ) -> Option<Acl<Spanned<Principal>>> {
        let Self {
            count: _,
            user,
            group,
            mask,
            other,
            mut users,
            mut groups,
        } = self;
        let named = !users.is_empty() || !groups.is_empty();
        let needed = [
            ("user::", user.is_some()),
            ("group::", group.is_some()),
            ("mask::", mask.is_some() || !named),
            ("other::", other.is_some()),
        ];
        let missing: Vec<String> = needed
            .iter()
            .filter(|(_, there)| !there)
            .map(|(entry, _)| format!("`{entry}`"))
            .collect();
        let (Some(user), Some(group), Some(other), []) = (user, group, other, &missing[..]) else {
            let message = format!("the access list has no {}", missing.join(", no "));
            let help =
                "user::, group:: and other:: are always there, mask:: where others are named";
            return decoder.wrong(cursor, message, help);
        };
        let order =
            |a: &(Spanned<Principal>, u8), b: &(Spanned<Principal>, u8)| a.0.value.cmp(&b.0.value);
        users.sort_by(order);
        groups.sort_by(order);
        Some(Acl {
            user,
            group,
            other,
            mask,
            users,
            groups,
        })
    }
}

/// A mode and an access list say the same of the owner, of the group (or of the mask, where there is one) and of others.
fn agrees(
    decoder: &mut Decoder<'_>,
    cursor: Cursor<'_>,
    list: &Access,
    mode: Option<u32>,
) -> Option<()> {
    let (Wanted::Present(acl), Some(mode)) = (list, mode) else {
        return Some(());
    };
    if acl.mode() == mode & 0o777 {
        return Some(());
    }
    let group = if acl.mask.is_some() { "mask" } else { "group" };
    let parts = [("user", 6), (group, 3), ("other", 0)];
    let said = parts
        .iter()
        .filter(|(_, shift)| (acl.mode() ^ mode) >> shift & 7 != 0)
        .map(|(entry, shift)| {
            let text = |bits: u32| acl::permissions_text((bits >> shift & 7) as u8);
            format!(
                "{entry}::{} where the mode has {}",
                text(acl.mode()),
                text(mode)
            )
        });
    let said: Vec<String> = said.collect();
    let message = format!("the access list says {}", said.join(", "));
    let help = format!(
        "this list comes with the mode \"{:04o}\": the mode's group bits are the mask's, where there is one",
        mode & 0o7000 | acl.mode()
    );
    decoder.wrong(cursor, message, help)
}
