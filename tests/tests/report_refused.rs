//! A collector that is not there, is slow or refuses: nothing waits for it, everything is counted, and it is said once.

use std::{
    fs,
    net::TcpListener,
    sync::{Mutex, Once, PoisonError},
    time::{Duration, Instant},
};

use drift_agent::report::{Counts, Left, Reporter};
use drift_tests::{
    peer::{Answer, Peer},
    report, wait,
};

const SOON: Duration = Duration::from_secs(30);

static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Log;

impl log::Log for Log {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if record.level() <= log::Level::Info {
            let line = format!("{}: {}", record.level(), record.args());
            SAID.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(line);
        }
    }

    fn flush(&self) {}
}

/// What the log says with `about` in it: tests run side by side, and each has its own address.
fn said(about: &str) -> Vec<String> {
    let said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    said.iter()
        .filter(|line| line.contains(about))
        .cloned()
        .collect()
}

fn reporter(protocol: &str, address: &str, more: &[(&str, &str)]) -> Reporter {
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| {
        log::set_logger(&Log).expect("the first logger");
        log::set_max_level(log::LevelFilter::Trace);
    });
    report::reporter(protocol, &format!("http://{address}"), more).expect("a reporter")
}

fn touch(reporter: &mut Reporter) {
    report::report(reporter, &report::touches(1)).expect("the output is open");
}

fn counts(reporter: &Reporter) -> Counts {
    reporter.otlp_counts().expect("there is a collector")
}

/// Bytes of memory this process has in use.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<u64>().ok())
        .expect("a number")
        * 1024
}

/// B155: what is said of a failed export is exported itself, without end. A port that nobody listens on, and one on which nobody answers.
#[test]
fn a_hundred_thousand_records_wait_for_nobody_and_fill_nothing() {
    const RECORDS: u64 = 100_000;
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (silent_address, closed_address) = (
        silent.local_addr().expect("an address").to_string(),
        closed.local_addr().expect("an address").to_string(),
    );
    drop(closed);
    for (protocol, address) in [
        ("grpc", &closed_address),
        ("http/protobuf", &closed_address),
        ("grpc", &silent_address),
        ("http/protobuf", &silent_address),
    ] {
        let before = said(address).len();
        let timeout = [("OTEL_EXPORTER_OTLP_TIMEOUT", "500")];
        let mut reporter = reporter(protocol, address, &timeout);
        // What the first ones take is not what grows.
        for _ in 0..5000 {
            touch(&mut reporter);
        }
        let (memory, begun) = (resident(), Instant::now());
        for _ in 5000..RECORDS {
            touch(&mut reporter);
        }
        let took = begun.elapsed();
        assert!(took < SOON, "{protocol} {address}: {took:?}");
        let grown = resident().saturating_sub(memory);
        assert!(grown < 24 << 20, "{protocol} {address}: {grown} bytes more");
        let counts = counts(&reporter);
        assert_eq!((counts.taken, counts.refused), (0, 0));
        assert_eq!(counts.waiting + counts.lost, RECORDS);
        assert_eq!(counts.waiting, 2048);
        let what = wait::until(SOON, || {
            let now = said(address).split_off(before);
            if now.iter().any(|line| line.contains("are being lost")) {
                Ok(now)
            } else {
                Err(now)
            }
        });
        let what = what.expect("a word about the losses");
        assert_eq!(what.len(), 2, "{what:#?}");
        assert!(what[0].contains("does not take records"), "{what:#?}");
    }
}

#[test]
fn a_busy_collector_gets_them_when_it_says_and_again_until_it_takes_them() {
    let peer = Peer::start(|n| match n {
        0 => Answer {
            headers: &[("retry-after", "1")],
            ..Answer::plain("429 Too Many Requests")
        },
        1 => Answer::plain("503 Service Unavailable"),
        _ => Answer::plain("200 OK"),
    })
    .expect("a peer");
    let headers = [(
        "OTEL_EXPORTER_OTLP_HEADERS",
        "authorization=Bearer%20s3cret",
    )];
    let address = peer.address().to_string();
    let mut reporter = reporter("http/protobuf", &address, &headers);
    let begun = Instant::now();
    touch(&mut reporter);
    let left = reporter.flush(SOON).expect("the output is open");
    assert_eq!(left, Left::default());
    // It asked for a second, and a flush is no reason not to heed it.
    assert!(begun.elapsed() >= Duration::from_secs(1));
    let counts = counts(&reporter);
    assert_eq!((counts.taken, counts.refused, counts.lost), (1, 0, 0));
    let asked = peer.asked();
    assert_eq!(asked.len(), 3);
    for one in &asked {
        assert_eq!(one.line, "POST /v1/logs HTTP/1.1");
        assert_eq!(one.headers["content-type"], "application/x-protobuf");
        assert_eq!(one.headers["authorization"], "Bearer s3cret");
        assert!(one.headers["user-agent"].starts_with("drift-agent/"));
        assert_eq!(one.body, asked[0].body);
    }
    let what = said(&address);
    assert_eq!(what.len(), 2, "{what:#?}");
    assert!(what[0].contains("429"), "{what:#?}");
    assert!(what[1].contains("takes records again"), "{what:#?}");
}

#[test]
fn what_a_collector_refuses_for_good_is_counted_and_said_once() {
    let peer = Peer::start(|n| match n {
        0..3 => Answer {
            body: b"token s3cret is not known".to_vec(),
            ..Answer::plain("401 Unauthorized")
        },
        _ => Answer::plain("200 OK"),
    })
    .expect("a peer");
    let address = peer.address().to_string();
    let mut reporter = reporter("http/protobuf", &address, &[]);
    for _ in 0..3 {
        touch(&mut reporter);
        let left = reporter.flush(SOON).expect("the output is open");
        assert_eq!(left, Left::default());
    }
    assert_eq!(counts(&reporter).refused, 3);
    let what = said(&address);
    assert_eq!(what.len(), 1, "{what:#?}");
    assert!(what[0].contains("401"), "{what:#?}");
    assert!(!what[0].contains("s3cret"), "{what:#?}");
    // The next one is taken, and a record after it tells of the three.
    touch(&mut reporter);
    let left = reporter.flush(SOON).expect("the output is open");
    assert_eq!(left, Left::default());
    let asked = peer.asked();
    assert_eq!(asked.len(), 5);
    let told = String::from_utf8_lossy(&asked[4].body);
    assert!(told.contains("3 records not taken"), "{told}");
    assert!(told.contains("export-refused"), "{told}");
    assert_eq!(counts(&reporter).taken, 1);
}

#[test]
fn records_a_collector_rejects_one_by_one_are_counted() {
    // ExportLogsServiceResponse {partial_success {rejected_log_records: 2, error_message: "too \e old"}}
    let peer = Peer::start(|_| Answer {
        headers: &[("content-type", "application/x-protobuf")],
        body: b"\x0a\x0b\x08\x02\x12\x07too\x1bold".to_vec(),
        ..Answer::plain("200 OK")
    })
    .expect("a peer");
    let address = peer.address().to_string();
    let mut reporter = reporter(
        "http/protobuf",
        &address,
        &[
            ("OTEL_BLRP_SCHEDULE_DELAY", "60000"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ],
    );
    for _ in 0..5 {
        touch(&mut reporter);
    }
    let left = reporter.flush(SOON).expect("the output is open");
    assert_eq!(left, Left::default());
    let counts = counts(&reporter);
    assert_eq!((counts.taken, counts.refused), (3, 2));
    assert_eq!(peer.asked()[0].headers["content-encoding"], "gzip");
    let what = said(&address);
    assert_eq!(what.len(), 1, "{what:#?}");
    assert!(what[0].contains("too\\x1bold"), "{what:#?}");
}

#[test]
fn a_redirect_is_not_followed() {
    // Back to itself: following it would ask again.
    let peer = Peer::start(|_| Answer {
        headers: &[("location", "/v1/logs")],
        ..Answer::plain("307 Temporary Redirect")
    })
    .expect("a peer");
    let mut reporter = reporter("http/protobuf", &peer.address().to_string(), &[]);
    touch(&mut reporter);
    let left = reporter.flush(SOON).expect("the output is open");
    assert_eq!(left, Left::default());
    assert_eq!(counts(&reporter).refused, 1);
    assert_eq!(peer.asked().len(), 1);
}
