//! The capabilities of a file: as text, and as the kernel keeps them.

use std::fmt;

/// What a program gets from its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCapabilities {
    /// A bit for each capability.
    pub permitted: u64,
    pub inheritable: u64,
    /// What it gets is in effect at once. One switch for all of them.
    pub effective: bool,
    /// The user who is root in the only user namespace that this counts in; 0: everywhere.
    pub root: u32,
}

/// By number.
const NAMES: [&str; 41] = [
    "chown",
    "dac_override",
    "dac_read_search",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "linux_immutable",
    "net_bind_service",
    "net_broadcast",
    "net_admin",
    "net_raw",
    "ipc_lock",
    "ipc_owner",
    "sys_module",
    "sys_rawio",
    "sys_chroot",
    "sys_ptrace",
    "sys_pacct",
    "sys_admin",
    "sys_boot",
    "sys_nice",
    "sys_resource",
    "sys_time",
    "sys_tty_config",
    "mknod",
    "lease",
    "audit_write",
    "audit_control",
    "setfcap",
    "mac_override",
    "mac_admin",
    "syslog",
    "wake_alarm",
    "block_suspend",
    "audit_read",
    "perfmon",
    "bpf",
    "checkpoint_restore",
];

/// What `all` stands for.
const ALL: u64 = (1 << NAMES.len()) - 1;

/// Why a text does not stand for capabilities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCapabilities {
    /// There is none of this name.
    Unknown(String),
    /// It is not written as `setcap` takes it.
    Shape,
    /// In effect must be all that a program gets, or nothing.
    Effective,
    /// Nothing is left.
    Nothing,
}

impl FileCapabilities {
    /// As `setcap` takes and `getcap` prints it: `cap_net_raw=ep`, `cap_chown,cap_kill+p`, `cap_net_raw=ep [rootid=1000]`.
    ///
    /// # Errors
    /// It is nothing that a file can have.
    pub fn parse(text: &str) -> Result<Self, NoCapabilities> {
        let [mut effective, mut permitted, mut inheritable] = [0; 3];
        let mut root = None;
        for clause in text.split_ascii_whitespace() {
            if let Some(id) = clause
                .strip_prefix("[rootid=")
                .and_then(|rest| rest.strip_suffix(']'))
            {
                let id = id.parse().map_err(|_| NoCapabilities::Shape)?;
                if root.replace(id).is_some() {
                    return Err(NoCapabilities::Shape);
                }
                continue;
            }
            let at = clause.find(['=', '+', '-']).ok_or(NoCapabilities::Shape)?;
            let (names, mut operations) = clause.split_at(at);
            let bits = match names {
                // Only of nothing at all can be said what it is.
                "" if operations.starts_with('=') => ALL,
                names => listed(names)?,
            };
            let mut first = true;
            while !operations.is_empty() {
                let (operator, rest) = operations.split_at(1);
                let end = rest.find(['=', '+', '-']).unwrap_or(rest.len());
                let (flags, rest) = rest.split_at(end);
                operations = rest;
                if operator == "=" {
                    if !first {
                        return Err(NoCapabilities::Shape);
                    }
                    for set in [&mut effective, &mut permitted, &mut inheritable] {
                        *set &= !bits;
                    }
                } else if flags.is_empty() {
                    return Err(NoCapabilities::Shape);
                }
                first = false;
                for flag in flags.bytes() {
                    let set = match flag {
                        b'e' => &mut effective,
                        b'p' => &mut permitted,
                        b'i' => &mut inheritable,
                        _ => return Err(NoCapabilities::Shape),
                    };
                    if operator == "-" {
                        *set &= !bits;
                    } else {
                        *set |= bits;
                    }
                }
            }
        }
        match (effective, permitted | inheritable) {
            (0, 0) => Err(NoCapabilities::Nothing),
            (effective, gets) if effective != 0 && effective != gets => {
                Err(NoCapabilities::Effective)
            }
            _ => Ok(Self {
                permitted,
                inheritable,
                effective: effective != 0,
                root: root.unwrap_or(0),
            }),
        }
    }

    /// From the value of an extended attribute; `None` where it is none of these.
    #[must_use]
    pub fn from_xattr(value: &[u8]) -> Option<Self> {
        let words: Vec<u32> = value
            .chunks(4)
            .map(|word| word.try_into().ok().map(u32::from_le_bytes))
            .collect::<Option<_>>()?;
        let (magic, words) = words.split_first()?;
        let wide = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        let (permitted, inheritable, root) = match (magic & REVISION_MASK, words) {
            (REVISION_1, &[p, i]) => (u64::from(p), u64::from(i), 0),
            (REVISION_2, &[p, i, p2, i2]) => (wide(p, p2), wide(i, i2), 0),
            (REVISION_3, &[p, i, p2, i2, root]) => (wide(p, p2), wide(i, i2), root),
            _ => return None,
        };
        Some(Self {
            permitted,
            inheritable,
            effective: magic & EFFECTIVE != 0,
            root,
        })
    }

    /// The value of an extended attribute.
    #[must_use]
    pub fn to_xattr(&self) -> Vec<u8> {
        let revision = if self.root == 0 {
            REVISION_2
        } else {
            REVISION_3
        };
        let magic = revision | if self.effective { EFFECTIVE } else { 0 };
        let words = [
            magic,
            self.permitted as u32,
            self.inheritable as u32,
            (self.permitted >> 32) as u32,
            (self.inheritable >> 32) as u32,
        ];
        let root = (self.root != 0).then_some(self.root);
        let words = words.into_iter().chain(root);
        words.flat_map(u32::to_le_bytes).collect()
    }
}

const REVISION_MASK: u32 = 0xff00_0000;
const REVISION_1: u32 = 0x0100_0000;
const REVISION_2: u32 = 0x0200_0000;
const REVISION_3: u32 = 0x0300_0000;
const EFFECTIVE: u32 = 1;

fn listed(names: &str) -> Result<u64, NoCapabilities> {
    let mut bits = 0;
    for name in names.split(',') {
        let lower = name.to_ascii_lowercase();
        if lower == "all" {
            bits |= ALL;
            continue;
        }
        let known = |short| NAMES.iter().position(|name| *name == short);
        let number = match lower.strip_prefix("cap_").and_then(known) {
            Some(number) => number,
            // One that this program does not know yet, as `getcap` prints it.
            None => match lower.parse() {
                Ok(number) if number < 64 => number,
                _ => return Err(NoCapabilities::Unknown(name.to_owned())),
            },
        };
        bits |= 1 << number;
    }
    Ok(bits)
}

/// Every name, as `setcap` takes it.
pub fn names() -> impl Iterator<Item = String> {
    NAMES.iter().map(|name| format!("cap_{name}"))
}

/// In the one spelling that stands for all.
impl fmt::Display for FileCapabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            permitted,
            inheritable,
            effective,
            root,
        } = *self;
        let mut space = "";
        for (bits, flags) in [
            (permitted & !inheritable, "p"),
            (inheritable & !permitted, "i"),
            (permitted & inheritable, "ip"),
        ] {
            if bits == 0 {
                continue;
            }
            f.write_str(space)?;
            space = " ";
            if bits == ALL {
                f.write_str("all")?;
            } else {
                let mut comma = "";
                for number in (0..64).filter(|number| bits >> number & 1 == 1) {
                    f.write_str(comma)?;
                    comma = ",";
                    match NAMES.get(number) {
                        Some(name) => write!(f, "cap_{name}")?,
                        None => write!(f, "{number}")?,
                    }
                }
            }
            let effective = if effective { "e" } else { "" };
            write!(f, "={effective}{flags}")?;
        }
        if space.is_empty() {
            f.write_str("=")?;
        }
        if root != 0 {
            write!(f, " [rootid={root}]")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NET_RAW: u64 = 1 << 13;

    #[test]
    fn one_meaning_has_one_spelling() {
        #[track_caller]
        fn check(text: &str, expected: &str) {
            let read = FileCapabilities::parse(text).map(|capabilities| capabilities.to_string());
            assert_eq!(read.as_deref(), Ok(expected), "{text}");
        }
        check("cap_net_raw=ep", "cap_net_raw=ep");
        check("cap_net_raw+pe", "cap_net_raw=ep");
        check("CAP_NET_RAW=p cap_net_raw+e", "cap_net_raw=ep");
        check("cap_kill,cap_chown=p", "cap_chown,cap_kill=p");
        check("all=ip", "all=ip");
        check("=ep", "all=ep");
        let all_but_chown = names().skip(1).collect::<Vec<_>>().join(",");
        check(
            "all=p cap_chown-p cap_chown+i",
            &format!("{all_but_chown}=p cap_chown=i"),
        );
        check("cap_chown=p cap_kill=i", "cap_chown=p cap_kill=i");
        check("cap_chown=p cap_chown=i", "cap_chown=i");
        check(
            "cap_net_raw=ep [rootid=1000]",
            "cap_net_raw=ep [rootid=1000]",
        );
        check("cap_net_raw=ep [rootid=0]", "cap_net_raw=ep");
        check("41,cap_chown=p", "cap_chown,41=p");
    }

    #[test]
    fn what_no_file_can_have_is_refused() {
        #[track_caller]
        fn check(text: &str, expected: NoCapabilities) {
            assert_eq!(FileCapabilities::parse(text), Err(expected), "{text}");
        }
        check("", NoCapabilities::Nothing);
        check("=", NoCapabilities::Nothing);
        check("cap_chown=p cap_chown-p", NoCapabilities::Nothing);
        check("cap_chown", NoCapabilities::Shape);
        check("cap_chown=x", NoCapabilities::Shape);
        check("cap_chown+", NoCapabilities::Shape);
        check("cap_chown+p=e", NoCapabilities::Shape);
        check("[rootid=x]", NoCapabilities::Shape);
        check(
            "cap_netraw=ep",
            NoCapabilities::Unknown("cap_netraw".into()),
        );
        check("64=p", NoCapabilities::Unknown("64".into()));
        check("+p", NoCapabilities::Unknown(String::new()));
        check("cap_chown=ep cap_kill=p", NoCapabilities::Effective);
        check("cap_chown=e", NoCapabilities::Effective);
    }

    #[test]
    fn every_revision_of_the_kernels_form_is_read() {
        let words = |words: &[u32]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_le_bytes()).collect()
        };
        let expected = FileCapabilities {
            permitted: NET_RAW,
            effective: true,
            ..FileCapabilities::default()
        };
        let raw = NET_RAW as u32;
        for value in [
            words(&[0x0100_0001, raw, 0]),
            words(&[0x0200_0001, raw, 0, 0, 0]),
            words(&[0x0300_0001, raw, 0, 0, 0, 0]),
        ] {
            assert_eq!(FileCapabilities::from_xattr(&value), Some(expected));
            assert_eq!(
                FileCapabilities::from_xattr(&value[..value.len() - 1]),
                None
            );
        }
        assert_eq!(FileCapabilities::from_xattr(b""), None);
        assert_eq!(
            FileCapabilities::from_xattr(&words(&[0x0400_0000, 0, 0])),
            None
        );
    }

    proptest! {
        #[test]
        fn text_and_value_come_back_the_same(
            permitted: u64, inheritable: u64, effective: bool, root in prop_oneof![Just(0), any::<u32>()]
        ) {
            prop_assume!(permitted | inheritable != 0);
            let capabilities = FileCapabilities { permitted, inheritable, effective, root };
            prop_assert_eq!(FileCapabilities::parse(&capabilities.to_string()), Ok(capabilities));
            prop_assert_eq!(FileCapabilities::from_xattr(&capabilities.to_xattr()), Some(capabilities));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[ -~]{0,40}|(cap_(chown|kill),?|all|[=+-]|[epi]| ){0,12}") {
            if let Ok(capabilities) = FileCapabilities::parse(&text) {
                prop_assert_eq!(FileCapabilities::parse(&capabilities.to_string()), Ok(capabilities));
            }
        }
    }
}
