//! `drift-agent history`: what was seen, decided and done on this node.

mod kept;

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, SystemTime},
};

use anyhow::{Result, bail};
use clap::Args;
use drift_common::escape;
use serde_json::Value;

use super::{
    duration::duration,
    format::{Format, yaml},
    policy::print,
    state::StateFolder,
    whole::whole,
};
use crate::{
    report::{Event, Look, complain},
    store::{Past, read_history},
};

/// Show what was seen, decided and done on this node, oldest first.
///
/// Needs no running agent, and disturbs none. The agent keeps 30 days, at most 64 MiB.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct History {
    /// Only of these paths, and of what is below them.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Only of this policy.
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// Only what happened since then: a time (2026-11-29T14:00:00Z), or how long ago (30s, 10m, 1h, 7d).
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<SystemTime>,
    /// Only these events: config.drift.healed, or its last word. May be given more than once.
    #[arg(long, value_name = "EVENT", value_parser = event)]
    event: Vec<Event>,
    /// Only the last N of them.
    #[arg(short, value_name = "N")]
    n: Option<usize>,
    /// One record in full: the end of its id, as the table shows it, or its beginning.
    #[arg(long, value_name = "ID", value_parser = id, conflicts_with_all = ["paths", "policy", "since", "event", "n"])]
    show: Option<String>,
    /// A table for people; records as docs/record.schema.json has them, as one JSON array, one a line, or as YAML.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    state: StateFolder,
}

const EXAMPLES: &str = "\
Examples:
  drift-agent history --since 1h
  drift-agent history /etc/ssh --event detected --event healed
  drift-agent history --show 3f2a91c4
  drift-agent history --policy web -o jsonl | jq -r .path | sort | uniq -c";

/// Fewer digits of an id say nothing.
const FEWEST_DIGITS: usize = 4;

/// Of records that an id may mean, so many are named.
const MOST_NAMED: usize = 10;

fn since(text: &str) -> Result<SystemTime, String> {
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Ok(time.into());
    }
    let ago: Duration = duration(text)
        .map_err(|why| format!("{why}; or a time with its zone, 2026-11-29T14:00:00Z"))?;
    Ok(SystemTime::now()
        .checked_sub(ago)
        .unwrap_or(SystemTime::UNIX_EPOCH))
}

fn event(text: &str) -> Result<Event, String> {
    let short = |event: &Event| event.name().rsplit('.').next() == Some(text);
    Event::ALL
        .into_iter()
        .find(|event| event.name() == text || short(event))
        .ok_or_else(|| {
            format!(
                "there is no such event; there are {}",
                Event::ALL.map(Event::name).join(", ")
            )
        })
}

fn id(text: &str) -> Result<String, String> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    if digits.len() < FEWEST_DIGITS || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(format!(
            "an id has hexadecimal digits, at least {FEWEST_DIGITS} of them"
        ));
    }
    Ok(digits.to_ascii_lowercase())
}

impl History {
    /// Runs the command.
    ///
    /// # Errors
    /// The history cannot be read, or standard output not be written to.
    pub fn run(self) -> Result<ExitCode> {
        let History {
            paths,
            policy,
            since,
            event,
            n,
            show,
            output,
            state,
        } = self;
        let state = state.path()?;
        if let Some(id) = show {
            return one(&state, &id, output);
        }
        let wanted = Wanted {
            paths: paths.iter().map(|path| shown(path)).collect(),
            policy: policy.map(|policy| escape::printable(&policy).into_owned()),
            since,
            events: event.iter().map(|event| event.name()).collect(),
        };
        let mut lines = VecDeque::new();
        let past = read_history(&state, since, |line| {
            if wanted.matches(line) {
                lines.push_back(line.to_owned());
                if n.is_some_and(|n| lines.len() > n) {
                    lines.pop_front();
                }
            }
        })?;
        let lines = lines.make_contiguous();
        match output {
            Format::Table => print(&table(lines, &past, &state))?,
            Format::Jsonl => print(
                &lines
                    .iter()
                    .fold(String::new(), |text, line| text + line + "\n"),
            )?,
            Format::Json => print(&format!(
                "[{}\n]\n",
                lines
                    .iter()
                    .map(|line| format!("\n{line}"))
                    .collect::<Vec<_>>()
                    .join(",")
            ))?,
            Format::Yaml => {
                let values: Value = lines
                    .iter()
                    .filter_map(|line| serde_json::from_str::<Value>(line).ok())
                    .collect();
                print(&yaml(&values))?;
            }
        }
        if past.damaged > 0 {
            complain(format_args!(
                "{} lines of the history are damaged and were left out",
                past.damaged
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A path as records have it.
fn shown(path: &Path) -> String {
    let path = whole(path).unwrap_or_else(|_| path.to_owned());
    escape::path(&path).to_string()
}

/// Which records.
struct Wanted {
    /// As records have them; any of them. Empty: all.
    paths: Vec<String>,
    policy: Option<String>,
    since: Option<SystemTime>,
    /// Any of them. Empty: all.
    events: Vec<&'static str>,
}

impl Wanted {
    fn matches(&self, line: &str) -> bool {
        let Ok(record) = serde_json::from_str::<Value>(line) else {
            return false;
        };
        let text = |field: &str| record[field].as_str();
        let is_below = |path: &str| {
            self.paths.iter().any(|wanted| {
                let rest = path.strip_prefix(wanted.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || wanted == "/")
            })
        };
        let is_since = |since: SystemTime| {
            let time = text("time").and_then(|time| time.parse::<jiff::Timestamp>().ok());
            time.is_some_and(|time| SystemTime::from(time) >= since)
        };
        (self.paths.is_empty() || text("path").is_some_and(is_below))
            && self
                .policy
                .as_deref()
                .is_none_or(|policy| text("policy") == Some(policy))
            && (self.events.is_empty()
                || text("event").is_some_and(|event| self.events.contains(&event)))
            && self.since.is_none_or(is_since)
    }
}

fn table(lines: &[String], past: &Past, state: &Path) -> String {
    let folder = escape::path(state);
    if !past.exists {
        return format!(
            "no history: no agent has run with the state folder {folder} yet (another one: --state DIR)\n"
        );
    }
    if past.records == 0 {
        return format!("nothing has happened yet, as far as the history in {folder} goes back\n");
    }
    if lines.is_empty() {
        return format!(
            "none of the {} records in the history is one of these\n",
            past.records
        );
    }
    let look = Look::of_stdout();
    lines
        .iter()
        .fold(String::new(), |text, line| text + &look.past(line) + "\n")
}

/// One record in full.
fn one(state: &Path, id: &str, output: Format) -> Result<ExitCode> {
    let mut found: Vec<Value> = Vec::new();
    let mut lines = Vec::new();
    read_history(state, None, |line| {
        let Ok(record) = serde_json::from_str::<Value>(line) else {
            return;
        };
        let digits = record["id"].as_str().unwrap_or_default().replace('-', "");
        if digits.starts_with(id) || digits.ends_with(id) {
            found.push(record);
            lines.push(line.to_owned());
        }
    })?;
    match found.as_slice() {
        [] => bail!(
            "the history in {} has no record whose id begins or ends with {id}",
            escape::path(state)
        ),
        [record] => {
            print(&match output {
                Format::Table => yaml(record) + &kept::shown(state, record),
                Format::Yaml => yaml(record),
                Format::Json => format!("{record:#}\n"),
                Format::Jsonl => format!("{}\n", lines[0]),
            })?;
            Ok(ExitCode::SUCCESS)
        }
        many => {
            let named = many.iter().take(MOST_NAMED);
            let named: Vec<_> = named.filter_map(|record| record["id"].as_str()).collect();
            bail!(
                "{} records have an id that begins or ends with {id}: give more of it. {}{}",
                many.len(),
                named.join(", "),
                if many.len() > MOST_NAMED { ", …" } else { "" }
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(paths: &[&str]) -> Wanted {
        Wanted {
            paths: paths.iter().map(|path| shown(Path::new(path))).collect(),
            policy: None,
            since: None,
            events: Vec::new(),
        }
    }

    #[test]
    fn a_path_stands_for_itself_and_what_is_below_it() {
        let line =
            |path: &str| serde_json::json!({"path": escape::bytes(path.as_bytes())}).to_string();
        for (wants, path, expected) in [
            (&["/etc/app"][..], "/etc/app", true),
            (&["/etc/app/"], "/etc/app/a.conf", true),
            (&["/etc/app/./a.conf"], "/etc/app/a.conf", true),
            (&["/etc/app"], "/etc/app.conf", false),
            (&["/etc/app/a"], "/etc/app", false),
            (&["/"], "/etc/app", true),
            (&["/x", "/etc"], "/etc/app", true),
            (&["/etc/a\nb"], "/etc/a\nb/c", true),
            (&[], "/etc/app", true),
        ] {
            assert_eq!(
                wanted(wants).matches(&line(path)),
                expected,
                "{wants:?} {path}"
            );
        }
        assert!(!wanted(&["/etc"]).matches(r#"{"event":"config.events.lost"}"#));
        assert!(!wanted(&[]).matches("no record"));
    }

    #[test]
    fn events_have_a_short_name_and_ids_are_digits() {
        assert_eq!(event("config.drift.healed"), Ok(Event::DriftHealed));
        assert_eq!(event("heal_failed"), Ok(Event::HealFailed));
        assert_eq!(event("touched"), Ok(Event::Touched));
        assert!(event("drift").is_err());
        assert_eq!(id("3F2A"), Ok("3f2a".to_owned()));
        assert_eq!(id("0191-2d4c"), Ok("01912d4c".to_owned()));
        assert!(id("3f2").is_err() && id("3f2x").is_err());
    }

    #[test]
    fn since_is_a_time_or_how_long_ago() {
        let expected = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        assert_eq!(since("2023-11-14T22:13:20Z"), Ok(expected));
        let ago = since("1h").expect("an hour ago");
        let hour = SystemTime::now().duration_since(ago);
        assert!(hour.is_ok_and(|hour| hour.as_secs() / 10 == 360));
        assert!(since("yesterday").is_err());
        assert!(since("99999999999999d").is_ok(), "before all that is known");
    }
}
