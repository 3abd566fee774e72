//! Text to documents.

mod attribute;
mod compare;
mod content;
mod policy;
mod reference;
mod reload;
mod requirement;
mod rollout;
mod scalar;
mod target;
mod through;
mod version;

pub use scalar::{is_name, semantic_version};

use std::sync::Arc;

use super::{
    Document,
    decode::{Cursor, Decoder, Fields},
    problem::Problems,
    source::{Source, Spanned},
    tree,
};
use crate::escape;

/// The only version of the language so far.
pub const API_VERSION: &str = "configdrift.io/v1alpha1";

/// What Kubernetes puts into `metadata` beside the name.
const METADATA: [&str; 13] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
    // Long gone, still found in files.
    "clusterName",
    "initializers",
];

/// The documents of a policy file, in its order. A document with a problem is left out, and everything after a problem of YAML itself; the
/// problems are added to `problems`.
pub fn parse(source: &Arc<Source>, problems: &mut Problems) -> Vec<Document> {
    let nodes = tree::read(source, problems);
    let mut decoder = Decoder::new(source, problems);
    let mut documents = Vec::new();
    for node in &nodes {
        document(&mut decoder, Cursor::root(node), true, &mut documents);
    }
    documents
}

const KINDS: [(&str, Kind); 3] = [
    ("Policy", Kind::Policy),
    ("PolicyVersion", Kind::Version),
    ("PolicyVersionRef", Kind::Reference),
];

#[derive(Clone, Copy)]
enum Kind {
    Policy,
    Version,
    Reference,
}

/// Adds what `cursor` holds to `documents`: one, or those of a list. (`lists`: whether it may be one.)
fn document(
    decoder: &mut Decoder<'_>,
    cursor: Cursor<'_>,
    lists: bool,
    documents: &mut Vec<Document>,
) {
    let before = decoder.problems();
    let Some(mut fields) = decoder.fields(
        cursor,
        "a document with apiVersion, kind, metadata and spec",
    ) else {
        return;
    };
    // What `kubectl get` says when there are several.
    if lists && fields.scalar("kind") == Some("List") {
        return list(decoder, fields, documents);
    }
    let api_version = fields.required(decoder, "apiVersion", |decoder, api_version| {
        let text = decoder.text(api_version)?;
        if &*text == API_VERSION {
            return Some(());
        }
        let message = format!("unknown apiVersion {}", escape::name(&text));
        decoder.wrong(
            api_version,
            message,
            format!("only documents of {API_VERSION} belong here"),
        )
    });
    if api_version.is_none() && fields.has("apiVersion") {
        return; // of another language: nothing more is known about it
    }
    let kind = fields.required(decoder, "kind", |decoder, kind| {
        decoder.word(kind, "kind", &KINDS)
    });
    let (Some(()), Some(kind)) = (api_version, kind) else {
        fields.known(&["metadata", "spec"]);
        fields.ignored(&["status"]);
        return fields.end(decoder);
    };
    let name = fields.required(decoder, "metadata", metadata);
    let document = match kind {
        Kind::Policy => fields
            .required(decoder, "spec", policy::spec)
            .and_then(|spec| Some(Document::Policy(spec.named(name?)))),
        Kind::Version => fields
            .required(decoder, "spec", version::spec)
            .and_then(|spec| Some(Document::Version(spec.named(name?)))),
        Kind::Reference => fields
            .required(decoder, "spec", reference::spec)
            .and_then(|spec| Some(Document::Reference(spec.named(name?)))),
    };
    fields.ignored(&["status"]);
    fields.end(decoder);
    if decoder.problems() == before {
        documents.extend(document);
    }
}

/// `apiVersion: v1`, `kind: List`: its items are documents.
fn list(decoder: &mut Decoder<'_>, mut fields: Fields<'_>, documents: &mut Vec<Document>) {
    fields.ignored(&["apiVersion", "kind", "metadata"]);
    fields.required(decoder, "items", |decoder, items| {
        decoder.list(items, |decoder, item| {
            document(decoder, item, false, documents);
            Some(())
        })
    });
    fields.end(decoder);
}

/// The name that `metadata` gives.
fn metadata(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Spanned<String>> {
    let mut fields = decoder.fields(cursor, "a mapping with a name")?;
    let name = fields.required(decoder, "name", scalar::name);
    fields.known(&["namespace", "labels", "annotations"]);
    fields.ignored(&METADATA);
    fields.end(decoder);
    name
}
