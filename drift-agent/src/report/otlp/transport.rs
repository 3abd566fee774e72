//! One request to the collector and what its answer means, by gRPC or by HTTP.
//!
//! Which answers are worth another try is the specification's list (<https://opentelemetry.io/docs/specs/otlp/>). An answer's own text is
//! not passed on where it may quote what was sent (a token in a header).

use std::{error::Error, io::Write, mem, net::IpAddr, time::Duration};

use flate2::{Compression, write::GzEncoder};
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsServiceRequest, ExportLogsServiceResponse, logs_service_client::LogsServiceClient,
};
use prost::Message;
use reqwest::{Client, StatusCode, Url, header};
use tonic::{
    Code, Request, Status,
    codec::CompressionEncoding,
    codegen::http::HeaderMap,
    metadata::MetadataMap,
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt;

use super::{
    OtlpError,
    settings::{Protocol, Settings},
    tls::Tls,
};

const USER_AGENT: &str = concat!("drift-agent/", env!("CARGO_PKG_VERSION"));
/// Of an answer, read at most this much: it holds a count and a sentence.
const ANSWER: usize = 64 * 1024;
/// Longer than this a collector does not make the agent wait, whatever it says.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// The collector took the request; of its records it may have rejected some.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) rejected: u64,
    pub(super) message: String,
}

/// The collector did not take the request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It may yet; where it says when, not before.
    Later {
        why: String,
        after: Option<Duration>,
    },
    /// It never will take these records.
    Never { why: String },
}

#[derive(Debug)]
pub(super) enum Transport {
    Grpc {
        endpoint: Box<Endpoint>,
        headers: Headers,
        gzip: bool,
        /// Made on first use, since it belongs to the runtime it is made in.
        client: Option<LogsServiceClient<InterceptedService<Channel, Headers>>>,
    },
    Http {
        client: Client,
        url: Url,
        headers: HeaderMap,
        gzip: bool,
    },
}

impl Transport {
    pub(super) fn new(settings: &Settings) -> Result<Transport, OtlpError> {
        let secure = settings.endpoint.scheme() == "https";
        let headers: HeaderMap = settings.headers.iter().cloned().collect();
        let wrong = |error: &dyn Error| OtlpError::Client(chain(error));
        match settings.protocol {
            Protocol::Grpc => {
                let mut endpoint = Endpoint::from_shared(settings.endpoint.to_string())
                    .and_then(|endpoint| endpoint.user_agent(USER_AGENT))
                    .map_err(|error| wrong(&error))?
                    .connect_timeout(settings.timeout)
                    .timeout(settings.timeout);
                if secure {
                    endpoint = endpoint
                        .tls_config(settings.tls.tonic()?)
                        .map_err(|error| wrong(&error))?;
                }
                Ok(Transport::Grpc {
                    endpoint: Box::new(endpoint),
                    headers: Headers(headers),
                    gzip: settings.gzip,
                    client: None,
                })
            }
            Protocol::HttpProtobuf => {
                let tls = if secure {
                    settings.tls.rustls()?
                } else {
                    Tls::unused()?
                };
                let mut builder = Client::builder();
                if is_loopback(&settings.endpoint) {
                    // A proxy for the world has its own loopback.
                    builder = builder.no_proxy();
                }
                let client = builder
                    .user_agent(USER_AGENT)
                    .timeout(settings.timeout)
                    // A redirected POST would arrive as a GET, and its headers at a stranger's.
                    .redirect(reqwest::redirect::Policy::none())
                    .tls_backend_preconfigured(tls)
                    .build()
                    .map_err(|error| wrong(&error))?;
                Ok(Transport::Http {
                    client,
                    url: settings.endpoint.clone(),
                    headers,
                    gzip: settings.gzip,
                })
            }
        }
    }

    /// Sends a request, once. Takes at most about the settings' timeout.
    pub(super) async fn send(
        &mut self,
        request: &ExportLogsServiceRequest,
    ) -> Result<Taken, Refusal> {
        match self {
            Transport::Grpc {
                endpoint,
                headers,
                gzip,
                client,
            } => {
                let client = client.get_or_insert_with(|| {
                    let channel = endpoint.connect_lazy();
                    let client = LogsServiceClient::with_interceptor(channel, headers.clone());
                    if *gzip {
                        // Collectors answer in the encoding they were asked in.
                        client
                            .send_compressed(CompressionEncoding::Gzip)
                            .accept_compressed(CompressionEncoding::Gzip)
                    } else {
                        client
                    }
                });
                match client.export(request.clone()).await {
                    Ok(answer) => Ok(taken(answer.into_inner())),
                    Err(status) => Err(refused_by_grpc(&status)),
                }
            }
            Transport::Http {
                client,
                url,
                headers,
                gzip,
            } => {
                let mut post = client
                    .post(url.clone())
                    .headers(headers.clone())
                    .header(header::CONTENT_TYPE, "application/x-protobuf");
                let mut body = request.encode_to_vec();
                if *gzip {
                    body = compressed(&body).map_err(|error| Refusal::Never {
                        why: error.to_string(),
                    })?;
                    post = post.header(header::CONTENT_ENCODING, "gzip");
                }
                let answer = post.body(body).send().await;
                http_answer(answer).await
            }
        }
    }
}

/// Adds the asked-for headers to each gRPC request. `Debug` shows none of their values: they are marked sensitive.
#[derive(Clone, Debug)]
pub(super) struct Headers(HeaderMap);

impl Interceptor for Headers {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        // The request has headers of the protocol already.
        let mut headers = mem::take(request.metadata_mut()).into_headers();
        headers.extend(self.0.clone());
        *request.metadata_mut() = MetadataMap::from_headers(headers);
        Ok(request)
    }
}

fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        // An IPv6 address stands in brackets.
        let address = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || address.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
    })
}

fn compressed(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body)?;
    encoder.finish()
}

fn taken(answer: ExportLogsServiceResponse) -> Taken {
    answer.partial_success.map_or_else(Taken::default, |part| {
        let rejected = u64::try_from(part.rejected_log_records).unwrap_or(0);
        Taken {
            rejected,
            message: part.error_message,
        }
    })
}

fn refused_by_grpc(status: &Status) -> Refusal {
    let code = status.code();
    let after = status
        .get_details_retry_info()
        .and_then(|info| info.retry_delay)
        .map(|delay| delay.min(LONGEST_WAIT));
    // A cause of our own side: the connection, not the collector.
    let own = status.source();
    let why = own.map_or_else(|| format!("it answers {code:?}"), printable_chain);
    let later = match code {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss => true,
        // Only where it says when to come again is it out of room for the moment.
        Code::ResourceExhausted => after.is_some(),
        Code::Ok
        | Code::Unknown
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::Unimplemented
        | Code::Internal
        | Code::Unauthenticated => own.is_some(),
    };
    if later {
        Refusal::Later { why, after }
    } else {
        Refusal::Never { why }
    }
}

async fn http_answer(answer: reqwest::Result<reqwest::Response>) -> Result<Taken, Refusal> {
    let mut answer = answer.map_err(|error| {
        let why = printable_chain(&error.without_url());
        Refusal::Later { why, after: None }
    })?;
    let status = answer.status();
    if !status.is_success() {
        let why = format!("it answers {status}");
        let later = matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT
        );
        return Err(if later {
            let after = answer.headers().get(header::RETRY_AFTER);
            let after = after.and_then(|after| retry_after(after.to_str().ok()?));
            Refusal::Later { why, after }
        } else {
            Refusal::Never { why }
        });
    }
    let mut body = Vec::new();
    while body.len() < ANSWER {
        match answer.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            // It was taken, as the status says; what it had to add is lost.
            Ok(None) | Err(_) => break,
        }
    }
    Ok(ExportLogsServiceResponse::decode(body.as_slice()).map_or_else(|_| Taken::default(), taken))
}

/// Seconds, or a date.
fn retry_after(value: &str) -> Option<Duration> {
    let wait = match value.trim().parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let date = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
            Duration::try_from(date.duration_since(jiff::Timestamp::now())).unwrap_or_default()
        }
    };
    Some(wait.min(LONGEST_WAIT))
}

/// An error and what it came from, without saying the same twice.
fn chain(error: &(dyn Error + '_)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = error.source();
    }
    text
}

fn printable_chain(error: &(dyn Error + '_)) -> String {
    drift_common::escape::printable(&chain(error)).into_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tonic::{Code, Request, Status, codegen::http::HeaderMap, service::Interceptor};
    use tonic_types::{ErrorDetails, StatusExt};

    use super::{Headers, Refusal, is_loopback, refused_by_grpc, retry_after};

    #[test]
    fn asked_for_headers_join_those_of_the_protocol() {
        let mut own = HeaderMap::new();
        own.insert("authorization", "Bearer x".parse().expect("a value"));
        let mut request = Request::new(());
        let there = "application/grpc".parse().expect("a value");
        request.metadata_mut().insert("content-type", there);
        let request = Headers(own).call(request).expect("never refused");
        let headers = request.into_parts().0.into_headers();
        assert_eq!(headers["content-type"], "application/grpc");
        assert_eq!(headers["authorization"], "Bearer x");
    }

    #[test]
    fn loopback_is_reached_without_a_proxy() {
        let loopback = |url: &str| is_loopback(&url.parse().expect("an URL"));
        assert!(loopback("http://localhost:4318/v1/logs"));
        assert!(loopback("http://127.0.0.2:4318"));
        assert!(loopback("https://[::1]:4318"));
        assert!(!loopback("http://collector:4318"));
        assert!(!loopback("http://10.0.0.1"));
    }

    #[test]
    fn a_collector_says_when_to_come_again_in_seconds_or_by_date() {
        assert_eq!(retry_after("7"), Some(Duration::from_secs(7)));
        assert_eq!(retry_after(" 86400 "), Some(Duration::from_secs(300)));
        assert_eq!(
            retry_after("Wed, 21 Oct 2015 07:28:00 GMT"),
            Some(Duration::ZERO)
        );
        assert_eq!(retry_after("soon"), None);
    }

    #[test]
    fn grpc_codes_are_worth_another_try_as_the_specification_has_it() {
        #[track_caller]
        fn check(status: &Status, later: bool) {
            let refusal = refused_by_grpc(status);
            assert_eq!(
                matches!(refusal, Refusal::Later { .. }),
                later,
                "{refusal:?}"
            );
        }
        check(&Status::unavailable("x"), true);
        check(&Status::cancelled("x"), true);
        check(&Status::unauthenticated("token s3cret"), false);
        check(&Status::invalid_argument("x"), false);
        check(&Status::resource_exhausted("x"), false);
        let soon = ErrorDetails::with_retry_info(Some(Duration::from_secs(3)));
        let full = Status::with_error_details(Code::ResourceExhausted, "x", soon);
        assert_eq!(
            refused_by_grpc(&full),
            Refusal::Later {
                why: "it answers ResourceExhausted".to_owned(),
                after: Some(Duration::from_secs(3))
            }
        );
    }

    #[test]
    fn what_a_collector_says_is_not_passed_on() {
        let Refusal::Never { why } = refused_by_grpc(&Status::unauthenticated("token s3cret"))
        else {
            panic!("unauthenticated is final");
        };
        assert_eq!(why, "it answers Unauthenticated");
    }
}
