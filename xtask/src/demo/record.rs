//! One line of the agent, as far as the demo reads it (docs/record.schema.json has the whole).

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

const SCHEMA: &str = "configdrift.io/record/v1";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) event: String,
    pub(super) path: Option<String>,
    pub(super) drift: Vec<String>,
    pub(super) actor: Option<Actor>,
    /// Why there is none.
    pub(super) actor_unknown: Option<String>,
    pub(super) cause: Option<String>,
    pub(super) seen_ns: Option<u64>,
    pub(super) heal_ns: Option<u64>,
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Actor {
    pub(super) pid: u64,
    pub(super) comm: String,
    pub(super) uid: u64,
}

impl Record {
    pub(super) fn parse(line: &str) -> Result<Record> {
        let value: Value = serde_json::from_str(line).context("not JSON")?;
        ensure!(value["schema"] == SCHEMA, "its schema is not {SCHEMA}");
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let actor = match &value["actor"] {
            Value::Null => None,
            actor => Some(Actor::from_value(actor).context("its actor lacks pid, comm or uid")?),
        };
        Ok(Record {
            event: text("event").context("it has no event")?,
            path: text("path"),
            drift: value["drift"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|kind| Some(kind.as_str()?.to_owned()))
                .collect(),
            actor,
            actor_unknown: text("actor_unknown"),
            cause: text("cause"),
            seen_ns: value["seen_ns"].as_u64(),
            heal_ns: value["heal_ns"].as_u64(),
            reason: text("reason"),
            message: text("message"),
        })
    }
}

impl Actor {
    fn from_value(value: &Value) -> Option<Actor> {
        Some(Actor {
            pid: value["pid"].as_u64()?,
            comm: value["comm"].as_str()?.to_owned(),
            uid: value["uid"].as_u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_the_contract_has_it() {
        let record = Record::parse(
            r#"{"schema":"configdrift.io/record/v1","id":"x","time":"t","event":"config.drift.detected","node":"n",
                "policy":"demo","version":"1.0.0","path":"/etc/a","drift":["content","mode"],"declared":{},"observed":{},
                "actor":{"pid":7,"start_ns":1,"comm":"sed","uid":0,"gid":0},"cause":"kernel","seen_ns":1300000}"#,
        )
        .unwrap();
        assert_eq!(record.drift, ["content", "mode"]);
        assert_eq!(record.actor.unwrap().comm, "sed");
        assert_eq!(record.seen_ns, Some(1_300_000));
        assert_eq!(record.heal_ns, None);
    }

    #[test]
    fn what_is_no_record_is_refused_in_words() {
        let refused = |line: &str| format!("{:#}", Record::parse(line).unwrap_err());
        assert!(refused("watching 4 files").starts_with("not JSON"));
        assert!(refused("{}").contains("schema"));
        assert!(refused(r#"{"schema":"configdrift.io/record/v1"}"#).contains("event"));
        assert!(
            refused(r#"{"schema":"configdrift.io/record/v1","event":"e","actor":{"pid":1}}"#)
                .contains("actor")
        );
    }
}
