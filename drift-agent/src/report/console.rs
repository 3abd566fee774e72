//! The table for people: one line an event, the answer first, nothing wider than the terminal.

mod layout;

use std::io::IsTerminal;

use drift_common::escape::printable;
use jiff::tz::TimeZone;

use self::layout::{Cell, cut_middle, fit, width};
use super::{
    read,
    record::{Event, Record, SUPERSEDED},
    sentence::{differences, duration, found, path, version, who},
};

/// Columns where there is no terminal to ask: what the documents' examples have.
const COLUMNS: usize = 100;
/// Narrower than this, lines wrap: a cut line would say nothing any more.
const NARROWEST: usize = 40;
/// A process may call itself anything; this much of it tells who it is.
const COMM_AND_PID: usize = 40;

/// Digits of an id that people are shown. The last ones: the first ones are the time, and alike for months.
const SHORT_ID: usize = 8;

/// What the agent watches, told once at its start and after each change of policies.
#[derive(Clone, Debug, Default)]
pub struct Watching {
    pub files: usize,
    /// Name, version and what is done on drift (`observe`, `heal`), in the order to show.
    pub policies: Vec<(String, String, &'static str)>,
    /// How changes are seen: `tracepoint probes`, `scan alone`.
    pub sensor: String,
    /// What the sensor cannot see here, each a short phrase. Empty: nothing known.
    pub cannot_see: Vec<String>,
}

/// How lines look on this terminal.
#[derive(Clone, Debug)]
pub struct Look {
    /// `None`: as wide as the terminal is at the moment.
    pub columns: Option<usize>,
    pub colour: bool,
    /// For the time of day.
    pub zone: TimeZone,
}

impl Look {
    /// As standard output and the environment ask for: colour only on a terminal, and not where `NO_COLOR` is set or the terminal is dumb.
    #[must_use]
    pub fn of_stdout() -> Look {
        let terminal = std::io::stdout().is_terminal();
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Look {
            columns: (!terminal).then_some(COLUMNS),
            colour: terminal
                && set("NO_COLOR").is_none()
                && set("TERM").is_some_and(|term| term != "dumb"),
            zone: TimeZone::system(),
        }
    }

    fn columns(&self) -> usize {
        self.columns.unwrap_or_else(|| {
            // Asked for each line: windows change their size.
            rustix::termios::tcgetwinsize(std::io::stdout())
                .ok()
                .map(|size| usize::from(size.ws_col))
                .filter(|columns| *columns > 0)
                .map_or(COLUMNS, |columns| columns.max(NARROWEST))
        })
    }

    /// One record, as one line without its end.
    #[must_use]
    pub fn line(&self, record: &Record) -> String {
        self.line_after(vec![self.time(record, "%H:%M:%S", 8)], record)
    }

    /// One line of JSON that was kept earlier, as one line for people: with its day, and the end of its id, by which it can be asked for. One
    /// of an event that is not known here is shown as it is.
    #[must_use]
    pub fn past(&self, json: &str) -> String {
        let Some(record) = read::record(json) else {
            return printable(json).into_owned();
        };
        let time = self.time(&record, "%Y-%m-%d %H:%M:%S", 19);
        let id = Cell::new(short_id(&record), SHORT_ID, SHORT_ID);
        self.line_after(vec![time, id], &record)
    }

    fn time(&self, record: &Record, format: &str, width: usize) -> Cell {
        let time = record.time.to_zoned(self.zone.clone());
        Cell::new(time.strftime(format).to_string(), width, width)
    }

    fn line_after(&self, mut cells: Vec<Cell>, record: &Record) -> String {
        let label = Label::of(record.event);
        cells.push(Cell::new(label.word, 6, 6));
        cells.extend(cells_of(record));
        let line = fit(cells, self.columns());
        match label.colour {
            Some(colour) if self.colour => line.replacen(
                label.word,
                &format!("\x1b[{colour}m{}\x1b[0m", label.word),
                1,
            ),
            _ => line,
        }
    }

    /// What is watched: in one line where it fits, else in two; of many policies the first are named and the rest counted.
    #[must_use]
    pub fn watching(&self, watching: &Watching) -> Vec<String> {
        let columns = self.columns();
        let blind = match watching.cannot_see.as_slice() {
            [] => "nothing known".to_owned(),
            list => list.join(", "),
        };
        let sensor = format!("with {}; cannot see: {blind}", watching.sensor);
        let sensor = printable(&sensor);
        let all = subject(watching, watching.policies.len());
        let whole = format!("{all} {sensor}");
        if width(&whole) <= columns {
            return vec![whole];
        }
        let subject = (0..=watching.policies.len())
            .rev()
            .map(|named| subject(watching, named))
            .find(|subject| width(subject) <= columns)
            .unwrap_or(all);
        vec![cut_middle(&subject, columns), cut_middle(&sensor, columns)]
    }
}

/// What an event is called here, and its colour (which only repeats what the word says).
struct Label {
    word: &'static str,
    colour: Option<&'static str>,
}

impl Label {
    /// Capitals: someone may have to do something.
    const fn of(event: Event) -> Label {
        const YELLOW: Option<&str> = Some("1;33");
        const GREEN: Option<&str> = Some("32");
        const RED: Option<&str> = Some("1;31");
        let (word, colour) = match event {
            Event::DriftDetected => ("DRIFT", YELLOW),
            Event::DriftHealed => ("healed", GREEN),
            Event::HealFailed => ("FAILED", RED),
            Event::HealUnverifiable => ("UNSURE", RED),
            Event::HealSuppressed => ("HELD", YELLOW),
            Event::DriftResolved => ("back", GREEN),
            Event::Touched => ("touch", None),
            Event::PolicyActivated => ("policy", None),
            Event::PolicyRejected => ("REJECT", RED),
            Event::EventsLost => ("lost", YELLOW),
        };
        Label { word, colour }
    }
}

fn short_id(record: &Record) -> String {
    let id = record.id.simple().to_string();
    id[id.len() - SHORT_ID..].to_owned()
}

fn cells_of(record: &Record) -> Vec<Cell> {
    let path = || Cell::new(path(record), 24, 24);
    let version = || Cell::new(version(record), 12, 12).spare(2);
    let who = || {
        let (text, spare) = match &record.actor {
            Some(Ok(actor)) => (cut_middle(&who(actor), COMM_AND_PID), 1),
            Some(Err(_)) | None => (found(record).unwrap_or_default().to_owned(), 4),
        };
        Cell::new(text, 0, 16).spare(spare)
    };
    let note = || {
        let text = record.message.as_deref().map(printable);
        Cell::new(text.unwrap_or_default(), 0, 16)
    };
    // The sentence where there is one, else the reason: never both, a line is short.
    let why = || match (&record.message, record.reason) {
        (None, Some(reason)) => Cell::new(reason, 0, 16),
        _ => note(),
    };
    match record.event {
        Event::DriftDetected => {
            let differences = Cell::new(differences(record), 9, 9);
            vec![path(), differences, version(), who(), note().spare(3)]
        }
        Event::DriftHealed => {
            let took = record.heal_ns.map(duration).unwrap_or_default();
            vec![path(), Cell::new(took, 9, 9), version(), note().spare(3)]
        }
        Event::HealFailed | Event::HealUnverifiable | Event::HealSuppressed => {
            vec![path(), why()]
        }
        Event::DriftResolved if record.reason == Some(SUPERSEDED) => {
            vec![path(), Cell::new("superseded", 9, 9), version(), note()]
        }
        Event::DriftResolved => {
            let what = Cell::new("as declared again", 9, 9);
            vec![path(), what, version(), who(), note().spare(3)]
        }
        Event::Touched => {
            let what = Cell::new("as declared", 9, 9);
            vec![path(), what, version(), who(), note().spare(3)]
        }
        Event::PolicyActivated => {
            if record.path.is_some() {
                let what = Cell::new("replaced", 9, 9);
                vec![path(), what, version(), who(), note().spare(3)]
            } else {
                vec![version(), Cell::new("is active", 0, 9), note()]
            }
        }
        Event::PolicyRejected | Event::EventsLost => vec![why()],
    }
}

fn subject(watching: &Watching, named: usize) -> String {
    let mut names: Vec<String> = watching
        .policies
        .iter()
        .take(named)
        .map(|(name, version, mode)| format!("{name} {version} {mode}"))
        .collect();
    let rest = watching.policies.len() - names.len();
    let list = if names.is_empty() {
        String::new()
    } else {
        if rest > 0 {
            names.push(format!("{rest} more"));
        }
        format!(" ({})", names.join(", "))
    };
    let text = format!(
        "watching {} of {}{list}",
        count(watching.files, "file", "files"),
        count(watching.policies.len(), "policy", "policies"),
    );
    printable(&text).into_owned()
}

fn count(number: usize, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    }
}

#[cfg(test)]
mod tests;
