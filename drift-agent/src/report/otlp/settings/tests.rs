use std::{ffi::OsString, os::unix::ffi::OsStringExt, time::Duration};

use super::{Protocol, Settings};

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");

fn read(variables: &[(&str, &str)]) -> Result<Option<Settings>, String> {
    let lookup = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| OsString::from(value))
    };
    Settings::from_lookup(&lookup).map_err(|error| error.to_string())
}

fn settings(variables: &[(&str, &str)]) -> Settings {
    let read = read(variables).expect("known values");
    read.expect("an endpoint is set")
}

#[track_caller]
fn refused(variables: &[(&str, &str)], sentence: &str) {
    assert_eq!(read(variables).expect_err("a bad value"), sentence);
}

#[test]
fn without_an_endpoint_there_is_no_otlp() {
    assert!(read(&[]).expect("fine").is_none());
    assert!(
        read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")])
            .expect("fine")
            .is_none()
    );
    assert!(
        read(&[ENDPOINT, ("OTEL_SDK_DISABLED", "True")])
            .expect("fine")
            .is_none()
    );
    assert!(
        read(&[ENDPOINT, ("OTEL_LOGS_EXPORTER", "none")])
            .expect("fine")
            .is_none()
    );
}

#[test]
fn the_defaults_are_those_of_the_specification() {
    let settings = settings(&[ENDPOINT]);
    assert_eq!(settings.protocol, Protocol::HttpProtobuf);
    assert_eq!(settings.endpoint.as_str(), "http://127.0.0.1:4318/v1/logs");
    assert_eq!(settings.timeout, Duration::from_secs(10));
    assert_eq!((settings.queue, settings.batch), (2048, 512));
    assert_eq!(settings.delay, Duration::from_secs(1));
    assert!(!settings.gzip);
    assert!(settings.headers.is_empty());
}

#[test]
fn an_endpoint_for_logs_is_taken_as_it_is_and_wins() {
    let logs = "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT";
    let settings = settings(&[ENDPOINT, (logs, "https://c.example/otlp?x=1")]);
    assert_eq!(settings.endpoint.as_str(), "https://c.example/otlp?x=1");
}

#[test]
fn a_base_with_a_path_keeps_it() {
    let base = "http://c.example/base/";
    let settings = settings(&[("OTEL_EXPORTER_OTLP_ENDPOINT", base)]);
    assert_eq!(settings.endpoint.as_str(), "http://c.example/base/v1/logs");
}

#[test]
fn grpc_without_a_scheme_is_tls_unless_told_otherwise() {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "c.example:4317");
    let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    assert_eq!(
        settings(&[endpoint, grpc]).endpoint.as_str(),
        "https://c.example:4317/"
    );
    let insecure = ("OTEL_EXPORTER_OTLP_INSECURE", "true");
    assert_eq!(
        settings(&[endpoint, grpc, insecure]).endpoint.as_str(),
        "http://c.example:4317/"
    );
}

#[test]
fn the_variable_for_logs_wins_over_the_one_for_all() {
    let settings = settings(&[
        ENDPOINT,
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1"),
        ("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "2500"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
    ]);
    assert_eq!(settings.protocol, Protocol::Grpc);
    assert_eq!(settings.timeout, Duration::from_millis(2500));
    assert!(settings.gzip);
}

#[test]
fn headers_are_decoded_and_never_shown() {
    let headers = "authorization=Bearer%20s3cret, x-tenant = a ";
    let settings = settings(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_HEADERS", headers)]);
    let shown = format!("{settings:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
    let told: Vec<(&str, &[u8])> = settings
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    assert_eq!(
        told,
        [
            ("authorization", b"Bearer s3cret".as_slice()),
            ("x-tenant", b"a".as_slice())
        ]
    );
}

#[test]
fn the_service_name_wins_over_the_resource_attributes() {
    let settings = settings(&[
        ENDPOINT,
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "service.name=a,deployment.environment.name=pro%2Cd",
        ),
        ("OTEL_SERVICE_NAME", "b"),
    ]);
    let told: Vec<(&str, &str)> = settings
        .resource
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("deployment.environment.name", "pro,d"),
            ("service.name", "b")
        ]
    );
}

#[test]
fn what_is_not_known_is_refused_in_a_sentence() {
    refused(
        &[ENDPOINT, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")],
        "OTEL_EXPORTER_OTLP_PROTOCOL is \"http/json\": known are http/protobuf and grpc",
    );
    refused(
        &[ENDPOINT, ("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "10s")],
        "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT is \"10s\": wanted are milliseconds, from 1",
    );
    refused(
        &[ENDPOINT, ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd")],
        "OTEL_EXPORTER_OTLP_COMPRESSION is \"zstd\": known are gzip and none",
    );
    refused(
        &[ENDPOINT, ("OTEL_LOGS_EXPORTER", "console")],
        "OTEL_LOGS_EXPORTER is \"console\": known are otlp and none",
    );
    refused(
        &[ENDPOINT, ("OTEL_BLRP_MAX_QUEUE_SIZE", "0")],
        "OTEL_BLRP_MAX_QUEUE_SIZE is \"0\": wanted is a number from 1",
    );
    refused(
        &[ENDPOINT, ("OTEL_SDK_DISABLED", "yes")],
        "OTEL_SDK_DISABLED is \"yes\": known are true and false",
    );
}

#[test]
fn a_refusal_quotes_no_secret() {
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_HEADERS", "s3cret"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "bad name=s3cret"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=s3cret%0a"),
        (
            "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
            "ftp://u:s3cret@c.example",
        ),
        ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://u:s3cret@"),
    ] {
        let error = read(&[ENDPOINT, (name, value)]).expect_err(value);
        assert!(!error.contains("s3cret"), "{error}");
        assert!(error.contains(name), "{error}");
    }
    let user = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://u:s3cret@c.example");
    assert_eq!(settings(&[user]).collector(), "https://c.example:443");
}

#[test]
fn a_value_that_is_not_text_is_refused() {
    let lookup = |name: &str| {
        (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| OsString::from_vec(vec![b'h', 0xe9]))
    };
    let error = Settings::from_lookup(&lookup).expect_err("not UTF-8");
    assert_eq!(
        error.to_string(),
        "OTEL_EXPORTER_OTLP_ENDPOINT is \"…\": its value is not UTF-8"
    );
}
