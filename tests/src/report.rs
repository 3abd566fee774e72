//! The agent's reporter as a library, for tests of what becomes of records on their way to a collector.

use std::{ffi::OsString, io};

use anyhow::{Context, Result};
use drift_agent::report::{
    Cause, Event, Look, OtlpSettings, Output, Record, ReportError, Reporter,
};

/// A reporter that sends to `endpoint`, soon after each record, and prints nowhere.
///
/// # Errors
/// The variables in `more` have values that are not known, or it cannot start.
pub fn reporter(protocol: &str, endpoint: &str, more: &[(&str, &str)]) -> Result<Reporter> {
    let mut variables = vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
        ("OTEL_BLRP_SCHEDULE_DELAY", "20"),
    ];
    variables.extend_from_slice(more);
    let lookup = |name: &str| {
        let found = variables.iter().rfind(|(known, _)| *known == name);
        found.map(|(_, value)| OsString::from(value))
    };
    let settings = OtlpSettings::from_lookup(&lookup)?.context("OTLP is switched off")?;
    let look = Look {
        columns: Some(100),
        colour: false,
        zone: jiff::tz::TimeZone::UTC,
    };
    let out = Box::new(io::sink());
    Ok(Reporter::to(
        out,
        look,
        Output::Jsonl,
        "node-a",
        Some(&settings),
    )?)
}

/// Reports them all.
///
/// # Errors
/// As [`Reporter::report`].
pub fn report(reporter: &mut Reporter, records: &[Record]) -> Result<(), ReportError> {
    records
        .iter()
        .try_for_each(|record| reporter.report(record))
}

/// So many small records.
#[must_use]
pub fn touches(count: usize) -> Vec<Record> {
    (0..count)
        .map(|n| {
            let mut record = Record::new(Event::Touched);
            record.policy = Some("web".into());
            record.version = Some("1.2.0".into());
            record.path = Some(format!("/etc/app/{n}.conf").into());
            record.cause = Some(Cause::Scan);
            record
        })
        .collect()
}
