//! The real OpenTelemetry Collector, for the tests: built from its modules, kept in the user's cache folder by version.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::{go, machine, step::Step};

const VERSION: &str = "0.161.0";

/// What the tests need of it: takes OTLP, writes what it took to a file and to its log.
fn manifest(output: &Path) -> String {
    format!(
        "dist:
  name: otelcol
  description: OpenTelemetry Collector for the tests of drift
  version: {VERSION}
  output_path: {output}
receivers:
  - gomod: go.opentelemetry.io/collector/receiver/otlpreceiver v{VERSION}
processors:
  - gomod: go.opentelemetry.io/collector/processor/batchprocessor v{VERSION}
exporters:
  - gomod: go.opentelemetry.io/collector/exporter/debugexporter v{VERSION}
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter v{VERSION}
",
        output = serde_json::Value::from(output.to_string_lossy()), // a JSON string is a YAML string
    )
}

/// The collector, built first if it is not kept yet. `Err(reason)`: this machine cannot build it.
pub(crate) fn ensure(tools: &Path) -> Result<Result<PathBuf, String>> {
    let kept = tools.join(format!("otelcol-{VERSION}")).join("otelcol");
    if machine::is_executable(&kept) {
        return Ok(Ok(kept));
    }
    if !go::is_here() {
        return Ok(Err(
            "the OpenTelemetry Collector is built with Go, which is not on the PATH".to_owned(),
        ));
    }
    build(tools, &kept)?;
    Ok(Ok(kept))
}

/// In a folder of its own beside the place it is kept in, then renamed: it is there whole or not at all.
fn build(tools: &Path, kept: &Path) -> Result<()> {
    let making = || format!("making a folder in {}", tools.display());
    fs::create_dir_all(tools).with_context(making)?;
    let scratch = tempfile::Builder::new()
        .prefix(".otelcol-")
        .tempdir_in(tools)
        .with_context(making)?;
    let output = scratch.path().join("out");
    let config = scratch.path().join("manifest.yaml");
    fs::write(&config, manifest(&output))
        .with_context(|| format!("writing {}", config.display()))?;
    go::step(format!(
        "build the OpenTelemetry Collector {VERSION} (once; 80 s)"
    ))
    .arg("run")
    .arg(format!(
        "go.opentelemetry.io/collector/cmd/builder@v{VERSION}"
    ))
    .arg("--config")
    .arg(&config)
    .current_dir(scratch.path()) // no go.mod of anybody's
    .run()?;
    let version = Step::new(
        "ask the OpenTelemetry Collector for its version",
        output.join("otelcol"),
    )
    .arg("--version")
    .read()?;
    anyhow::ensure!(
        version.contains(VERSION),
        "built OpenTelemetry Collector {VERSION}, but it calls itself {}",
        version.trim()
    );
    let place = kept
        .parent()
        .context("the collector is kept in no folder")?;
    fs::create_dir_all(place).with_context(|| format!("making {}", place.display()))?;
    fs::rename(output.join("otelcol"), kept)
        .with_context(|| format!("keeping it as {}", kept.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_collector_has_one_version() {
        let manifest = manifest(Path::new("/a b"));
        assert!(manifest.contains("output_path: \"/a b\""), "{manifest}");
        let parts = manifest.lines().filter(|line| line.contains("gomod:"));
        assert!(parts.clone().count() == 4 && parts.clone().all(|part| part.ends_with(VERSION)));
    }
}
