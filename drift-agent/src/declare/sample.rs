//! Declared paths for the tests of what comes after.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use drift_common::policy;

use super::{
    ActivePolicy, Backoff, Compare, Content, Declared, Evidence, Guard, Heed, Link, Mode, Position,
    Severity, Target, Through,
};
use crate::compare::structured::{Absence, Format, Keys, Meaning, Rules};

/// A path of the policy "p", to be healed at once; nothing else is declared of it.
pub(crate) fn declared(path: impl Into<PathBuf>, target: Target) -> Declared {
    Declared {
        path: path.into(),
        through: None,
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
            evidence: Evidence::default(),
        }),
        target,
        mode: None,
        uid: None,
        gid: None,
        attributes: super::Attributes::default(),
        on_drift: Mode::Heal,
        severity: Severity::default(),
        after_heal: Vec::new(),
        at: Position {
            file: Arc::from(Path::new("p.yaml")),
            line: 1,
            column: 1,
        },
    }
}

/// A file with this content, compared by what it says; of `manage` only, where that is not empty.
pub(crate) fn structured(format: Format, content: &str, manage: &[&str]) -> Target {
    let manage = manage.iter().map(|pointer| (*pointer).to_owned());
    let rules = policy::Rules {
        format,
        sets: Vec::new(),
        ignore: Vec::new(),
        equal: Vec::new(),
        manage: Some(manage.collect()).filter(|manage: &Vec<_>| !manage.is_empty()),
        absent: Absence::default(),
        keys: Keys::default(),
    };
    let understood = Rules::of(&rules, Heed::Exact, Heed::Exact).expect("pointers");
    let meaning = Meaning::of(format, understood, content.as_bytes()).expect("it parses");
    Target::File(Content {
        compare: Compare::Structured(Box::new(rules)),
        meaning: Some(Box::new(meaning)),
        ..Content::exact(Arc::from(content.as_bytes()))
    })
}

/// A file with exactly this content.
pub(crate) fn file(content: &[u8]) -> Target {
    Target::File(Content::exact(Arc::from(content)))
}

/// The path, reached through these links, each with what it holds, to where it really is.
pub(crate) fn through(declared: Declared, links: &[(&Path, &str)], real: &Path) -> Declared {
    let links = links.iter().map(|(path, target)| Link {
        path: (*path).to_owned(),
        target: (*target).into(),
    });
    let through = Some(Box::new(Through {
        links: links.collect(),
        real: real.to_owned(),
    }));
    Declared {
        through,
        ..declared
    }
}
