//! Documents as text again.

mod flow;

pub(super) use flow::{after_heal, principal};

use std::{
    fmt::{self, Write},
    num::NonZero,
    os::unix::ffi::OsStrExt,
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};

use super::{
    Compare, Content, Document, End, FileSpec, Guard, HardLinks, Heed, Policy, PolicyVersion,
    PolicyVersionRef, Principal, Redact, Severity, Writing, parse::API_VERSION, tree,
};
use crate::escape;

/// A policy file with these documents: parsed, it gives the same ones. Contents are shown as lines where that is exact, file modes and
/// ids so that no program takes them for something else.
pub fn render(documents: &[Document]) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| {
        for (index, document) in documents.iter().enumerate() {
            if index > 0 {
                f.write_str("---\n")?;
            }
            match document {
                Document::Policy(policy) => render_policy(f, policy)?,
                Document::Version(version) => render_version(f, version)?,
                Document::Reference(reference) => render_reference(f, reference)?,
            }
        }
        Ok(())
    })
}

fn head(f: &mut impl Write, kind: &str, name: &str) -> fmt::Result {
    let name = scalar(name);
    writeln!(
        f,
        "apiVersion: {API_VERSION}\nkind: {kind}\nmetadata:\n  name: {name}\nspec:"
    )
}

fn render_reference(f: &mut impl Write, reference: &PolicyVersionRef) -> fmt::Result {
    let PolicyVersionRef {
        name,
        policy,
        versions,
        end,
    } = reference;
    head(f, "PolicyVersionRef", &name.value)?;
    writeln!(f, "  policy: {}", scalar(&policy.value))?;
    if !versions.is_empty() {
        writeln!(f, "  versions:")?;
    }
    for version in versions {
        writeln!(f, "    - {}", scalar(&version.value.to_string()))?;
    }
    match end {
        End::From { namespace, policy } => {
            writeln!(f, "  from:\n    namespace: {}", scalar(&namespace.value))?;
            match policy {
                Some(policy) => writeln!(f, "    policy: {}", scalar(&policy.value)),
                None => Ok(()),
            }
        }
        End::To { namespaces } => {
            writeln!(f, "  to:\n    namespaces:")?;
            let mut namespaces = namespaces.iter();
            namespaces.try_for_each(|namespace| writeln!(f, "      - {}", scalar(&namespace.value)))
        }
    }
}

fn render_policy(f: &mut impl Write, policy: &Policy) -> fmt::Result {
    let Policy {
        name,
        active_version,
        mode,
        on_remove,
        guard,
        evidence,
        node_selector,
        rollout,
    } = policy;
    let Guard {
        backoff,
        per_minute,
        mass_drift,
        fight,
        windows,
    } = guard;
    head(f, "Policy", &name.value)?;
    writeln!(
        f,
        "  activeVersion: {}",
        scalar(&active_version.value.to_string())
    )?;
    writeln!(f, "  mode: {mode}")?;
    writeln!(f, "  onRemove: {}", on_remove.name())?;
    writeln!(f, "  evidence: {}", evidence.name())?;
    writeln!(f, "  guard:\n    backoff:")?;
    writeln!(f, "      first: {}", duration(backoff.first))?;
    writeln!(f, "      factor: {}", backoff.factor)?;
    writeln!(f, "      cap: {}", duration(backoff.cap))?;
    writeln!(f, "    perMinute: {}", per_minute.map_or(0, NonZero::get))?;
    writeln!(f, "    massDrift: {}", mass_drift.name())?;
    if let Some(fight) = fight {
        writeln!(f, "    fight:")?;
        writeln!(f, "      heals: {}", fight.heals)?;
        writeln!(f, "      within: {}", duration(fight.within))?;
        writeln!(f, "      hold: {}", duration(fight.hold))?;
    }
    items(f, "    windows", windows.iter().map(flow::window).collect())?;
    if !node_selector.is_empty() {
        writeln!(f, "  nodeSelector: {}", flow::selector(node_selector))?;
    }
    if let Some(rollout) = rollout {
        writeln!(f, "  rollout: {}", flow::rollout(rollout))?;
    }
    Ok(())
}

fn render_version(f: &mut impl Write, version: &PolicyVersion) -> fmt::Result {
    let PolicyVersion {
        name,
        policy,
        version,
        files,
        symlinks,
        absent,
        directories,
        environment,
        dependencies,
    } = version;
    head(f, "PolicyVersion", &name.value)?;
    writeln!(f, "  policy: {}", scalar(&policy.value))?;
    writeln!(f, "  version: {}", scalar(&version.value.to_string()))?;
    if files.is_empty() {
        writeln!(f, "  files: []")?;
    } else {
        writeln!(f, "  files:")?;
        files.iter().try_for_each(|file| render_file(f, file))?;
    }
    lines(f, "  symlinks", symlinks.iter().map(flow::symlink))?;
    lines(f, "  absent", absent.iter().map(flow::absent))?;
    lines(f, "  directories", directories.iter().map(flow::directory))?;
    let environment = environment.iter().map(flow::environment).collect();
    items(f, "  environment", environment)?;
    let dependencies = dependencies.iter().map(flow::dependency).collect();
    items(f, "  dependencies", dependencies)
}

/// A field with a list, unless that is empty.
fn items(f: &mut impl Write, field: &str, items: Vec<String>) -> fmt::Result {
    if items.is_empty() {
        return Ok(());
    }
    writeln!(f, "{field}: {}", flow::list(items))
}

/// A field with a list, an item a line: there may be thousands.
fn lines(
    f: &mut impl Write,
    field: &str,
    mut items: impl ExactSizeIterator<Item = String>,
) -> fmt::Result {
    if items.len() == 0 {
        return Ok(());
    }
    writeln!(f, "{field}:")?;
    items.try_for_each(|item| writeln!(f, "    - {item}"))
}

fn render_file(f: &mut impl Write, file: &FileSpec) -> fmt::Result {
    let FileSpec {
        path,
        through,
        content,
        mode,
        owner,
        group,
        attributes,
        on_drift,
        severity,
        redact,
        max_size,
        final_newline,
        line_endings,
        hard_links,
        write,
        compare,
        after_heal,
    } = file;
    match path.value.to_str() {
        Some(path) => writeln!(f, "    - path: {}", scalar(path))?,
        None => writeln!(
            f,
            "    - pathBytes: {}",
            scalar(&STANDARD.encode(path.value.as_os_str().as_bytes()))
        )?,
    }
    if let Some(links) = through {
        writeln!(f, "      through: {}", flow::through(links))?;
    }
    writeln!(f, "      content:")?;
    match &content.value {
        Content::Inline(text) => inline(f, text)?,
        // A file is named by a text, so it is UTF-8.
        Content::File(path) => writeln!(f, "        file: {}", scalar(&path.to_string_lossy()))?,
        Content::Packed(packed) => {
            let field = packed.encoding.field();
            writeln!(f, "        {field}: {}", scalar(&packed.text))?;
        }
        Content::Blob(digest) => writeln!(f, "        digest: \"blake3:{digest}\"")?,
        Content::Kept(kept) => {
            let (field, name, key) = (kept.by.field(), scalar(&kept.name), scalar(&kept.key));
            writeln!(f, "        {field}: {{name: {name}, key: {key}}}")?;
        }
    }
    if let Some(mode) = mode {
        writeln!(f, "      mode: \"{mode:04o}\"")?;
    }
    for (what, principal) in [("owner", owner), ("group", group)] {
        match principal.as_ref().map(|principal| &principal.value) {
            None => {}
            Some(Principal::Id(id)) => writeln!(f, "      {what}: {id}")?,
            Some(Principal::Name(name)) => writeln!(f, "      {what}: {}", scalar(name))?,
        }
    }
    for (field, value) in flow::attributes(attributes) {
        writeln!(f, "      {field}: {value}")?;
    }
    if let Some(mode) = on_drift {
        writeln!(f, "      onDrift: {mode}")?;
    }
    if *severity != Severity::default() {
        writeln!(f, "      severity: {}", severity.name())?;
    }
    if *redact != Redact::default() {
        writeln!(f, "      redact: {}", redact.name())?;
    }
    if let Some(bytes) = max_size {
        writeln!(f, "      maxSize: {}", bytes.value)?;
    }
    if *final_newline != Heed::default() {
        writeln!(f, "      finalNewline: {}", final_newline.name())?;
    }
    if *line_endings != Heed::default() {
        writeln!(f, "      lineEndings: {}", line_endings.name())?;
    }
    if *hard_links != HardLinks::default() {
        writeln!(f, "      hardLinks: {}", hard_links.name())?;
    }
    if *write != Writing::default() {
        writeln!(f, "      write: {}", write.name())?;
    }
    if compare.value != Compare::Exact {
        writeln!(f, "      compare: {}", flow::compare(&compare.value))?;
    }
    let after_heal = after_heal.iter();
    let after_heal = after_heal.map(|action| flow::after_heal(&action.value));
    items(f, "      afterHeal", after_heal.collect())
}

/// Contents: as lines where the lines say exactly what is there.
fn inline(f: &mut impl Write, text: &str) -> fmt::Result {
    let is_plain = |c: char| c == '\n' || c == '\t' || !escape::is_deceptive(c);
    let body = text.trim_end_matches('\n');
    if body.is_empty()
        || body.starts_with('\t')
        || !text.contains('\n')
        || !text.chars().all(is_plain)
    {
        return writeln!(f, "        inline: {}", scalar(text));
    }
    let end = match text.len() - body.len() {
        0 => "-",
        1 => "",
        _ => "+",
    };
    // What begins with white space needs its indentation said.
    let indent = if body.starts_with([' ', '\n']) {
        "2"
    } else {
        ""
    };
    writeln!(f, "        inline: |{indent}{end}")?;
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        if line.is_empty() {
            writeln!(f)?;
        } else {
            writeln!(f, "          {line}")?;
        }
    }
    Ok(())
}

/// `text` as a scalar that is a text to every version of YAML.
fn scalar(text: &str) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    // YAML 1.1 takes these for booleans.
    let is_switch = ["y", "yes", "n", "no", "on", "off"]
        .iter()
        .any(|switch| text.eq_ignore_ascii_case(switch));
    if text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(word)
        && tree::is_text(text)
        && !is_switch
    {
        return text.to_owned();
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if !escape::is_deceptive(c) => quoted.push(c),
            c => {
                let c = u32::from(c);
                let written = if c <= 0xffff {
                    write!(quoted, "\\u{c:04x}")
                } else {
                    write!(quoted, "\\U{c:08x}")
                };
                debug_assert!(written.is_ok(), "a String takes what is written to it");
            }
        }
    }
    quoted.push('"');
    quoted
}

fn duration(duration: Duration) -> String {
    match duration.as_millis() {
        millis if millis.is_multiple_of(1000) => format!("{}s", millis / 1000),
        millis => format!("{millis}ms"),
    }
}
