//! A real OpenTelemetry Collector: takes OTLP on free ports of loopback and writes what it took to a file in a folder of its own, where a
//! test reads it. It ends with its [`Collector`], and its folder with it.

use std::{
    collections::BTreeMap,
    env, fs,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::wait;

/// For whatever a collector does at once on a machine that is not busy.
pub const SOON: Duration = Duration::from_secs(30);

/// The program, where `cargo xtask test` has built it.
#[must_use]
pub fn program() -> Option<PathBuf> {
    env::var_os("DRIFT_OTELCOL").map(PathBuf::from)
}

/// The certificates in a collector's folder, each the file of one `OTEL_EXPORTER_OTLP_*` variable.
#[derive(Debug)]
pub struct Certificates {
    pub authority: PathBuf,
    pub client: PathBuf,
    pub client_key: PathBuf,
    /// An authority the collector has nothing to do with.
    pub stranger: PathBuf,
}

#[derive(Debug)]
pub struct Collector {
    program: PathBuf,
    folder: TempDir,
    /// Ports on loopback; the same after a stop and another start.
    pub grpc: u16,
    pub http: u16,
    running: Option<Child>,
}

/// One log record as the collector wrote it down.
#[derive(Clone, Debug)]
pub struct Received {
    pub resource: BTreeMap<String, Value>,
    /// Whose the record is within the resource.
    pub scope: Value,
    pub attributes: BTreeMap<String, Value>,
    /// As in OTLP's JSON form: `timeUnixNano`, `severityText`, `eventName`, `body`, …
    pub record: Value,
}

impl Received {
    /// The event's name.
    #[must_use]
    pub fn event(&self) -> &str {
        self.record["eventName"].as_str().unwrap_or_default()
    }

    /// An attribute's text.
    #[must_use]
    pub fn text(&self, attribute: &str) -> &str {
        self.attributes
            .get(attribute)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

impl Collector {
    /// A folder and free ports; [`Collector::start`] starts it.
    ///
    /// # Errors
    /// No folder, no ports.
    pub fn new(program: &Path) -> Result<Collector> {
        let [grpc, http] = [free_port()?, free_port()?];
        let collector = Collector {
            program: program.to_owned(),
            folder: tempfile::Builder::new()
                .prefix("drift-otelcol-")
                .tempdir()?,
            grpc,
            http,
            running: None,
        };
        collector.configure("")?;
        Ok(collector)
    }

    /// Makes it ask for TLS, and for a certificate of who sends.
    ///
    /// # Errors
    /// A certificate cannot be made or written.
    pub fn with_tls(&self) -> Result<Certificates> {
        let authority = authority()?;
        let server = signed(&authority, "127.0.0.1")?;
        let client = signed(&authority, "drift-agent")?;
        let certificates = Certificates {
            authority: self.write("authority.pem", &authority.0.pem())?,
            client: self.write("client.pem", &client.0)?,
            client_key: self.write("client.key", &client.1)?,
            stranger: self.write("stranger.pem", &self::authority()?.0.pem())?,
        };
        let tls = format!(
            ", tls: {{cert_file: {}, key_file: {}, client_ca_file: {}}}",
            self.write("server.pem", &server.0)?.display(),
            self.write("server.key", &server.1)?.display(),
            certificates.authority.display(),
        );
        self.configure(&tls)?;
        Ok(certificates)
    }

    fn configure(&self, tls: &str) -> Result<()> {
        let (grpc, http) = (self.grpc, self.http);
        let records = self.records_file();
        // No batch processor: what the collector says it took is in the file.
        let config = format!(
            "receivers:\n  otlp:\n    protocols:\n      grpc: {{endpoint: '127.0.0.1:{grpc}'{tls}}}\n      http: {{endpoint: '127.0.0.1:{http}'{tls}}}\n\
             exporters:\n  file: {{path: '{}', append: true, flush_interval: 50ms}}\n\
             service:\n  telemetry: {{metrics: {{level: none}}}}\n  pipelines:\n    logs: {{receivers: [otlp], exporters: [file]}}\n",
            records.display()
        );
        self.write("config.yaml", &config)?;
        Ok(())
    }

    /// Starts it and waits until it takes connections.
    ///
    /// # Errors
    /// It ended, or took none in time; with what it said.
    pub fn start(&mut self) -> Result<()> {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.log_file())?;
        let child = Command::new(&self.program)
            .arg("--config")
            .arg(self.folder.path().join("config.yaml"))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        self.running = Some(child);
        let ports = [self.grpc, self.http];
        let up = wait::until(SOON, || {
            if let Some(child) = &mut self.running
                && let Ok(Some(status)) = child.try_wait()
            {
                return Ok(Some(status));
            }
            let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            ports
                .iter()
                .all(|port| TcpStream::connect_timeout(&address(*port), SOON).is_ok())
                .then_some(None)
                .ok_or(())
        });
        match up {
            Ok(None) => Ok(()),
            Ok(Some(status)) => bail!("the collector ended ({status}):\n{}", self.log()),
            Err(()) => bail!("the collector takes no connections:\n{}", self.log()),
        }
    }

    /// Asks it to end and waits until it has: what it took is then in the file.
    ///
    /// # Errors
    /// It does not end; with what it said.
    pub fn stop(&mut self) -> Result<()> {
        let Some(mut child) = self.running.take() else {
            return Ok(());
        };
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::TERM)?;
        }
        let ended = wait::until(SOON, || match child.try_wait() {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err("it still runs".to_owned()),
            Err(error) => Err(error.to_string()),
        });
        if let Err(why) = ended {
            child.kill()?;
            child.wait()?;
            bail!("the collector did not end: {why}\n{}", self.log());
        }
        Ok(())
    }

    /// All it has written down so far.
    ///
    /// # Errors
    /// The file holds something else than OTLP's JSON form.
    pub fn received(&self) -> Result<Vec<Received>> {
        let text = match fs::read_to_string(self.records_file()) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut received = Vec::new();
        // A line without its end is still being written.
        for line in text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
        {
            let line: Value = serde_json::from_str(line)?;
            for logs in list(&line["resourceLogs"]) {
                let resource = attributes(&logs["resource"]["attributes"])?;
                for (scope, record) in list(&logs["scopeLogs"]).iter().flat_map(|scope| {
                    let records = list(&scope["logRecords"]).iter();
                    records.map(|record| (&scope["scope"], record))
                }) {
                    received.push(Received {
                        resource: resource.clone(),
                        scope: scope.clone(),
                        attributes: attributes(&record["attributes"])?,
                        record: record.clone(),
                    });
                }
            }
        }
        Ok(received)
    }

    /// Waits until what it has written down is `enough`. On failure: all that it has, and what it said.
    ///
    /// # Errors
    /// The time was up.
    pub fn wait_for(&self, enough: impl Fn(&[Received]) -> bool) -> Result<Vec<Received>> {
        let waited = wait::until(SOON, || match self.received() {
            Ok(received) if enough(&received) => Ok(received),
            Ok(received) => {
                let names: Vec<&str> = received.iter().map(Received::event).collect();
                Err(format!("{} records: {}", names.len(), names.join(" ")))
            }
            Err(error) => Err(error.to_string()),
        });
        match waited {
            Ok(received) => Ok(received),
            Err(seen) => bail!("the collector has {seen}\n{}", self.log()),
        }
    }

    /// What it said.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_else(|error| error.to_string())
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.folder.path().join(name);
        fs::write(&path, text)?;
        Ok(path)
    }

    fn records_file(&self) -> PathBuf {
        self.folder.path().join("records.jsonl")
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!("{error}");
        }
    }
}

/// Below the range the kernel itself gives ports from: between here and the collector's start no connection of another test takes it.
pub(crate) fn free_port() -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(process::id() % 9_000)?;
    for _ in 0..9_000 {
        let port = 20_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 9_000;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port on loopback");
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn attributes(value: &Value) -> Result<BTreeMap<String, Value>> {
    list(value)
        .iter()
        .map(|pair| {
            let key = pair["key"].as_str().context("an attribute without a key")?;
            Ok((key.to_owned(), plain(&pair["value"])?))
        })
        .collect()
}

/// OTLP's JSON form wraps each value in its type.
fn plain(value: &Value) -> Result<Value> {
    let (kind, inner) = value
        .as_object()
        .and_then(|object| object.iter().next())
        .context("an attribute without a value")?;
    Ok(match kind.as_str() {
        "stringValue" | "boolValue" | "doubleValue" => inner.clone(),
        // 64 bits, so a string.
        "intValue" => inner
            .as_str()
            .context("not a number")?
            .parse::<i64>()?
            .into(),
        "bytesValue" => STANDARD
            .decode(inner.as_str().context("not bytes")?)?
            .into(),
        "arrayValue" => list(&inner["values"])
            .iter()
            .map(plain)
            .collect::<Result<Vec<_>>>()?
            .into(),
        other => bail!("an attribute of kind {other}"),
    })
}

type Authority = (rcgen::Certificate, rcgen::KeyPair, rcgen::CertificateParams);

fn authority() -> Result<Authority> {
    let mut parameters = rcgen::CertificateParams::new(Vec::new())?;
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate()?;
    let certificate = parameters.self_signed(&key)?;
    Ok((certificate, key, parameters))
}

/// A certificate and its key, as PEM.
fn signed((_, key, parameters): &Authority, name: &str) -> Result<(String, String)> {
    let issuer = rcgen::Issuer::from_params(parameters, key);
    let own_key = rcgen::KeyPair::generate()?;
    let certificate =
        rcgen::CertificateParams::new(vec![name.to_owned()])?.signed_by(&own_key, &issuer)?;
    Ok((certificate.pem(), own_key.serialize_pem()))
}
