//! What is answered to who holds healing, or lets it go on: by a running agent, and by the command that does it without one.

use drift_common::escape::{self, printable};

use super::Answer;
use crate::{serve::rfc3339, stop::Stop, store::Pause};

/// What a pause is, in a sentence.
#[must_use]
pub fn paused(pause: &Pause, policy: Option<&str>) -> String {
    let until = pause.until.map(rfc3339).unwrap_or_default();
    format!(
        "{} is paused until {until}: {}. What drifts is told all the same\n`drift-agent resume{}` ends it\n",
        what(policy),
        printable(&pause.reason),
        policy.map_or(String::new(), |policy| format!(
            " --policy {}",
            printable(policy)
        )),
    )
}

/// What has ended, and what stops still.
#[must_use]
pub fn resumed(
    ended: &[(Option<String>, Pause)],
    policy: Option<&str>,
    still: Option<&Stop>,
) -> Answer {
    let mut text = String::new();
    for (policy, pause) in ended {
        text += &format!(
            "{} goes on; it was paused at {} by {}: {}\n",
            what(policy.as_deref()),
            rfc3339(pause.since),
            printable(&pause.by),
            printable(&pause.reason)
        );
    }
    if ended.is_empty() {
        let what = policy.map_or_else(|| "healing".to_owned(), |policy| what(Some(policy)));
        text += &format!("{what} was not paused\n");
    }
    match still {
        None => Answer::new(0, text),
        Some(stop) => Answer::new(4, format!("{text}but {}\n", stop.message)),
    }
}

fn what(policy: Option<&str>) -> String {
    match policy {
        None => "all healing".to_owned(),
        Some(policy) => format!("healing of {}", escape::name(policy)),
    }
}
