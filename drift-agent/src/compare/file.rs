//! A regular file with declared content.

use crate::{
    compare::Drift,
    declare::Declared,
    observe::{Found, Observed},
};

/// What differs, sorted, each kind once; empty: as declared.
#[must_use]
pub fn file(declared: &Declared, observed: &Observed) -> Vec<Drift> {
    let digest = match &observed.found {
        Found::Absent => return vec![Drift::Missing],
        Found::Relocated => return vec![Drift::Relocated],
        Found::Unreadable(_) => return vec![Drift::Unreadable],
        Found::Unstable => return vec![Drift::Unstable],
        // What the mode of a link or a directory should be, nobody has said.
        Found::Other(_) => return vec![Drift::Type],
        Found::File(digest) => digest,
    };
    let mut drifts = Vec::new();
    // A file too large to be read is larger than anything that can be declared.
    if *digest != Some(declared.digest) {
        drifts.push(Drift::Content);
    }
    if let Some(stat) = &observed.stat {
        if declared.mode.is_some_and(|mode| mode != stat.mode) {
            drifts.push(Drift::Mode);
        }
        let other = |declared: Option<u32>, id| declared.is_some_and(|declared| declared != id);
        if other(declared.uid, stat.uid) || other(declared.gid, stat.gid) {
            drifts.push(Drift::Owner);
        }
    }
    drifts
}

#[cfg(test)]
mod tests {
    use std::{io::ErrorKind, path::Path, sync::Arc, time::Duration};

    use super::*;
    use crate::{
        declare::{ActivePolicy, Backoff, Mode, Position},
        observe::{Known, Stat, Times},
        report::FileType,
    };

    fn declared(mode: Option<u32>, uid: Option<u32>, gid: Option<u32>) -> Declared {
        Declared {
            path: "/etc/f".into(),
            policy: Arc::new(ActivePolicy {
                name: "p".into(),
                version: "1.0.0".into(),
                mode: Mode::Heal,
                backoff: Backoff {
                    first: Duration::ZERO,
                    factor: 1,
                    cap: Duration::ZERO,
                },
            }),
            content: Arc::from(&b"x"[..]),
            digest: blake3::hash(b"x"),
            mode,
            uid,
            gid,
            at: Position {
                file: Arc::from(Path::new("p.yaml")),
                line: 1,
                column: 1,
            },
        }
    }

    fn look(found: Found, mode: u32, uid: u32, gid: u32) -> Observed {
        Observed {
            found,
            stat: Some(Stat {
                file_type: FileType::File,
                mode,
                uid,
                gid,
                size: 1,
                links: 1,
                ino: 1,
                dev: (0, 1),
                times: Times {
                    mtime: (0, 0),
                    ctime: (0, 0),
                },
            }),
            known: Known::default(),
            writers: 0,
        }
    }

    #[test]
    fn what_stands_there_decides() {
        let right = Found::File(Some(blake3::hash(b"x")));
        let wrong = Found::File(Some(blake3::hash(b"y")));
        for (found, expected) in [
            (right, vec![]),
            (wrong, vec![Drift::Content]),
            (Found::File(None), vec![Drift::Content]),
            (Found::Absent, vec![Drift::Missing]),
            (Found::Relocated, vec![Drift::Relocated]),
            (
                Found::Unreadable(ErrorKind::PermissionDenied),
                vec![Drift::Unreadable],
            ),
            (Found::Unstable, vec![Drift::Unstable]),
            (Found::Other(FileType::Fifo), vec![Drift::Type]),
        ] {
            assert_eq!(
                file(
                    &declared(None, None, None),
                    &look(found.clone(), 0o644, 0, 0)
                ),
                expected,
                "{found:?}"
            );
        }
    }

    #[test]
    fn each_attribute_counts_by_itself_and_only_where_it_is_declared() {
        // All combinations of: mode declared, mode wrong, uid declared, uid wrong, gid declared, gid wrong, content wrong.
        for bits in 0u32..128 {
            let bit = |index: u32| bits >> index & 1 == 1;
            let declared = declared(
                bit(0).then_some(0o4755),
                bit(2).then_some(5),
                bit(4).then_some(6),
            );
            let observed = look(
                Found::File(Some(blake3::hash(if bit(6) { b"y" } else { b"x" }))),
                if bit(1) { 0o755 } else { 0o4755 },
                if bit(3) { 50 } else { 5 },
                if bit(5) { 60 } else { 6 },
            );
            let drifts = file(&declared, &observed);
            assert_eq!(drifts.contains(&Drift::Content), bit(6), "{bits:b}");
            assert_eq!(drifts.contains(&Drift::Mode), bit(0) && bit(1), "{bits:b}");
            assert_eq!(
                drifts.contains(&Drift::Owner),
                (bit(2) && bit(3)) || (bit(4) && bit(5)),
                "{bits:b}"
            );
            assert!(drifts.is_sorted());
        }
    }
}
