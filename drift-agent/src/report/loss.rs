//! Records that could not leave: told by a record, like every loss.

use super::record::{Event, Record};

/// Where it got stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// Who reads standard output did not keep up.
    OutputBlocked,
    /// The disk did not keep up, or was full.
    HistoryBlocked,
    /// The collector did not keep up, or was not there.
    QueueFull,
    /// The collector will not have them.
    Refused,
}

impl Lost {
    /// Every one.
    #[cfg(test)]
    pub(super) const ALL: [Lost; 4] = [
        Lost::OutputBlocked,
        Lost::HistoryBlocked,
        Lost::QueueFull,
        Lost::Refused,
    ];

    /// The `reason` in records.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Lost::OutputBlocked => "output-blocked",
            Lost::HistoryBlocked => "history-blocked",
            Lost::QueueFull => "export-queue-full",
            Lost::Refused => "export-refused",
        }
    }
}

/// A record that says so.
pub(super) fn lost(what: Lost, count: u64) -> Record {
    let records = if count == 1 { "record" } else { "records" };
    let message = match what {
        Lost::OutputBlocked => {
            format!("{count} {records} not written here: whoever reads this did not keep up")
        }
        Lost::HistoryBlocked => {
            format!("{count} {records} not kept here: the disk did not keep up or was full")
        }
        Lost::QueueFull => {
            format!("{count} {records} not sent: the collector did not keep up or was not there")
        }
        Lost::Refused => format!("{count} {records} not taken: the collector refused them"),
    };
    let mut record = Record::new(Event::EventsLost);
    record.reason = Some(what.reason());
    record.message = Some(message);
    record
}
