//! What the `OTEL_*` variables ask for. Names and defaults are those of the OpenTelemetry specification
//! (<https://opentelemetry.io/docs/specs/otel/protocol/exporter/>); where it lets a program ignore a bad value, this one refuses it: an
//! agent that reports to nowhere because of a typing error is worse than one that does not start.

use std::{env, ffi::OsString, path::PathBuf, time::Duration};

use percent_encoding::percent_decode_str;
use reqwest::Url;
use tonic::codegen::http::{HeaderName, HeaderValue};

use super::{OtlpError, tls::Tls};

/// Where and how records are sent. `Debug` shows no header's value: they hold tokens.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(super) endpoint: Url,
    pub(super) protocol: Protocol,
    /// Marked sensitive.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// For one try, from connecting to the answer.
    pub(super) timeout: Duration,
    pub(super) gzip: bool,
    pub(super) tls: Tls,
    /// `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME`.
    pub(super) resource: Vec<(String, String)>,
    /// Records that wait at most.
    pub(super) queue: usize,
    /// Records in a request at most.
    pub(super) batch: usize,
    /// How long a record waits for others.
    pub(super) delay: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Grpc,
    HttpProtobuf,
}

impl Settings {
    /// As this process's environment asks for. `None`: it does not ask for OTLP, or asks for none.
    ///
    /// # Errors
    /// A variable's value is not one that is known, or a file it names cannot be read: see [`OtlpError`].
    pub fn from_env() -> Result<Option<Settings>, OtlpError> {
        Settings::from_lookup(&|name| env::var_os(name))
    }

    /// As [`Settings::from_env`], from any source of variables.
    ///
    /// # Errors
    /// As there.
    pub fn from_lookup(
        lookup: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Settings>, OtlpError> {
        let variables = Variables { lookup };
        if variables.flag("OTEL_SDK_DISABLED")? {
            return Ok(None);
        }
        match variables.text("OTEL_LOGS_EXPORTER")?.as_deref() {
            None | Some("otlp") => {}
            Some("none") => return Ok(None),
            Some(other) => {
                return Err(OtlpError::setting(
                    "OTEL_LOGS_EXPORTER",
                    other,
                    "known are otlp and none",
                ));
            }
        }
        let Some(endpoint) = variables.either("ENDPOINT")? else {
            return Ok(None);
        };
        let protocol = variables.protocol()?;
        let batch = variables
            .number("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE")?
            .unwrap_or(512);
        Ok(Some(Settings {
            endpoint: variables.endpoint(&endpoint, protocol)?,
            protocol,
            headers: variables.headers()?,
            timeout: variables.timeout()?,
            gzip: variables.gzip()?,
            tls: variables.tls()?,
            resource: variables.resource()?,
            queue: variables
                .number("OTEL_BLRP_MAX_QUEUE_SIZE")?
                .unwrap_or(2048),
            batch,
            delay: variables
                .number("OTEL_BLRP_SCHEDULE_DELAY")?
                .map_or(Duration::from_secs(1), |ms| {
                    Duration::from_millis(ms as u64)
                }),
        }))
    }

    /// The collector's address for people: without what may be secret in an URL (user, password, path, query).
    #[must_use]
    pub fn collector(&self) -> String {
        let (scheme, host) = (
            self.endpoint.scheme(),
            self.endpoint.host_str().unwrap_or("?"),
        );
        match self.endpoint.port_or_known_default() {
            Some(port) => format!("{scheme}://{host}:{port}"),
            None => format!("{scheme}://{host}"),
        }
    }
}

/// A variable that was found, under the name it was found by.
struct Found {
    name: &'static str,
    value: String,
    /// `OTEL_EXPORTER_OTLP_LOGS_…`, not `OTEL_EXPORTER_OTLP_…`.
    for_logs: bool,
}

struct Variables<'a> {
    lookup: &'a dyn Fn(&str) -> Option<OsString>,
}

/// The two names of an exporter's setting: the one for logs wins.
macro_rules! names {
    ($($what:literal),*) => {
        [$(($what, concat!("OTEL_EXPORTER_OTLP_LOGS_", $what), concat!("OTEL_EXPORTER_OTLP_", $what))),*]
    };
}
const EITHER: [(&str, &str, &str); 9] = names![
    "ENDPOINT",
    "PROTOCOL",
    "HEADERS",
    "TIMEOUT",
    "COMPRESSION",
    "INSECURE",
    "CERTIFICATE",
    "CLIENT_CERTIFICATE",
    "CLIENT_KEY"
];

impl Variables<'_> {
    /// The variable's value; an empty one is as good as none, as the specification has it.
    fn text(&self, name: &'static str) -> Result<Option<String>, OtlpError> {
        match (self.lookup)(name).filter(|value| !value.is_empty()) {
            None => Ok(None),
            Some(value) => value
                .into_string()
                .map(Some)
                .map_err(|_| OtlpError::setting(name, "…", "its value is not UTF-8")),
        }
    }

    fn either(&self, what: &str) -> Result<Option<Found>, OtlpError> {
        for (known, for_logs, for_all) in EITHER {
            if known != what {
                continue;
            }
            for (name, for_logs) in [(for_logs, true), (for_all, false)] {
                if let Some(value) = self.text(name)? {
                    return Ok(Some(Found {
                        name,
                        value,
                        for_logs,
                    }));
                }
            }
        }
        Ok(None)
    }

    fn flag(&self, name: &'static str) -> Result<bool, OtlpError> {
        let value = self.text(name)?.unwrap_or_default();
        flag(name, &value)
    }

    fn number(&self, name: &'static str) -> Result<Option<usize>, OtlpError> {
        let Some(value) = self.text(name)? else {
            return Ok(None);
        };
        match value.trim().parse() {
            Ok(number) if number > 0 => Ok(Some(number)),
            _ => Err(OtlpError::setting(
                name,
                &value,
                "wanted is a number from 1",
            )),
        }
    }

    fn protocol(&self) -> Result<Protocol, OtlpError> {
        let Some(found) = self.either("PROTOCOL")? else {
            return Ok(Protocol::HttpProtobuf);
        };
        match found.value.trim() {
            "grpc" => Ok(Protocol::Grpc),
            "http/protobuf" => Ok(Protocol::HttpProtobuf),
            other => Err(OtlpError::setting(
                found.name,
                other,
                "known are http/protobuf and grpc",
            )),
        }
    }

    fn endpoint(&self, found: &Found, protocol: Protocol) -> Result<Url, OtlpError> {
        let value = found.value.trim();
        let wrong = |problem: &str| OtlpError::Setting {
            variable: found.name,
            // It may hold a password.
            value: "…".to_owned(),
            expected: problem.to_owned(),
        };
        const WANTED: &str =
            "wanted is an URL such as http://collector:4318 or https://collector:4317";
        let whole = if value.contains("://") {
            value.to_owned()
        } else if protocol == Protocol::Grpc {
            let insecure = match self.either("INSECURE")? {
                Some(insecure) => flag(insecure.name, &insecure.value)?,
                None => false,
            };
            format!("{}://{value}", if insecure { "http" } else { "https" })
        } else {
            return Err(wrong(WANTED));
        };
        let mut url = Url::parse(&whole).map_err(|error| wrong(&format!("{WANTED}; {error}")))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(wrong(WANTED));
        }
        // An endpoint for all signals is a base, one for logs is the whole address.
        if protocol == Protocol::HttpProtobuf && !found.for_logs {
            let path = format!("{}/v1/logs", url.path().trim_end_matches('/'));
            url.set_path(&path);
        }
        Ok(url)
    }

    fn headers(&self) -> Result<Vec<(HeaderName, HeaderValue)>, OtlpError> {
        let Some(found) = self.either("HEADERS")? else {
            return Ok(Vec::new());
        };
        pairs(&found)?
            .into_iter()
            .map(|(key, value)| {
                let wrong = || {
                    OtlpError::setting(
                        found.name,
                        &format!("{key}=…"),
                        "that is not a header's name and value",
                    )
                };
                let name = HeaderName::try_from(&key).map_err(|_| wrong())?;
                let mut value = HeaderValue::try_from(value).map_err(|_| wrong())?;
                value.set_sensitive(true);
                Ok((name, value))
            })
            .collect()
    }

    fn timeout(&self) -> Result<Duration, OtlpError> {
        let Some(found) = self.either("TIMEOUT")? else {
            return Ok(Duration::from_secs(10));
        };
        match found.value.trim().parse() {
            Ok(ms) if ms > 0 => Ok(Duration::from_millis(ms)),
            _ => Err(OtlpError::setting(
                found.name,
                &found.value,
                "wanted are milliseconds, from 1",
            )),
        }
    }

    fn gzip(&self) -> Result<bool, OtlpError> {
        let Some(found) = self.either("COMPRESSION")? else {
            return Ok(false);
        };
        match found.value.trim() {
            "gzip" => Ok(true),
            "none" => Ok(false),
            other => Err(OtlpError::setting(
                found.name,
                other,
                "known are gzip and none",
            )),
        }
    }

    fn tls(&self) -> Result<Tls, OtlpError> {
        let file = |what: &str| -> Result<Option<(&'static str, PathBuf)>, OtlpError> {
            let found = self.either(what)?;
            Ok(found.map(|found| (found.name, found.value.into())))
        };
        Tls::read(
            file("CERTIFICATE")?,
            file("CLIENT_CERTIFICATE")?,
            file("CLIENT_KEY")?,
        )
    }

    fn resource(&self) -> Result<Vec<(String, String)>, OtlpError> {
        const NAME: &str = "OTEL_RESOURCE_ATTRIBUTES";
        let mut resource = match self.text(NAME)? {
            Some(value) => pairs(&Found {
                name: NAME,
                value,
                for_logs: false,
            })?,
            None => Vec::new(),
        };
        if let Some(name) = self.text("OTEL_SERVICE_NAME")? {
            resource.retain(|(key, _)| key != "service.name");
            resource.push(("service.name".to_owned(), name));
        }
        Ok(resource)
    }
}

fn flag(name: &'static str, value: &str) -> Result<bool, OtlpError> {
    match value.trim().to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" | "" => Ok(false),
        _ => Err(OtlpError::setting(name, value, "known are true and false")),
    }
}

/// `key=value,key=value`, values percent-encoded.
fn pairs(found: &Found) -> Result<Vec<(String, String)>, OtlpError> {
    found
        .value
        .split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            // A value may be a token, so none is ever quoted in an error.
            let (key, value) = pair.split_once('=').ok_or_else(|| {
                OtlpError::setting(found.name, "…", "wanted is key=value,key=value")
            })?;
            let key = key.trim();
            let value = percent_decode_str(value.trim())
                .decode_utf8()
                .map_err(|_| {
                    OtlpError::setting(found.name, &format!("{key}=…"), "its value is not UTF-8")
                })?;
            Ok((key.to_owned(), value.into_owned()))
        })
        .collect()
}

/// Every variable that is read.
#[cfg(test)]
pub(super) fn names() -> Vec<String> {
    let read = std::cell::RefCell::new(std::collections::BTreeSet::new());
    let lookup = |name: &str| {
        read.borrow_mut().insert(name.to_owned());
        match name {
            // Without a scheme, so that the variable for that is asked too.
            "OTEL_EXPORTER_OTLP_ENDPOINT" => Some("127.0.0.1:4317".into()),
            "OTEL_EXPORTER_OTLP_PROTOCOL" => Some("grpc".into()),
            _ => None,
        }
    };
    if let Err(error) = Settings::from_lookup(&lookup) {
        panic!("{error}");
    }
    read.into_inner().into_iter().collect()
}

#[cfg(test)]
mod tests;
