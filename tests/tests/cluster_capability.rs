//! The capabilities that the chart gives an agent: a pod without each of them, and what fails there. docs/security.md has the table.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use drift_agent::confine::DETECTOR;
use drift_tests::{
    chart::{Chart, NODE},
    privilege::SOMEBODY,
    wait,
};
use serde_json::{Value, json};

const NAMESPACE: &str = "drift-capability";
const HEAL: [&str; 2] = ["profile=heal", "host.writablePaths={/etc/app}"];
/// On the node: what the pods see as the host's /etc/app, a folder for each of them.
const TREES: &str = "/etc/drift-capability";
const POLICIES: &str = "/var/lib/drift-capability";
const FOR_PODS: Duration = Duration::from_secs(120);
/// Pods at once. An agent looks for a second at most for who has a file, and more of them take each other's time.
const AT_ONCE: usize = 3;
const CAP_BPF: u32 = 39;

/// What is looked at in each pod, and the file it is about.
const HEALED: [(&str, &str); 6] = [
    ("owner", "owner"),
    ("directory", "theirs/f"),
    ("mode", "mode"),
    ("setgid", "setgid"),
    ("capabilities", "capabilities"),
    ("flags", "flags"),
];

/// `TREE`: where the files are. `NUMBER`: somebody who is not root.
const POLICY: &str = r#"apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: app-1.0.0}
spec:
  policy: app
  version: 1.0.0
  files:
    - {path: TREE/owner, content: {inline: x}, owner: 12345}
    - {path: TREE/theirs/f, content: {inline: x}}
    - {path: TREE/mode, content: {inline: x}, mode: "0640"}
    - {path: TREE/setgid, content: {inline: x}, mode: "2755", group: 12346}
    - {path: TREE/capabilities, content: {inline: x}, capabilities: cap_net_raw=ep}
    - {path: TREE/flags, content: {inline: x}, flags: [append]}
    - {path: TREE/private, content: {inline: x}}
    - {path: TREE/mapped, content: {inline: x}}
    - {path: TREE/program, content: {inline: x}}
---
apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: app}
spec: {activeVersion: 1.0.0, mode: heal, guard: {backoff: {first: 0s}, massDrift: heal}}
"#;

/// Lays out what is not as declared, and starts a program whose file is. Says its number.
const SPOIL: &str = r"mkdir -p TREE/theirs && cd TREE && printf x | tee owner mode setgid capabilities flags private program > /dev/null
chown NUMBER theirs mode private && chgrp NUMBER setgid && chmod 600 private && chmod 755 theirs
cp /bin/sleep mapped && chmod 755 mapped
./mapped 600 > /dev/null 2>&1 < /dev/null & echo $!";

struct Pods<'a> {
    chart: &'a Chart,
    /// Programs that run on the node.
    programs: Vec<String>,
}

impl Drop for Pods<'_> {
    fn drop(&mut self) {
        let programs = self.programs.join(" ");
        let script = format!("kill {programs}; umount {TREES}; rm -rf {TREES} {POLICIES}");
        // A test that has failed tells that, and not what else is not there.
        let _gone = self.chart.on_node(&script);
        let _gone = self
            .chart
            .cluster
            .ask(&["delete", "namespace", NAMESPACE, "--wait=false"], "");
    }
}

impl Pods<'_> {
    /// The chart's pod, with policies of its own and without one capability.
    fn start(&mut self, name: &str, template: &Value, dropped: Option<&str>) -> Result<()> {
        let tree = format!("{TREES}/{name}");
        let script = SPOIL
            .replace("TREE", &tree)
            .replace("NUMBER", &SOMEBODY.to_string());
        let program = self.chart.on_node(&script)?;
        self.programs.push(program.trim().to_owned());
        let mut spec = template.clone();
        spec["nodeName"] = json!(NODE);
        spec["automountServiceAccountToken"] = json!(false);
        spec["terminationGracePeriodSeconds"] = json!(1);
        spec["serviceAccountName"] = json!("default");
        let container = &mut spec["containers"][0];
        // One without kernel programs is never ready, and would be started again and again.
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
            container[probe] = Value::Null;
        }
        container["args"] = json!([
            "run",
            "--policies=/policies",
            "--host-root=/host",
            "--state=/var/lib/drift-agent",
            "--output=jsonl"
        ]);
        let added = &mut container["securityContext"]["capabilities"]["add"];
        if let Some(added) = added.as_array_mut() {
            added.retain(|one| one.as_str() != dropped);
        }
        // The chart's has one too, which is not shared by pods.
        let mounts = container["volumeMounts"].as_array_mut();
        mounts
            .context("mounts")?
            .push(json!({"name": "policies", "mountPath": "/policies", "readOnly": true}));
        let volumes = spec["volumes"].as_array_mut().context("volumes")?;
        for volume in &mut *volumes {
            let place = match volume["name"].as_str() {
                Some("state") => format!("{POLICIES}/state-{name}"),
                Some("healed-0") => tree.clone(),
                _ => continue,
            };
            volume["hostPath"]["path"] = json!(place);
        }
        let policies =
            json!({"name": "policies", "hostPath": {"path": format!("{POLICIES}/policies")}});
        volumes.push(policies);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec});
        self.chart
            .cluster
            .ask(&["create", "-f", "-"], &pod.to_string())
            .map(drop)
    }

    /// What it has told of a file, once `is` likes that.
    fn told<T>(
        &self,
        pod: &str,
        is: impl Fn(&dyn Fn(&str, &str) -> Option<Value>) -> Option<T>,
    ) -> Result<T> {
        let told = wait::until(FOR_PODS, || {
            let text = self
                .chart
                .cluster
                .ask(&["-n", NAMESPACE, "logs", pod], "")
                .map_err(|error| format!("{error:#}"))?;
            let records: Vec<Value> = text
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok())
                .collect();
            let of = |file: &str, event: &str| {
                let path = format!("/etc/app/{file}");
                let mut records = records.iter();
                let is = |record: &&Value| record["path"] == *path && record["event"] == event;
                records.find(is).cloned()
            };
            is(&of).ok_or(text)
        });
        told.map_err(|text| anyhow::anyhow!("{pod} has told no more than\n{text}"))
    }

    /// What fails in it.
    fn failures(&self, pod: &str) -> Result<BTreeSet<&'static str>> {
        let mut failures = BTreeSet::new();
        let mut check = |name: &'static str, holds: bool| {
            if !holds {
                failures.insert(name);
            }
        };
        let (healed, mapped, private) = self.told(pod, |of| {
            let mut healed = Vec::new();
            for (name, file) in HEALED {
                // A look may come between the write and what is told of it, and find that all is well.
                let put_back = ["config.drift.healed", "config.drift.resolved"];
                let is_healed = put_back.iter().any(|event| of(file, event).is_some());
                if !is_healed && of(file, "config.drift.heal_failed").is_none() {
                    return None;
                }
                healed.push((name, is_healed));
            }
            let mapped = of("mapped", "config.drift.healed")
                .or_else(|| of("mapped", "config.drift.resolved"))?;
            Some((healed, mapped, of("private", "config.drift.detected")))
        })?;
        for (name, is_healed) in healed {
            check(name, is_healed);
        }
        let holders = mapped["holders"]["processes"].as_array();
        let is_named = |holders: &Vec<Value>| holders.iter().any(|one| one["how"] == "mapped");
        check("mapped", holders.is_some_and(is_named));
        check("reading", private.is_none());
        // It has looked at everything, and hears of what happens now. Who writes is there for as long as it takes to ask what runs in it.
        let script = format!(
            "(printf evil > {TREES}/{pod}/program; sleep 10) > /dev/null 2>&1 < /dev/null &"
        );
        self.chart.on_node(&script)?;
        let program = self.told(pod, |of| of("program", "config.drift.detected"))?;
        check("program", program["actor"]["exe"].is_string());
        let asked = ["-n", NAMESPACE, "exec", pod, "--", "/drift-agent"];
        let asked = [&asked[..], &["status", "-o", "json"]].concat();
        let status = self.chart.cluster.run(&asked, "")?;
        let status: Value = serde_json::from_slice(&status.stdout)?;
        check("probes", status["sensor"]["name"] != "scan");
        check("user", status["privilege"]["user"] == DETECTOR);
        let restorer = &status["privilege"]["restorer_pid"];
        let bounds = self.chart.on_node(&format!(
            "sed -n 's/^CapBnd:\\t//p' /proc/{restorer}/status"
        ))?;
        let bounds = u64::from_str_radix(bounds.trim(), 16).context(bounds)?;
        check("bounds", bounds & (1 << CAP_BPF) == 0);
        Ok(failures)
    }
}

#[test]
fn each_capability_of_the_chart_is_there_for_something_that_fails_without_it() -> Result<()> {
    const TEST: &str = "each_capability_of_the_chart_is_there_for_something_that_fails_without_it";
    const WHOLE: &str = "with-all";
    let Some(chart) = Chart::find(TEST) else {
        return Ok(());
    };
    chart.cluster.namespace(NAMESPACE)?;
    let objects = chart.rendered(&HEAL)?;
    let mut objects = objects.iter();
    let set = objects.find(|object| object["kind"] == "DaemonSet");
    let template = &set.context("no DaemonSet is rendered")?["spec"]["template"]["spec"];
    let added = &template["containers"][0]["securityContext"]["capabilities"]["add"];
    let added: Vec<String> = serde_json::from_value(added.clone())?;

    let policy = POLICY.replace("TREE", "/etc/app");
    // What is made immutable goes with the file system that it is on.
    chart.on_node(&format!(
        "mkdir -p {TREES} {POLICIES}/policies && mount -t tmpfs none {TREES} && cat > {POLICIES}/policies/app.yaml << 'END'\n{policy}END"
    ))?;
    let mut pods = Pods {
        chart: &chart,
        programs: Vec::new(),
    };
    let mut names: BTreeMap<String, Option<&str>> = BTreeMap::new();
    names.insert(WHOLE.to_owned(), None);
    for one in &added {
        let name = format!("without-{}", one.to_lowercase().replace('_', "-"));
        names.insert(name, Some(one));
    }
    let mut seen = BTreeMap::new();
    for some in names.iter().collect::<Vec<_>>().chunks(AT_ONCE) {
        for (name, dropped) in some {
            pods.start(name, template, **dropped)?;
        }
        for (name, _) in some {
            seen.insert((*name).clone(), pods.failures(name)?);
        }
        let gone = ["-n", NAMESPACE, "delete", "pod", "--all"];
        chart.cluster.ask(&gone, "")?;
    }
    let failures = &seen[WHOLE];
    ensure!(failures.is_empty(), "with all of them: {failures:?}");
    let document = include_str!("../../docs/security.md");
    let mut wrong = Vec::new();
    for one in &added {
        let name = names.iter().find(|(_, dropped)| **dropped == Some(one));
        let (name, _) = name.context("no pod")?;
        let failures = &seen[name];
        let words: Vec<String> = failures.iter().map(|what| format!("`{what}`")).collect();
        let row = format!("| `CAP_{one}` | {} |", words.join(", "));
        println!("{row}");
        if failures.is_empty() || !document.lines().any(|line| line == row) {
            wrong.push(row);
        }
    }
    ensure!(
        wrong.is_empty(),
        "docs/security.md says otherwise, or nothing fails:\n{}",
        wrong.join("\n")
    );
    Ok(())
}
