//! The status as people read it: the answer first, then why, then each policy.

use drift_common::escape::printable;
use jiff::{Timestamp, tz::TimeZone};

use crate::{
    cli::columns::{GAP, Row, columns, span},
    serve::{Health, Held, PolicyStatus, Status},
};

pub(super) fn table(status: &Status, zone: &TimeZone) -> String {
    let mut text = head(status);
    for reason in &status.reasons {
        text.push_str(&format!("  {}\n", printable(&reason.message)));
    }
    for stop in &status.stops {
        text.push_str(&format!("  {}\n", printable(&stop.sentence())));
    }
    if status.policies.is_empty() {
        text.push_str(match status.health {
            Health::NoAgent => "  what it knew is not there either\n",
            Health::Healthy | Health::Drifting | Health::Degraded => {
                "  no policies: nothing is declared\n"
            }
        });
        return text;
    }
    text.push('\n');
    let rows = match status.health {
        Health::NoAgent => left(&status.policies),
        Health::Healthy | Health::Drifting | Health::Degraded => running(&status.policies, zone),
    };
    text += &columns(&rows);
    let sentences = status.policies.iter().flat_map(PolicyStatus::sentences);
    for (index, sentence) in sentences.enumerate() {
        text += if index == 0 { "\n  " } else { "  " };
        text += &printable(&sentence);
        text.push('\n');
    }
    text
}

/// One line: the node and the agent.
fn head(status: &Status) -> String {
    let mut parts = vec![
        printable(&status.node).into_owned(),
        status.health.name().to_owned(),
    ];
    if let Some(agent) = &status.agent {
        let up = status
            .uptime_s
            .map_or(String::new(), |up| format!(" up {}", span(up)));
        parts.push(format!("agent {}{up}", printable(agent)));
    }
    if let Some(sensor) = &status.sensor {
        parts.push(match sensor.name.as_str() {
            "scan" => "no probes, scan alone".to_owned(),
            name => format!(
                "probes {} {}/{}",
                printable(name),
                sensor.hooks_attached,
                sensor.hooks
            ),
        });
    }
    if let Some(lost) = status.events_lost {
        parts.push(format!("events lost {lost}"));
    }
    match (&status.last_full_scan, status.full_scan_running_s) {
        (Some(scan), _) => parts.push(format!(
            "last full scan {} ago ({} {}, {})",
            span(scan.age_s),
            scan.files,
            if scan.files == 1 { "file" } else { "files" },
            milliseconds(scan.took_ns)
        )),
        (None, Some(running)) => {
            parts.push(format!("first full scan running for {}", span(running)));
        }
        (None, None) => {}
    }
    parts.join(GAP) + "\n"
}

fn running(policies: &[PolicyStatus], zone: &TimeZone) -> Vec<Row> {
    let is_late = policies.iter().any(|policy| policy.not_compared > 0);
    let text = |text: &str| (printable(text).into_owned(), false);
    let number = |number: usize| (number.to_string(), true);
    let heading = |text: &str| (text.to_owned(), true);
    let mut head = vec![text("policy"), text("version"), text("mode")];
    head.extend(["files", "as declared", "drifting"].map(heading));
    if is_late {
        head.push(heading("not compared"));
    }
    head.push(heading("healed (24 h)"));
    head.extend([text("known good"), text("held")]);
    let mut rows = vec![head];
    for policy in policies {
        let mut row = vec![
            text(&policy.policy),
            text(&policy.version),
            text(&policy.mode),
            number(policy.files),
            number(policy.as_declared),
            number(policy.drifting),
        ];
        if is_late {
            row.push(number(policy.not_compared));
        }
        let heals = policy.mode == "heal";
        row.push(match policy.healed_24h {
            Some(healed) if heals || healed > 0 => (healed.to_string(), true),
            Some(_) | None => ("-".to_owned(), true),
        });
        row.push(text(&known_good(policy)));
        row.push(text(&if heals || policy.held.count > 0 {
            held(&policy.held, zone)
        } else {
            "-".to_owned()
        }));
        rows.push(row);
    }
    rows
}

/// What an agent that runs no more has left.
fn left(policies: &[PolicyStatus]) -> Vec<Row> {
    let row = |cells: [&str; 3]| cells.map(|cell| (printable(cell).into_owned(), false));
    let mut rows = vec![row(["policy", "version", "known good"]).to_vec()];
    rows.extend(policies.iter().map(|policy| {
        let good = policy.last_known_good.as_deref().unwrap_or("-");
        row([&policy.policy, &policy.version, good]).to_vec()
    }));
    rows
}

fn known_good(policy: &PolicyStatus) -> String {
    let known = policy.last_known_good.as_deref().unwrap_or("-");
    match policy.soak_left_s {
        Some(left) => format!("{known}, {} in {}", policy.version, span(left.max(1))),
        None => known.to_owned(),
    }
}

/// How many, and of the first why and until when.
fn held(held: &Held, zone: &TimeZone) -> String {
    let Some(first) = held.paths.first().filter(|_| held.count > 0) else {
        return held.count.to_string();
    };
    let until = first.until.as_deref().and_then(|time| time.parse().ok());
    let until = until.map_or(String::new(), |time: Timestamp| {
        let time = time.to_zoned(zone.clone());
        format!(" until {}", time.strftime("%H:%M:%S"))
    });
    let more = if held.count > 1 { ", …" } else { "" };
    format!("{}   {}{until}{more}", held.count, first.reason)
}

fn milliseconds(ns: u64) -> String {
    match ns {
        0..1_000_000 => "<1 ms".to_owned(),
        1_000_000..10_000_000_000 => format!("{} ms", ns / 1_000_000),
        _ => span(ns / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests;
