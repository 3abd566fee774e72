//! What is shown once, or again whenever something has changed.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use anyhow::{Context as _, Result};
use drift_common::policy::NODE_DRIFT;
use futures_util::{StreamExt as _, stream::BoxStream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, watcher},
    },
};
use serde_json::Value;

use super::{
    Shown,
    ask::Server,
    fleet::{Declared, Fleet},
    report::Report,
};
use crate::{
    cli::{format::Format, policy::print},
    cluster::{News, config, news, own},
    report::complain,
};

/// What comes within this time is shown at once.
const GATHER: Duration = Duration::from_secs(1);
/// Ages grow, and nodes become stale, though nothing is heard.
const AGAIN: Duration = Duration::from_secs(15);

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follow {
    Nodes,
    /// And what policies there are.
    Policies,
}

enum Any {
    Report(News<Report>),
    Node(News<()>),
    Policy(News<Declared>),
}

/// Shows what `view` makes of `fleet`: values for programs, and a table. `is_one`: there is always one value.
pub(super) async fn follow(
    server: &Server,
    mut fleet: Fleet,
    how: Shown,
    what: Follow,
    is_one: bool,
    view: impl Fn(&Fleet, Timestamp) -> (Vec<Value>, String),
) -> Result<()> {
    let (mut values, table) = view(&fleet, server.now());
    print(&text(how.output, is_one, &values, &table))?;
    if !how.watch {
        return Ok(());
    }
    let is_redrawn = how.output == Format::Table && io::stdout().is_terminal();
    let mut changes = changes(server, &fleet, what);
    let mut said = false;
    loop {
        let next = tokio::time::timeout(AGAIN, changes.next());
        if let Ok(Some(first)) = next.await {
            take(&mut fleet, first, &mut said);
        }
        let end = tokio::time::Instant::now() + GATHER;
        while let Ok(Some(more)) = tokio::time::timeout_at(end, changes.next()).await {
            take(&mut fleet, more, &mut said);
        }
        let (new, table) = view(&fleet, server.now());
        let mut shown = match how.output {
            _ if is_redrawn => format!("\x1b[H\x1b[2J{table}"),
            _ if new == values => continue,
            Format::Table => format!("\n{table}"),
            // Only what is new.
            Format::Jsonl => {
                let changed = new.iter().filter(|value| !values.contains(value));
                changed.map(|value| format!("{value}\n")).collect()
            }
            Format::Json | Format::Yaml => text(how.output, is_one, &new, &table),
        };
        if how.output == Format::Yaml {
            shown = format!("---\n{shown}");
        }
        values = new;
        if !still_read(&shown)? {
            return Ok(());
        }
    }
}

fn text(output: Format, is_one: bool, values: &[Value], table: &str) -> String {
    match values {
        [value] if is_one => output.print_one(value.clone(), || table.to_owned()),
        values => output.print(values.to_vec(), || table.to_owned()),
    }
}

/// Prints it; `false`: nobody reads on.
pub(super) fn still_read(text: &str) -> Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        other => other
            .map(|()| true)
            .context("cannot write to standard output"),
    }
}

/// Says once that nothing new is heard, and once that it is again.
pub(super) fn heard<T>(said: &mut bool, news: Result<T, watcher::Error>) -> Option<T> {
    match news {
        Ok(news) => {
            if std::mem::take(said) {
                complain("the API server answers again");
            }
            Some(news)
        }
        Err(error) => {
            if !std::mem::replace(said, true) {
                let error = drift_common::escape::printable(&error.to_string()).into_owned();
                complain(format_args!(
                    "nothing new is heard, and it is tried again: {error}"
                ));
            }
            None
        }
    }
}

fn take(fleet: &mut Fleet, any: Result<Any, watcher::Error>, said: &mut bool) {
    match heard(said, any) {
        Some(Any::Report(news)) => {
            fleet.reports.take(news);
        }
        Some(Any::Node(news)) => {
            if let Some(nodes) = &mut fleet.nodes {
                nodes.take(news);
            }
        }
        Some(Any::Policy(news)) => {
            fleet.policies.take(news);
        }
        None => {}
    }
}

type Stream = BoxStream<'static, Result<Any, watcher::Error>>;

fn changes(server: &Server, fleet: &Fleet, what: Follow) -> Stream {
    let drifts = Api::all_with(server.client.clone(), &own(NODE_DRIFT));
    let drifts = watcher(drifts, config())
        .default_backoff()
        .map(|event| Ok(Any::Report(news(event?, Report::brief))));
    let mut streams: Vec<Stream> = vec![drifts.boxed()];
    if fleet.nodes.is_some() {
        let nodes: Api<PartialObjectMeta<Node>> = Api::all(server.client.clone());
        let nodes = watcher(nodes, config())
            .default_backoff()
            .map(|event| Ok(Any::Node(news(event?, drop))));
        streams.push(nodes.boxed());
    }
    if what == Follow::Policies {
        let policies = watcher(server.api("Policy"), config())
            .default_backoff()
            .map(|event| Ok(Any::Policy(news(event?, |object| Declared::new(&object)))));
        streams.push(policies.boxed());
    }
    futures_util::stream::select_all(streams).boxed()
}
