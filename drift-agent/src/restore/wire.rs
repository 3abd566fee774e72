//! What the detector asks of the restorer, and its answers: names of what is to be done, never bytes to write.
//!
//! Both ends are the same program, so there is one version. The restorer takes the other end for hostile: a request costs a bounded time and memory, and what
//! cannot be read ends the connection.

use std::{
    io::{self, Read, Write},
    path::PathBuf,
    time::Duration,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    observe::PathPlace,
    probe::Process,
    store::{Holding, Moved, path_form},
};

/// Bytes of a request, at most. Most of one is what is said of failed versions, which is bounded too.
pub(super) const MOST_REQUEST: u32 = 16 << 20;

/// Bytes of an answer, at most.
pub(super) const MOST_ANSWER: u32 = 64 << 20;

/// Bytes that are asked for at once: nearly all messages are smaller.
const FIRST_READ: usize = 4096;

/// All that can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Request {
    /// What was left of a change of versions, and what has become of it.
    Recovered,
    /// What is declared from now on: what the policy folder says, with these versions held. The digest is that of what the detector has read.
    Declare { holds: Vec<Held>, seal: String },
    /// One path is not as declared.
    Heal(Box<Heal>),
    /// From what is declared now to what the folder says with what `holding` holds.
    Switch {
        seal: String,
        moves: Vec<Moved>,
        holding: Holding,
    },
    /// What an interrupted heal has left beside declared paths goes.
    Sweep,
    /// Programs are to take in what was put back: an action, as it is shown.
    AfterHeal { action: String },
}

/// A version that is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    pub policy: String,
    pub version: String,
    pub instead_of: String,
}

/// A heal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heal {
    pub policy: String,
    pub version: String,
    #[serde(with = "path_form")]
    pub path: PathBuf,
    /// The name of an action, as the detector has planned it.
    pub action: String,
    /// BLAKE3 of the declared content, where a file is declared.
    pub digest: Option<String>,
    /// Somebody wants it in spite of a policy that only watches.
    #[serde(default)]
    pub forced: bool,
    /// Where the path must be, as far as the detector knows.
    #[serde(default)]
    pub place: Option<PathPlace>,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Answer {
    Recovered(Recovered),
    /// As the detector has read it.
    Declared,
    Healed {
        notes: Vec<String>,
    },
    Switched(Switched),
    Swept,
    AfterHealed(AfterHealed),
    /// Not done, or not in full; what it says of that is the outcome.
    Failed {
        /// One of a closed set.
        reason: String,
        message: String,
        kind: Kind,
    },
}

/// What an interrupted change of versions has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recovered {
    /// Which process the restorer is.
    pub process: Process,
    pub notes: Vec<String>,
    /// What is left to do, a sentence each.
    pub left: Vec<String>,
    /// Why it cannot be brought to its end now.
    pub failed: Option<String>,
}

/// See `switch::Switched`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switched {
    pub written: usize,
    pub notes: Vec<String>,
    pub is_unfinished: bool,
    pub amiss: Vec<Amiss>,
    pub first: Option<Amiss>,
    /// Actions that programs need to take it in, as they are shown.
    pub after: Vec<String>,
}

/// See `reload::Came`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AfterHealed {
    /// `Err`: the reason, and a sentence.
    pub result: Result<String, (String, String)>,
    pub output: Vec<u8>,
    pub took: Duration,
}

/// A path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amiss(#[serde(with = "path_form")] pub PathBuf);

/// How far it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The restorer does not have what is declared as the detector has it: it is to be declared anew.
    Stale,
    /// The policies, or what the restorer may do, do not allow it.
    Refused,
    /// It was tried.
    Tried,
}

/// Writes a message: its length, then JSON.
pub(super) fn send(to: &mut impl Write, message: &impl Serialize, most: u32) -> io::Result<()> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message)?;
    let length = u32::try_from(frame.len() - 4)
        .ok()
        .filter(|length| *length <= most)
        .ok_or_else(|| invalid("a message is too long"))?;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    // In one call: the other end wakes once.
    to.write_all(&frame)
}

/// Reads a message. `None`: the other end has gone.
///
/// # Errors
/// It is none: nothing after it can be believed.
pub(super) fn receive<T: DeserializeOwned>(
    from: &mut impl Read,
    most: u32,
) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u32::from_le_bytes(length);
    if length > most {
        return Err(invalid("a message is too long"));
    }
    // As it comes: a length alone costs no memory to speak of.
    let mut body = Vec::with_capacity((length as usize).min(FIRST_READ));
    from.take(u64::from(length)).read_to_end(&mut body)?;
    if body.len() as u64 != u64::from(length) {
        return Err(invalid("a message is cut off"));
    }
    serde_json::from_slice(&body)
        .map(Some)
        .map_err(|_| invalid("a message is none"))
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// A request, from bytes of whoever: for fuzzing.
///
/// # Errors
/// They are none.
pub fn request(bytes: &[u8]) -> io::Result<Option<Request>> {
    let mut bytes = bytes;
    receive(&mut bytes, MOST_REQUEST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn heal() -> Request {
        Request::Heal(Box::new(Heal {
            policy: "p".to_owned(),
            version: "1.0.0".to_owned(),
            path: "/etc/f".into(),
            action: "replace".to_owned(),
            digest: None,
            forced: false,
            place: None,
        }))
    }

    fn framed(request: &Request) -> Vec<u8> {
        let mut bytes = Vec::new();
        send(&mut bytes, request, MOST_REQUEST).expect("written");
        bytes
    }

    #[test]
    fn what_is_sent_is_what_arrives_and_nothing_else_does() {
        let bytes = framed(&heal());
        assert_eq!(request(&bytes).expect("read"), Some(heal()));
        assert_eq!(request(&[]).expect("the end"), None);
        for end in 4..bytes.len() {
            assert!(request(&bytes[..end]).is_err(), "cut off at {end}");
        }
        let body = |json: &str| {
            let mut bytes = u32::try_from(json.len())
                .expect("short")
                .to_le_bytes()
                .to_vec();
            bytes.extend_from_slice(json.as_bytes());
            request(&bytes)
        };
        assert_eq!(body("\"sweep\"").expect("read"), Some(Request::Sweep));
        for none in [
            "",
            "null",
            "{}",
            "\"write\"",
            r#"{"heal":{"policy":"p","version":"1","path":"/f","action":"replace","digest":null,"bytes":"eA=="}}"#,
            r#"{"heal":{"policy":"p","version":"1","path":{"base64":"%"},"action":"replace","digest":null}}"#,
            r#"{"heal":{"policy":"p"}}"#,
        ] {
            assert!(body(none).is_err(), "{none}");
        }
    }

    #[test]
    fn a_length_alone_costs_nothing() {
        let mut bytes = u32::MAX.to_le_bytes().to_vec();
        bytes.extend_from_slice(b"x");
        assert!(request(&bytes).is_err());
        let mut bytes = MOST_REQUEST.to_le_bytes().to_vec();
        bytes.extend_from_slice(b"x");
        assert!(request(&bytes).is_err());
        let mut long = Vec::new();
        assert!(send(&mut long, &"x".repeat(64), 8).is_err());
        assert!(long.is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(Some(request)) = request(&bytes) {
                prop_assert_eq!(super::request(&framed(&request)).expect("read"), Some(request));
            }
        }

        #[test]
        fn a_request_with_any_byte_changed_is_one_or_an_error(at in 0usize..80, byte in any::<u8>()) {
            let mut bytes = framed(&heal());
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(Some(request)) = request(&bytes) {
                prop_assert_eq!(super::request(&framed(&request)).expect("read"), Some(request));
            }
        }
    }
}
