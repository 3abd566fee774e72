//! Declared paths for the tests of what comes after.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{ActivePolicy, Backoff, Content, Declared, Guard, Mode, Position, Severity, Target};

/// A path of the policy "p", to be healed at once; nothing else is declared of it.
pub(crate) fn declared(path: impl Into<PathBuf>, target: Target) -> Declared {
    Declared {
        path: path.into(),
        policy: Arc::new(ActivePolicy {
            name: "p".into(),
            version: "1.0.0".into(),
            digest: blake3::hash(b""),
            mode: Mode::Heal,
            guard: Guard {
                backoff: Backoff {
                    first: Duration::ZERO,
                    factor: 1,
                    cap: Duration::ZERO,
                },
                fight: None,
                ..Guard::default()
            },
        }),
        target,
        mode: None,
        uid: None,
        gid: None,
        attributes: super::Attributes::default(),
        on_drift: Mode::Heal,
        severity: Severity::default(),
        at: Position {
            file: Arc::from(Path::new("p.yaml")),
            line: 1,
            column: 1,
        },
    }
}

/// A file with exactly this content.
pub(crate) fn file(content: &[u8]) -> Target {
    Target::File(Content::exact(Arc::from(content)))
}
