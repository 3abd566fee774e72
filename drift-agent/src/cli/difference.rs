//! What differs at one path, as `diff` and `explain` show it: the only commands that show anything of a content, and only what a `Redactor`
//! has let through.

use std::{borrow::Cow, os::unix::ffi::OsStrExt, path::Path};

use drift_common::escape;
use serde_json::{Value, json};

use crate::{
    compare::{
        Compared, Drift, compare,
        structured::{Kind, Verdict},
        text::{Exact, TextRules, exact},
    },
    declare::{Content, Declared, Names, Target},
    observe::{Found, Host, Observed, observe},
    pipeline::{attribute_differences, declared_side, observed_side},
    report::{FileType, Redactable, Redactor, Shown, State, path_bytes, shown},
};

/// One declared path, and what was found there.
pub(super) struct Difference<'d> {
    pub(super) declared: &'d Declared,
    pub(super) observed: Observed,
    pub(super) compared: Compared,
}

/// Names in a directory that people are shown.
const NAMES: usize = 20;

/// What differs beside the content.
struct Row {
    what: &'static str,
    declared: String,
    observed: String,
}

/// What may be seen of how the content differs.
enum Contents {
    /// By what it says.
    Values(Vec<Shown>),
    /// By its lines.
    Lines(Vec<Shown>),
    /// Binary, or too large: sizes and digests.
    Digests,
}

impl<'d> Difference<'d> {
    /// Looks at the path. `host` holds contents, or they are not shown.
    pub(super) fn look(host: &Host, declared: &'d Declared) -> Self {
        let observed = observe(host, declared, None, &mut |_| {});
        let compared = compare(declared, &observed);
        Self {
            declared,
            observed,
            compared,
        }
    }

    pub(super) fn is_none(&self) -> bool {
        self.compared.drifts.is_empty()
    }

    /// `content (2 values changed), mode`.
    pub(super) fn kinds(&self) -> String {
        let kinds = self.compared.drifts.iter().map(|drift| {
            let note = match (drift, &self.compared.content) {
                (Drift::Content, Some(Verdict::Differs(differences))) => differences.count(),
                (Drift::Content, Some(Verdict::Unparsable(error))) => {
                    format!(
                        "does not parse, {} at {}:{}",
                        error.reason(),
                        error.line,
                        error.column
                    )
                }
                _ => return drift.name().to_owned(),
            };
            format!("{} ({note})", drift.name())
        });
        kinds.collect::<Vec<_>>().join(", ")
    }

    /// `web 1.2.0, policies/web.yaml:41:7`.
    pub(super) fn place(&self) -> String {
        let policy = &self.declared.policy;
        format!(
            "{} {}, {}",
            escape::printable(&policy.name),
            escape::printable(&policy.version),
            self.declared.at
        )
    }

    /// What differs, for people: attributes first, indented by two.
    pub(super) fn lines(&self, names: &Names) -> Vec<String> {
        let rows = self.rows(names);
        let width = rows.iter().map(|row| row.what.len()).max().unwrap_or(0);
        let mut lines: Vec<String> = rows
            .iter()
            .map(|row| {
                format!(
                    "  {:width$}  {} -> {}",
                    row.what, row.declared, row.observed
                )
            })
            .collect();
        lines.extend(self.notes().into_iter().map(|note| format!("  {note}")));
        lines.extend(self.unexpected());
        lines.extend(self.trouble().map(|trouble| format!("  {trouble}")));
        if let Some(contents) = self.contents() {
            lines.extend(self.note().map(|note| format!("  {note}")));
            match contents {
                Contents::Values(shown) => {
                    lines.extend(shown.iter().map(|line| format!("  {line}")));
                }
                Contents::Lines(shown) => {
                    let [declared, observed] = self.sides().map(|state| side(&state));
                    lines.push(format!("--- declared  {declared}"));
                    lines.push(format!("+++ on disk   {observed}"));
                    lines.extend(shown.iter().map(Shown::to_string));
                }
                Contents::Digests => {
                    let [declared, observed] = self.sides().map(|state| side(&state));
                    lines.push(format!("  content  {declared} -> {observed}"));
                }
            }
        }
        lines
    }

    /// All of it, for programs.
    pub(super) fn value(&self, names: &Names) -> Value {
        let Declared {
            path, policy, at, ..
        } = self.declared;
        let rows = self.rows(names).into_iter().map(
            |row| json!({"what": row.what, "declared": row.declared, "observed": row.observed}),
        );
        let mut value = json!({
            "path": shown(path),
            "policy": policy.name,
            "version": policy.version,
            "declared_at": at.to_string(),
            "drift": self.compared.drifts,
            "declared": state(&declared_side(self.declared)),
            "observed": state(&observed_side(&self.observed)),
            "attributes": rows.collect::<Vec<_>>(),
        });
        let more = [
            ("path_bytes", path_bytes(path).map(Value::from)),
            (
                "notes",
                Some(self.notes())
                    .filter(|notes| !notes.is_empty())
                    .map(Value::from),
            ),
            ("unexpected", self.names().map(Value::from)),
            ("trouble", self.trouble().map(Value::from)),
            ("content", self.content_value()),
        ];
        for (field, more) in more {
            if let Some(more) = more {
                value[field] = more;
            }
        }
        value
    }

    fn sides(&self) -> [State; 2] {
        [declared_side(self.declared), observed_side(&self.observed)]
    }

    /// What is declared and what is there, where both are short.
    fn rows(&self, names: &Names) -> Vec<Row> {
        let [declared, observed] = self.sides();
        let mut rows = Vec::new();
        let mut row = |what, declared: Option<String>, observed: Option<String>| {
            if let (Some(declared), Some(observed)) = (declared, observed) {
                rows.push(Row {
                    what,
                    declared,
                    observed,
                });
            }
        };
        let name = |file_type: Option<FileType>| file_type.map(|known| known.name().to_owned());
        for drift in &self.compared.drifts {
            match drift {
                Drift::Missing | Drift::Type => {
                    row("type", name(declared.file_type), name(observed.file_type));
                }
                Drift::Unexpected if self.declared.target == Target::Absent => {
                    row("type", name(declared.file_type), name(observed.file_type));
                }
                Drift::Mode => row("mode", declared.mode.map(mode), observed.mode.map(mode)),
                Drift::Owner => {
                    if declared.uid != observed.uid {
                        let user = |id| names.shown_user(id);
                        row("owner", declared.uid.map(user), observed.uid.map(user));
                    }
                    if declared.gid != observed.gid {
                        let group = |id| names.shown_group(id);
                        row("group", declared.gid.map(group), observed.gid.map(group));
                    }
                }
                Drift::LinkTarget => {
                    if let (Target::Symlink(target), Found::Link(found)) =
                        (&self.declared.target, &self.observed.found)
                    {
                        row(
                            "link",
                            Some(shown(Path::new(target)).into_owned()),
                            Some(shown(Path::new(found)).into_owned()),
                        );
                    }
                }
                // Shown by what follows.
                Drift::Content
                | Drift::ContentEquivalent
                | Drift::Unexpected
                | Drift::Xattr
                | Drift::Hardlinked
                | Drift::Relocated
                | Drift::Unreadable
                | Drift::Unstable => {}
            }
        }
        rows
    }

    /// Attributes beside mode and owner, and other names of the file.
    fn notes(&self) -> Vec<String> {
        let mut notes = attribute_differences(self.declared, &self.observed);
        if self.compared.drifts.contains(&Drift::Hardlinked) {
            let links = self.observed.stat.map_or(0, |stat| stat.links);
            notes.push(format!("hard links: {links}, where one is declared"));
        }
        notes
    }

    /// Names that may not be in the directory.
    fn names(&self) -> Option<Vec<Cow<'_, str>>> {
        match &self.observed.found {
            Found::Directory(unexpected) if unexpected.count > 0 => {
                let names = unexpected.names.iter();
                Some(names.map(|name| escape::bytes(name.as_bytes())).collect())
            }
            _ => None,
        }
    }

    fn unexpected(&self) -> Vec<String> {
        let (Some(names), Found::Directory(unexpected)) = (self.names(), &self.observed.found)
        else {
            return Vec::new();
        };
        let mut lines: Vec<String> = names
            .iter()
            .take(NAMES)
            .map(|name| format!("  unexpected  {name}"))
            .collect();
        let more = unexpected.count - lines.len();
        if more > 0 {
            lines.push(format!("  … and {more} more"));
        }
        lines
    }

    /// Why nothing more can be said.
    fn trouble(&self) -> Option<String> {
        Some(match &self.observed.found {
            Found::Relocated => {
                "a symbolic link that is not as declared, or something that is no directory, stands in the way of the path"
                    .to_owned()
            }
            Found::Unreadable(why) => format!("it cannot be read: {why}"),
            Found::Unstable => "it is being written: no two looks agreed".to_owned(),
            Found::Absent
            | Found::Link(_)
            | Found::Directory(_)
            | Found::Other(_)
            | Found::File(_) => return None,
        })
    }

    /// The declared content, where another one is there.
    fn content(&self) -> Option<&Content> {
        let is_other = |drift: &Drift| matches!(drift, Drift::Content | Drift::ContentEquivalent);
        match (&self.declared.target, &self.observed.found) {
            (Target::File(content), Found::File(_))
                if self.compared.drifts.iter().any(is_other) =>
            {
                Some(content)
            }
            _ => None,
        }
    }

    fn contents(&self) -> Option<Contents> {
        let content = self.content()?;
        let redactor = Redactor::new(content.redact);
        if let Some(Verdict::Differs(differences)) = &self.compared.content {
            return Some(Contents::Values(redactor.listing(differences)));
        }
        Some(match (content.held(), &self.observed.held) {
            // Of a file that belongs to others too, nobody has said what its lines are.
            (Some(bytes), Some(held))
                if content.is_whole() && !is_binary(bytes) && !is_binary(held.bytes()) =>
            {
                Contents::Lines(redactor.unified(bytes, held.bytes()))
            }
            _ => Contents::Digests,
        })
    }

    /// What is not seen in the lines themselves.
    fn note(&self) -> Option<String> {
        let content = self.content()?;
        if let (Some(Verdict::Unparsable(error)), Some(meaning)) =
            (&self.compared.content, &content.meaning)
        {
            let redactor = Redactor::new(content.redact);
            return Some(format!(
                "it does not parse as {}, at {}:{}: {}",
                meaning.format().name(),
                error.line,
                error.column,
                redactor.show(&Redactable::of(error.message.as_str()))
            ));
        }
        let held = self.observed.held.as_ref()?;
        match exact(content.held()?, held.bytes(), TextRules::default()) {
            Exact::FinalNewline => {
                Some("only the line end at the end of the file differs".to_owned())
            }
            Exact::LineEndings => Some("only the line ends differ".to_owned()),
            Exact::Same | Exact::Different => None,
        }
    }

    fn content_value(&self) -> Option<Value> {
        let content = self.content()?;
        let redactor = Redactor::new(content.redact);
        let note = self.note();
        let mut value = match self.contents()? {
            Contents::Values(_) => {
                let Some(Verdict::Differs(differences)) = &self.compared.content else {
                    return None;
                };
                let values = differences.list.iter().map(|difference| {
                    let mut value = json!({
                        "pointer": difference.pointer.to_string(),
                        "kind": difference.kind.name(),
                    });
                    let sides = [
                        ("declared", &difference.declared),
                        ("observed", &difference.observed),
                    ];
                    for (name, side) in sides {
                        let Some(side) = side else { continue };
                        let shown = redactor.show(&side.text);
                        let mut side_value = json!({"text": shown.to_string()});
                        if let Some(why) = shown.why() {
                            side_value["redacted"] = why.name().into();
                        }
                        if let Some(digest) = redactor.digest(side) {
                            side_value["digest"] = digest.into();
                        }
                        value[name] = side_value;
                    }
                    value
                });
                let format = content
                    .meaning
                    .as_ref()
                    .map(|meaning| meaning.format().name());
                json!({
                    "format": format,
                    "equivalent": differences.list.iter().all(|one| one.kind == Kind::Equivalent),
                    "values": values.collect::<Vec<_>>(),
                    "omitted": differences.omitted,
                })
            }
            Contents::Lines(shown) => {
                json!({"lines": shown.iter().map(Shown::to_string).collect::<Vec<_>>()})
            }
            Contents::Digests => json!({}),
        };
        if let Some(note) = note {
            value["note"] = note.into();
        }
        Some(value)
    }
}

/// The digest of a whole content and its size: `blake3:9af1c0d5…  14 bytes`.
pub(super) fn side(state: &State) -> String {
    let digest = state.digest.map(|digest| {
        let digits: String = digest.to_hex().chars().take(12).collect();
        format!("blake3:{digits}…")
    });
    let size = state.size.map(|size| match size {
        1 => "1 byte".to_owned(),
        size => format!("{size} bytes"),
    });
    let parts: Vec<String> = digest.into_iter().chain(size).collect();
    if parts.is_empty() {
        "-".to_owned()
    } else {
        parts.join("  ")
    }
}

pub(super) fn mode(mode: u32) -> String {
    format!("{mode:04o}")
}

/// As records have it.
pub(super) fn state(state: &State) -> Value {
    // Numbers and texts: it has a JSON form.
    state.value().unwrap_or_default()
}

/// Whether people could read nothing in it.
fn is_binary(bytes: &[u8]) -> bool {
    bytes.contains(&0)
}
