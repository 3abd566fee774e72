//! What differs in the attributes beside mode and owner, in words. Values that anything can be in are not told: only what has a meaning to the kernel is.

use drift_common::{
    escape,
    policy::{ACCESS_ACL, Acl, CAPABILITY, DEFAULT_ACL, FileCapabilities, Flags, SELINUX},
};

use crate::{
    compare::attribute::{Verdict, Which, verdicts},
    declare::{Attribute, Declared, Expect},
    observe::{Observed, Reading},
};

/// Characters of one side that are told.
const TOLD: usize = 200;

/// What is not as declared, one clause each.
pub fn differences(declared: &Declared, observed: &Observed) -> Vec<String> {
    let readings: Vec<_> = declared
        .attributes
        .named
        .iter()
        .zip(&observed.attributes)
        .collect();
    let reading = |attribute: &Attribute| {
        let found = readings
            .iter()
            .find(|(other, _)| other.name == attribute.name);
        found.map(|(_, reading)| *reading)
    };
    let mode = observed.stat.map_or(0, |stat| stat.mode);
    verdicts(declared, observed)
        .filter_map(|(which, verdict)| {
            let what = what(which);
            match verdict {
                Verdict::Same => None,
                Verdict::Unsupported => Some(format!(
                    "its file system cannot hold {what}, which stays as it is"
                )),
                Verdict::Unknown(kind) => Some(format!("{what} cannot be read ({kind})")),
                Verdict::Other => Some(match which {
                    Which::Flags => {
                        let flags = |flags: Option<Flags>| {
                            let names: Vec<_> = flags.into_iter().flat_map(Flags::names).collect();
                            if names.is_empty() {
                                "none".to_owned()
                            } else {
                                names.join(",")
                            }
                        };
                        let found = observed.stat.and_then(|stat| stat.flags);
                        format!(
                            "{what}: {}, not {}",
                            flags(found),
                            flags(declared.attributes.flags)
                        )
                    }
                    Which::Named(attribute) => match (&attribute.expect, reading(attribute)) {
                        (Expect::Value(_), Some(Reading::Value(_))) => {
                            format!("{what} has another value")
                        }
                        (Expect::Value(_), _) => format!("{what} is not there"),
                        (expect, reading) => {
                            let found = reading.and_then(|reading| found(attribute, reading, mode));
                            match (wanted(expect), found) {
                                (Some(wanted), Some(found)) => {
                                    format!("{what}: {}, not {}", told(&found), told(&wanted))
                                }
                                (Some(wanted), None) => {
                                    format!("{what}: none, not {}", told(&wanted))
                                }
                                (None, Some(found)) => {
                                    format!("{what}: {}, not none", told(&found))
                                }
                                (None, None) => format!("{what} may not be there"),
                            }
                        }
                    },
                }),
            }
        })
        .collect()
}

fn what(which: Which<'_>) -> String {
    let Which::Named(attribute) = which else {
        return "flags".to_owned();
    };
    let word = match attribute.name.to_str() {
        Ok(ACCESS_ACL) => "access list",
        Ok(DEFAULT_ACL) => "default access list",
        Ok(SELINUX) => "label",
        Ok(CAPABILITY) => "capabilities",
        _ => {
            let name = escape::bytes(attribute.name.as_bytes());
            return format!("attribute {name}");
        }
    };
    word.to_owned()
}

fn wanted(expect: &Expect) -> Option<String> {
    match expect {
        Expect::Absent | Expect::Value(_) => None,
        Expect::Label(label) => Some(label.clone()),
        Expect::Capabilities(capabilities) => Some(capabilities.to_string()),
        Expect::Access(acl) | Expect::Default(acl) => Some(acl.to_string()),
    }
}

/// What stands there, where that has a meaning to the kernel.
fn found(attribute: &Attribute, reading: &Reading, mode: u32) -> Option<String> {
    let access = attribute.name.to_str() == Ok(ACCESS_ACL);
    let value = match reading {
        Reading::Value(value) => value,
        Reading::Absent | Reading::Unsupported if access => {
            return Some(Acl::of_mode(mode).to_string());
        }
        Reading::Absent | Reading::Unsupported | Reading::Failed(_) => return None,
    };
    match attribute.name.to_str() {
        Ok(ACCESS_ACL | DEFAULT_ACL) => Acl::from_xattr(value).map(|acl| acl.to_string()),
        Ok(CAPABILITY) => FileCapabilities::from_xattr(value).map(|it| it.to_string()),
        Ok(SELINUX) => {
            let label = value.strip_suffix(b"\0").unwrap_or(value);
            Some(escape::bytes(label).into_owned())
        }
        _ => None,
    }
}

/// The beginning of a text that may be long.
fn told(text: &str) -> String {
    if text.chars().count() <= TOLD {
        return text.to_owned();
    }
    text.chars().take(TOLD).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        declare::{Attributes, sample},
        observe::{Found, Known},
    };

    fn look(attributes: Vec<Reading>) -> Observed {
        Observed {
            found: Found::File(None),
            body: None,
            lines: None,
            held: None,
            stat: None,
            attributes,
            known: Known::default(),
            writers: 0,
        }
    }

    #[test]
    fn what_differs_is_named_and_free_values_are_not_told() {
        #[track_caller]
        fn check(name: &str, expect: Expect, reading: Reading, said: &str) {
            let mut declared = sample::declared("/etc/f", sample::file(b"x"));
            let name = std::ffi::CString::new(name).unwrap();
            declared.attributes = Attributes {
                named: vec![Attribute { name, expect }],
                flags: None,
            };
            assert_eq!(differences(&declared, &look(vec![reading])), [said]);
        }
        let secret = || b"secret".to_vec();
        check(
            "user.k",
            Expect::Value(b"x".to_vec()),
            Reading::Value(secret()),
            "attribute user.k has another value",
        );
        check(
            "user.k",
            Expect::Value(secret()),
            Reading::Absent,
            "attribute user.k is not there",
        );
        check(
            "user.k\u{1b}",
            Expect::Absent,
            Reading::Value(secret()),
            "attribute user.k\\x1b may not be there",
        );
        check(
            SELINUX,
            Expect::Label("a:b:c".into()),
            Reading::Value(b"a:b:d\x1b\0".to_vec()),
            "label: a:b:d\\x1b, not a:b:c",
        );
        let raw = FileCapabilities::parse("cap_net_raw=ep").unwrap();
        check(
            CAPABILITY,
            Expect::Capabilities(raw),
            Reading::Absent,
            "capabilities: none, not cap_net_raw=ep",
        );
        check(
            CAPABILITY,
            Expect::Absent,
            Reading::Value(raw.to_xattr()),
            "capabilities: cap_net_raw=ep, not none",
        );
        check(
            ACCESS_ACL,
            Expect::Access(Acl::of_mode(0o640)),
            Reading::Absent,
            "access list: user::---,group::---,other::---, not user::rw-,group::r--,other::---",
        );
        check(
            "trusted.k",
            Expect::Value(secret()),
            Reading::Unsupported,
            "its file system cannot hold attribute trusted.k, which stays as it is",
        );
        check(
            "trusted.k",
            Expect::Value(secret()),
            Reading::Failed(std::io::ErrorKind::PermissionDenied),
            "attribute trusted.k cannot be read (permission denied)",
        );
    }
}
