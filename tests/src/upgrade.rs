//! What drifts on a node while its agent is replaced by another.

use std::collections::BTreeSet;

use anyhow::Result;
use serde_json::{Value, json};

use crate::chart::Chart;

/// Files of the policy.
const MANY: usize = 60;

/// A policy `many`, of files beneath /etc/app.
#[must_use]
pub fn many() -> String {
    let api = "configdrift.io/v1alpha1";
    let file = |number: usize| json!({"path": format!("/etc/app/many-{number}"), "content": {"inline": "declared\n"}});
    let files: Vec<Value> = (0..MANY).map(file).collect();
    let version = json!({"apiVersion": api, "kind": "PolicyVersion", "metadata": {"name": "many-1.0.0"},
        "spec": {"policy": "many", "version": "1.0.0", "files": files}});
    let policy = json!({"apiVersion": api, "kind": "Policy", "metadata": {"name": "many"},
        "spec": {"activeVersion": "1.0.0", "mode": "heal", "guard": {"backoff": {"first": "0s"}, "massDrift": "heal"}}});
    format!("{version}\n---\n{policy}\n")
}

/// Changes one of the files after the other, each only when it is as declared and to another content, so that every change is a drift of its own. Says how many
/// there were.
pub const WRITER: &str = "cd /etc/app; n=0
while [ ! -e /run/drift-writer-ends ]; do
  for file in many-*; do
    [ -e /run/drift-writer-ends ] && break
    if [ \"$(cat $file)\" = declared ]; then echo drift $n > $file; n=$((n+1)); fi
    sleep 0.05
  done
done; echo $n";

/// Ends it.
pub const END: &str = "touch /run/drift-writer-ends";

/// Those of `drifts` that no agent has told of, in the history that one leaves to the other.
///
/// # Errors
/// The agent does not answer.
pub fn untold(chart: &Chart, drifts: u64) -> Result<Vec<u64>> {
    let asked = ["-n", "drift-system", "exec", "daemonset/drift", "--"];
    let program = ["/drift-agent", "history", "-o", "jsonl"];
    let history = chart.cluster.ask(&[&asked[..], &program].concat(), "")?;
    let digest = |line: &str| -> Option<String> {
        let record: Value = serde_json::from_str(line).ok()?;
        Some(record["observed"]["digest"].as_str()?.to_owned())
    };
    let told: BTreeSet<String> = history.lines().filter_map(digest).collect();
    let is_untold = |number: &u64| {
        let content = blake3::hash(format!("drift {number}\n").as_bytes());
        !told.contains(&format!("blake3:{content}"))
    };
    Ok((0..drifts).filter(is_untold).collect())
}
