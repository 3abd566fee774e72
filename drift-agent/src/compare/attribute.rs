//! Attributes beside mode and owner: each by itself, by what it means.

use std::io;

use drift_common::policy::{Acl, FileCapabilities};

use crate::{
    declare::{Attribute, Declared, Expect},
    observe::{Observed, Reading},
};

/// What comes of one declared attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Same,
    Other,
    /// It cannot be as declared: the file system does not have it.
    Unsupported,
    /// It cannot be read, and why.
    Unknown(io::ErrorKind),
}

/// One declared attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<'d> {
    Named(&'d Attribute),
    Flags,
}

/// One extended attribute; `mode` stands for an access list that is not there.
#[must_use]
pub fn verdict(expect: &Expect, reading: &Reading, mode: u32) -> Verdict {
    let same = match (expect, reading) {
        (_, Reading::Failed(kind)) => return Verdict::Unknown(*kind),
        (Expect::Absent, Reading::Absent | Reading::Unsupported) => true,
        (Expect::Absent, Reading::Value(_)) => false,
        (expect, Reading::Unsupported) if expect.needs_an_attribute() => {
            return Verdict::Unsupported;
        }
        (Expect::Access(acl), Reading::Absent | Reading::Unsupported) => *acl == Acl::of_mode(mode),
        (_, Reading::Unsupported) => return Verdict::Unsupported,
        (_, Reading::Absent) => false,
        (Expect::Value(bytes), Reading::Value(value)) => bytes == value,
        (Expect::Label(label), Reading::Value(value)) => {
            value.strip_suffix(b"\0").unwrap_or(value) == label.as_bytes()
        }
        (Expect::Capabilities(capabilities), Reading::Value(value)) => {
            FileCapabilities::from_xattr(value) == Some(*capabilities)
        }
        (Expect::Access(acl) | Expect::Default(acl), Reading::Value(value)) => {
            Acl::from_xattr(value).as_ref() == Some(acl)
        }
    };
    if same { Verdict::Same } else { Verdict::Other }
}

/// Every declared attribute of what stands there.
pub fn verdicts<'d>(
    declared: &'d Declared,
    observed: &Observed,
) -> impl Iterator<Item = (Which<'d>, Verdict)> {
    let stat = observed.stat;
    let mode = stat.map_or(0, |stat| stat.mode);
    let named = declared.attributes.named.iter().zip(&observed.attributes);
    let named = named.map(move |(attribute, reading)| {
        let verdict = verdict(&attribute.expect, reading, mode);
        (Which::Named(attribute), verdict)
    });
    let flags = declared.attributes.flags.zip(stat).map(|(declared, stat)| {
        let verdict = match stat.flags {
            Some(flags) if flags == declared => Verdict::Same,
            None if declared == Default::default() => Verdict::Same,
            Some(_) => Verdict::Other,
            None => Verdict::Unsupported,
        };
        (Which::Flags, verdict)
    });
    let mut all: Vec<_> = named.collect();
    all.extend(flags);
    all.into_iter()
}

/// Whether nothing of what differs in the attributes could be put back: the file system cannot hold it.
#[must_use]
pub fn out_of_reach(declared: &Declared, observed: &Observed) -> bool {
    let mut verdicts = verdicts(declared, observed).map(|(_, verdict)| verdict);
    verdicts.all(|verdict| matches!(verdict, Verdict::Same | Verdict::Unsupported))
}

#[cfg(test)]
mod tests;
