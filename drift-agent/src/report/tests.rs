use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::tz::TimeZone;

use super::{Event, Left, Look, Output, ReportError, Reporter, Watching, sample::every_event};
use crate::store::{Bounds, read_history};

const SOON: Duration = Duration::from_secs(20);
const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reports.md"));

#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn printed(output: Output) -> String {
    let paper = Paper::default();
    let look = Look {
        columns: Some(100),
        colour: false,
        zone: TimeZone::UTC,
    };
    let out = Box::new(paper.clone());
    let mut reporter = Reporter::to(out, look, output, "node-a", None).expect("a thread");
    let watching = Watching {
        sensor: "scan alone".into(),
        ..Watching::default()
    };
    reporter.watching(&watching).expect("paper");
    for record in every_event() {
        reporter.report(&record).expect("paper");
    }
    assert_eq!(reporter.flush(SOON).expect("paper"), Left::default());
    let bytes = paper.0.lock().expect("no panic").clone();
    String::from_utf8(bytes).expect("text")
}

#[test]
fn programs_get_one_record_a_line_and_nothing_else() {
    let printed = printed(Output::Jsonl);
    let events: Vec<String> = printed
        .lines()
        .map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
            value["event"].as_str().expect("a name").to_owned()
        })
        .collect();
    assert_eq!(events, Event::ALL.map(Event::name));
}

#[test]
fn people_get_what_is_watched_and_one_line_an_event() {
    let printed = printed(Output::Table);
    assert!(
        printed.starts_with(
            "watching 0 files of 0 policies with scan alone; cannot see: nothing known\n"
        ),
        "{printed}"
    );
    assert_eq!(printed.lines().count(), 1 + Event::ALL.len());
}

fn keeping(state: &std::path::Path) -> Reporter {
    let look = Look {
        columns: Some(100),
        colour: false,
        zone: TimeZone::UTC,
    };
    let out = Box::new(io::sink());
    let mut reporter = Reporter::to(out, look, Output::Table, "node-a", None).expect("a thread");
    reporter
        .keep_history(state, Bounds::default())
        .expect("a history");
    reporter
}

fn kept(state: &std::path::Path) -> Vec<String> {
    let mut lines = Vec::new();
    read_history(state, None, |line| lines.push(line.to_owned())).expect("read");
    lines
}

#[test]
fn what_was_reported_is_in_the_history_as_programs_get_it() {
    let state = tempfile::tempdir().expect("a folder");
    let mut reporter = keeping(state.path());
    let records = every_event();
    for record in &records {
        reporter.report(record).expect("a sink");
    }
    assert_eq!(reporter.flush(SOON).expect("a sink"), Left::default());
    let lines = records.iter().map(|record| record.line("node-a"));
    let lines: Vec<_> = lines.map(|line| line.expect("a line")).collect();
    assert_eq!(kept(state.path()), lines);
    let now = std::time::SystemTime::now();
    let heals = |reporter: &Reporter| reporter.heals().expect("kept").of_a_day(now);
    assert_eq!(heals(&reporter), [("web".to_owned(), 1)].into());
    drop(reporter);
    // What was healed before a restart counts.
    let mut reporter = keeping(state.path());
    reporter.report(&records[1]).expect("a sink");
    reporter.flush(SOON).expect("a sink");
    assert_eq!(heals(&reporter), [("web".to_owned(), 2)].into());
}

/// Where the one works whose disk is full; not set: this is not that one.
const FULL: &str = "DRIFT_HISTORY_FULL";

/// A limit on the size of files stands for a full disk. It is for a whole process, so a copy of this test program has it.
#[test]
fn a_full_disk_holds_nobody_up_and_what_did_not_fit_is_told_when_it_goes_on() {
    let state = tempfile::tempdir().expect("a folder");
    let status = std::process::Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -S -f 400; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", "report::tests::the_one_whose_disk_is_full"])
        .env(FULL, state.path())
        .stdout(std::process::Stdio::null())
        .status()
        .expect("a shell");
    assert!(status.success(), "{status}");
    let kept = kept(state.path());
    let told: Vec<&String> = kept
        .iter()
        .filter(|line| line.contains("history-blocked"))
        .collect();
    let [told] = told.as_slice() else {
        panic!("told {} times", told.len());
    };
    let told: serde_json::Value = serde_json::from_str(told).expect("JSON");
    let lost = told["message"].as_str().expect("a sentence");
    let lost: usize = lost
        .split(' ')
        .next()
        .and_then(|count| count.parse().ok())
        .expect("a number");
    assert!(
        lost > 0 && kept.len() - 1 + lost == MANY + 1,
        "{lost} of {}",
        kept.len()
    );
}

/// More than wait.
const MANY: usize = 20_000;

#[test]
fn the_one_whose_disk_is_full() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let Some(state) = std::env::var_os(FULL) else {
        return;
    };
    let mut reporter = keeping(std::path::Path::new(&state));
    let record = every_event().remove(0);
    let start = std::time::Instant::now();
    for _ in 0..MANY {
        reporter.report(&record).expect("a sink");
    }
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    let left = reporter.flush(Duration::from_secs(2)).expect("a sink");
    assert!(left.unkept > 0 && reporter.unkept() > 0, "{left:?}");
    let whole = kept(std::path::Path::new(&state));
    assert!(
        !whole.is_empty() && whole.len() < MANY / 2,
        "{}",
        whole.len()
    );
    // There is room again.
    let mut limit = getrlimit(Resource::Fsize);
    limit.current = limit.maximum;
    setrlimit(Resource::Fsize, limit).expect("the limit goes");
    reporter.report(&record).expect("a sink");
    assert_eq!(reporter.flush(SOON).expect("a sink"), Left::default());
}

#[test]
fn a_reader_that_went_away_has_a_reason() {
    let gone = ReportError::Output(Arc::new(io::ErrorKind::BrokenPipe.into()));
    let full = ReportError::Output(Arc::new(io::ErrorKind::StorageFull.into()));
    assert_eq!(
        [gone.reason(), full.reason()],
        ["output-closed", "output-failed"]
    );
}

#[test]
fn the_page_about_reports_names_all_there_is() {
    for event in Event::ALL {
        assert!(PAGE.contains(event.name()), "{}", event.name());
    }
    for name in super::otlp::names() {
        assert!(PAGE.contains(&format!("`{name}`")), "{name}");
    }
    for what in super::loss::Lost::ALL {
        assert!(PAGE.contains(what.reason()), "{}", what.reason());
    }
}
