//! The language of policies.
//!
//! Policies are the project's Kubernetes resources as YAML, in files or in a cluster. A [`PolicyVersion`] says what must be, a [`Policy`]
//! which version is active and what to do on drift:
//!
//! ```yaml
//! apiVersion: configdrift.io/v1alpha1
//! kind: PolicyVersion
//! metadata: {name: web-1.2.0}
//! spec:
//!   policy: web
//!   version: 1.2.0                     # semantic version
//!   files:
//!     - path: /etc/app/app.conf        # or pathBytes: its base64, where it is not UTF-8
//!       content: {inline: "listen = 80\n"}   # exactly these bytes; or base64, gzip, dataUrl, file (relative to this policy file), digest, configMap, secret
//!       mode: "0644"                   # optional, as are owner and group (name or id): undeclared is left alone
//!       owner: root
//!       group: root
//! ---
//! apiVersion: configdrift.io/v1alpha1
//! kind: Policy
//! metadata: {name: web}
//! spec:
//!   activeVersion: 1.2.0
//!   mode: heal                         # observe is the default
//!   guard: {backoff: {first: 2s, factor: 3, cap: 300s}}   # optional, these are the defaults
//!   nodeSelector: {role: web}          # optional: only nodes with these labels
//!   rollout: {canary: {version: 1.3.0, weight: 10}}       # optional: another version on ten in a hundred of them
//! ```
//!
//! The way is [`Source`] -> [`parse()`] -> [`Document`]s -> [`assigned()`] to a node -> [`validate()`] -> [`Lineage`]s. Both collect [`Problems`] instead of stopping at the
//! first. Nothing here reads a file or a clock.
//!
//! * A file mode is always octal, with or without quotes, as `chmod` takes it: `"0644"`, `0644`, `644` and `0o644` are the same. (With
//!   quotes is safer: to the YAML 1.1 of other programs an unquoted `0644` is the number 420.)
//! * An owner or group of digits is an id, with or without quotes.
//! * A duration has a unit: `0s`, `500ms`, `2s`, `5m`, `1h30m`.
//! * `metadata` may hold what Kubernetes adds to it, and `status` may be there; both are ignored, so that `kubectl get -o yaml` gives a
//!   policy file, and so does its `kind: List`.

mod attribute;
mod closure;
mod compare;
mod content;
mod decode;
mod digest;
mod expect;
mod globs;
mod guard;
mod parse;
mod path;
mod problem;
mod reference;
mod reload;
mod render;
mod requirement;
mod resource;
mod rollout;
mod schema;
mod shape;
mod source;
mod suggest;
mod through;
mod tree;
mod unsupported;
mod validate;
mod version;

pub use attribute::{
    ACCESS_ACL, Attributes, CAPABILITY, DEFAULT_ACL, Flags, MAX_VALUE, SELINUX, Wanted, acl::Acl,
    capability::FileCapabilities,
};
pub use closure::{Move, Preference, Refused, moves, order};
pub use compare::{Absence, Compare, Equal, Format, Keys, Rules};
pub use content::{Content, Encoding, Keeper, Kept, LARGEST_CONTENT, MAX_CONTENT, Packed, Unpack};
pub use digest::canonical;
pub use expect::{
    HardLinks, Heed, MAX_SIZE, Redact, Severity, Writing, with_unix_line_ends,
    without_final_newline,
};
pub use globs::Globs;
pub use guard::{
    Backoff, ClockTime, Days, Evidence, Fight, Guard, MassDrift, Mode, OnRemove, Window, WindowKind,
};
pub use parse::{API_VERSION, is_name, parse, semantic_version};
pub use problem::{Problem, Problems};
pub use reference::{End, PolicyVersionRef};
pub use reload::{AfterHeal, Endpoint, Method, Signal, Whom};
pub use render::render;
pub use requirement::{Dependency, Environment, Variable};
pub use resource::{NODE_DRIFT, definitions};
pub use rollout::{Node, NodeSelector, Rollout, Share, assign, assigned};
pub use schema::schema;
pub use shape::node_drift;
pub use source::{MAX_FILE, Place, Position, Source, Spanned};
pub use suggest::closest;
pub use through::{Link, Through};
pub use tree::MAX_NODES;
pub use validate::{Hold, Holds, Lineage, lineages, validate};
pub use version::{
    AbsentSpec, DirectorySpec, Exhaustive, FileSpec, OnUnexpected, PolicyVersion, Principal,
    SymlinkSpec,
};

use semver::Version;

/// A named line of configuration: which of its versions is active, and what to do on drift.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub name: Spanned<String>,
    pub active_version: Spanned<Version>,
    pub mode: Mode,
    pub on_remove: OnRemove,
    pub guard: Guard,
    pub evidence: Evidence,
    /// The nodes that it is for; empty: all.
    pub node_selector: NodeSelector,
    /// `None`: all nodes have the `activeVersion`.
    pub rollout: Option<Rollout>,
}

/// One document of a policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document {
    Policy(Policy),
    Version(PolicyVersion),
    /// Of a cluster: a policy folder has no namespaces.
    Reference(PolicyVersionRef),
}

#[cfg(test)]
mod tests;
