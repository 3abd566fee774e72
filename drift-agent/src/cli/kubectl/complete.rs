//! What may come next on a command line, as kubectl asks its plugins for it: a word on each line, and in the last what the shell is to make of them.

use std::time::Duration;

use clap::{ArgAction, Command, CommandFactory as _, Parser as _};
use drift_common::{escape::is_deceptive, policy::NODE_DRIFT};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, ListParams},
    config::Kubeconfig,
};

use super::{
    Plugin, To,
    ask::{PAGE, Server},
    report::Report,
    runtime,
};
use crate::cluster::own;

/// Nothing else, and no files.
const NO_FILES: &str = ":4\n";
/// And files.
const FILES: &str = ":0\n";
/// Nobody waits longer for a key.
const PATIENCE: Duration = Duration::from_secs(2);

/// `words`: what follows `kubectl drift`, the last of them perhaps not whole.
pub(super) fn answer(words: &[String]) -> String {
    let (last, before) = match words.split_last() {
        Some((last, before)) => (last.as_str(), before),
        None => ("", words),
    };
    let mut root = Plugin::command();
    root.build();
    let place = Place::find(&root, before);
    let (offered, end) = match place.waits_for {
        Some("kubeconfig") => (Vec::new(), FILES),
        Some("context") => (contexts(before), NO_FILES),
        Some("output") => (values(place.command, "output"), NO_FILES),
        Some(_) => (Vec::new(), NO_FILES),
        None if last.starts_with('-') => (options(place.command), NO_FILES),
        None => {
            let offered = match (place.command.get_name(), place.operands.as_slice()) {
                ("why", []) => asked(before, None),
                ("why", [node]) => asked(before, Some(node)),
                ("why", _) => Vec::new(),
                _ => commands(place.command),
            };
            (offered, NO_FILES)
        }
    };
    let fits = |word: &&(String, String)| {
        // A name that could do something to the terminal, or end the line, is not offered.
        word.0.starts_with(last) && !word.0.chars().any(|c| is_deceptive(c) || c == ' ')
    };
    let lines = offered
        .iter()
        .filter(fits)
        .map(|(word, about)| match about.as_str() {
            "" => format!("{word}\n"),
            about => format!("{word}\t{about}\n"),
        });
    lines.collect::<String>() + end
}

/// Where in the command line the last word stands.
struct Place<'c> {
    command: &'c Command,
    /// The option whose value it is.
    waits_for: Option<&'c str>,
    operands: Vec<String>,
}

impl<'c> Place<'c> {
    fn find(root: &'c Command, before: &[String]) -> Self {
        let mut place = Self {
            command: root,
            waits_for: None,
            operands: Vec::new(),
        };
        for word in before {
            if place.waits_for.take().is_some() {
                continue;
            }
            if let Some(option) = word.strip_prefix('-') {
                place.waits_for = waits(place.command, option);
            } else if let Some(below) = place.command.find_subcommand(word) {
                place.command = below;
            } else {
                place.operands.push(word.clone());
            }
        }
        place
    }
}

/// The name of the option where its value is the next word.
fn waits<'c>(command: &'c Command, option: &str) -> Option<&'c str> {
    let found = command.get_arguments().find(|argument| {
        let long = option.strip_prefix('-');
        long.is_some_and(|long| argument.get_long() == Some(long))
            || argument
                .get_short()
                .is_some_and(|short| option == short.to_string())
    })?;
    let takes = matches!(found.get_action(), ArgAction::Set | ArgAction::Append);
    takes.then(|| found.get_id().as_str())
}

fn commands(command: &Command) -> Vec<(String, String)> {
    let below = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set());
    below
        .map(|below| (below.get_name().to_owned(), first_line(below.get_about())))
        .collect()
}

fn options(command: &Command) -> Vec<(String, String)> {
    let options = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set());
    options
        .filter_map(|argument| {
            let long = format!("--{}", argument.get_long()?);
            Some((long, first_line(argument.get_help())))
        })
        .collect()
}

fn values(command: &Command, option: &str) -> Vec<(String, String)> {
    let found = command
        .get_arguments()
        .find(|argument| argument.get_id() == option);
    let values = found.into_iter().flat_map(clap::Arg::get_possible_values);
    values
        .map(|value| (value.get_name().to_owned(), String::new()))
        .collect()
}

fn first_line(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

/// As far as they are named so far.
fn to(before: &[String]) -> Option<To> {
    // Whatever else is there may not be whole: a command that takes nothing is asked for.
    let mut words = vec!["kubectl-drift".to_owned(), "status".to_owned()];
    let mut rest = before.iter();
    while let Some(word) = rest.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.as_str(), None),
        };
        if !matches!(name, "--kubeconfig" | "--context") {
            continue;
        }
        // The value of the last one may be what is asked for.
        if let Some(value) = value.or_else(|| rest.next().map(String::as_str)) {
            words.push(format!("{name}={value}"));
        }
    }
    Plugin::try_parse_from(words)
        .ok()
        .map(|plugin| plugin.kubectl.to)
}

fn contexts(before: &[String]) -> Vec<(String, String)> {
    let path = to(before).and_then(|to| to.kubeconfig);
    let kubeconfig = match path {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let contexts = kubeconfig
        .map(|kubeconfig| kubeconfig.contexts)
        .unwrap_or_default();
    contexts
        .into_iter()
        .map(|context| (context.name, String::new()))
        .collect()
}

/// Nodes, or what drifts on one: as far as the API server says it soon.
fn asked(before: &[String], node: Option<&String>) -> Vec<(String, String)> {
    let names = async {
        let server = Server::reach(&to(before)?).await.ok()?;
        let api: Api<DynamicObject> = Api::all_with(server.client.clone(), &own(NODE_DRIFT));
        let names: Vec<String> = match node {
            None => {
                let params = ListParams::default().limit(PAGE);
                let names = Server::all(&api, NODE_DRIFT, params, |object: DynamicObject| {
                    object.name_any()
                });
                names.await.ok()?
            }
            Some(node) => {
                let report = Report::whole(api.get(node).await.ok()?);
                let status = report.status.ok()?;
                status.drifts.into_iter().map(|drift| drift.path).collect()
            }
        };
        Some(names)
    };
    let waited = runtime().ok().and_then(|runtime| {
        let waited = runtime.block_on(async { tokio::time::timeout(PATIENCE, names).await });
        waited.ok().flatten()
    });
    waited
        .unwrap_or_default()
        .into_iter()
        .map(|name| (name, String::new()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(words: &[&str]) -> (Vec<String>, String) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let answer = answer(&words);
        let mut lines: Vec<String> = answer
            .lines()
            .map(|line| line.split('\t').next().unwrap_or_default().to_owned())
            .collect();
        let end = lines.pop().unwrap_or_default();
        (lines, end)
    }

    #[track_caller]
    fn check(words: &[&str], expected: &[&str]) {
        let (lines, end) = offered(words);
        assert_eq!(end, ":4");
        for word in expected {
            assert!(lines.iter().any(|line| line == word), "{word}: {lines:?}");
        }
        assert!(!expected.is_empty() || lines.is_empty(), "{lines:?}");
    }

    #[test]
    fn words_that_may_come_next() {
        check(&[""], &["status", "nodes", "why", "policies", "events"]);
        check(&["no"], &["nodes"]);
        assert_eq!(offered(&["no"]).0.len(), 1);
        check(&["nodes", "--w"], &["--watch"]);
        check(&["nodes", "--context", "x", "--out"], &["--output"]);
        check(&["nodes", "-o", ""], &["table", "json", "jsonl", "yaml"]);
        check(&["nodes", "-o", "js"], &["json", "jsonl"]);
        check(&["nodes", ""], &[]);
        check(&["why", "a", "/b", ""], &[]);
        check(&["nodes", "-n", ""], &[]);
        assert_eq!(offered(&["--kubeconfig", ""]).1, ":0");
        // With what it is about, as kubectl's own.
        assert!(answer(&["ev".to_owned()]).contains("events\tShow what"));
    }

    #[test]
    fn contexts_and_nodes_are_those_of_the_kubeconfig_that_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config");
        let text = "apiVersion: v1\nkind: Config\ncontexts:\n- {name: prod, context: {cluster: c}}\n- {name: \"a\\tb\", context: {cluster: c}}\n";
        std::fs::write(&path, text).expect("written");
        let path = path.to_str().expect("a path");
        assert_eq!(
            offered(&["--kubeconfig", path, "nodes", "--context", ""]).0,
            ["prod"]
        );
        let given = format!("--kubeconfig={path}");
        assert_eq!(offered(&["nodes", &given, "--context", ""]).0, ["prod"]);
        // There is no such cluster: nothing is offered, and nobody waits.
        assert_eq!(offered(&["why", &given, ""]).0, Vec::<String>::new());
    }
}
