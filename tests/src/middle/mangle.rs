//! What is done to the events of one watch.

use std::collections::VecDeque;

use serde_json::Value;

use super::Fault;

/// Old events that are told again.
const AGAIN: usize = 3;

/// One watch: what was kept back of it, and what it said before.
#[derive(Debug, Default)]
pub(super) struct Mangle {
    kept: Option<Vec<u8>>,
    before: VecDeque<Vec<u8>>,
}

impl Mangle {
    /// What is to be said in place of this event.
    pub(super) fn pass(&mut self, fault: Fault, event: Vec<u8>) -> Vec<Vec<u8>> {
        if !is_change(&event) {
            return vec![event];
        }
        let mut said = match (fault, self.kept.take()) {
            // The next one goes before it.
            (Fault::Late, None) => {
                self.kept = Some(event);
                return Vec::new();
            }
            (_, Some(kept)) => vec![event, kept],
            (Fault::None | Fault::Answer(_) | Fault::Slow(_) | Fault::Twice, None) => vec![event],
        };
        if fault == Fault::Twice {
            let again: Vec<Vec<u8>> = said.iter().chain(&self.before).cloned().collect();
            said.extend(again);
        }
        self.before.extend(said.first().cloned());
        while self.before.len() > AGAIN {
            self.before.pop_front();
        }
        said
    }
}

/// Whether it says that an object has another content now.
fn is_change(event: &[u8]) -> bool {
    let event: Option<Value> = serde_json::from_slice(event).ok();
    event.is_some_and(|event| event["type"] == "MODIFIED")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(n: u32) -> Vec<u8> {
        format!("{{\"type\":\"MODIFIED\",\"n\":{n}}}").into_bytes()
    }

    #[test]
    fn events_come_late_and_twice_and_bookmarks_as_they_are() {
        let mut watch = Mangle::default();
        let bookmark = b"{\"type\":\"BOOKMARK\"}".to_vec();
        assert_eq!(watch.pass(Fault::None, event(1)), [event(1)]);
        assert!(watch.pass(Fault::Late, event(2)).is_empty());
        assert_eq!(watch.pass(Fault::Late, bookmark.clone()), [bookmark]);
        assert_eq!(watch.pass(Fault::Late, event(3)), [event(3), event(2)]);
        let said = watch.pass(Fault::Twice, event(4));
        assert_eq!(said, [event(4), event(4), event(1), event(3)]);
    }
}
