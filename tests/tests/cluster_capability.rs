//! The capabilities that the chart gives an agent: a pod without each of them, and what fails there. docs/security.md has the table.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, Result, ensure};
use drift_agent::confine::{self, DETECTOR, Part};
use drift_tests::{
    chart::{Chart, NODE},
    privilege::SOMEBODY,
    wait,
};
use serde_json::{Value, json};

const NAMESPACE: &str = "drift-capability";
/// On the node: what the pods see as the host's /etc/app, a folder for each of them.
const TREES: &str = "/etc/drift-capability";
const POLICIES: &str = "/var/lib/drift-capability";
const FOR_PODS: Duration = Duration::from_secs(120);
/// Pods at once. An agent looks for a second at most for who has a file, and more of them take each other's time.
const AT_ONCE: usize = 3;

/// What the chart is installed as.
struct Profile {
    name: &'static str,
    values: [&'static str; 2],
    heals: bool,
}

const PROFILES: [Profile; 2] = [
    Profile {
        name: "observe",
        values: ["profile=observe", "host.writablePaths={/etc/app}"],
        heals: false,
    },
    Profile {
        name: "heal",
        values: ["profile=heal", "host.writablePaths={/etc/app}"],
        heals: true,
    },
];

/// What is looked at where it heals, and the file it is about.
const HEALED: [(&str, &str); 6] = [
    ("owner", "owner"),
    ("directory", "theirs/f"),
    ("mode", "mode"),
    ("setgid", "setgid"),
    ("capabilities", "capabilities"),
    ("flags", "flags"),
];

/// Only its owner, who is not root, may read it. It is as declared.
const PRIVATE: &str = "/etc/app/private";

/// `TREE`: where the files are.
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

/// Lays out what is not as declared, and starts a program whose file is. Says its number. `NUMBER`: somebody who is not root.
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
        let script = format!("kill {programs}; umount -l {TREES}; rm -rf {TREES} {POLICIES}");
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
        spec["restartPolicy"] = json!("Never");
        let container = &mut spec["containers"][0];
        // One without kernel programs is never ready, and would be ended for it.
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
            container[probe] = Value::Null;
        }
        let arguments = container["args"].as_array_mut().context("arguments")?;
        arguments.retain(|argument| argument != "--source=crd");
        arguments.push(json!("--policies=/policies"));
        let added = &mut container["securityContext"]["capabilities"]["add"];
        if let Some(added) = added.as_array_mut() {
            added.retain(|one| one.as_str() != dropped);
        }
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

    /// What its agent answers, once it has looked at everything.
    fn status(&self, pod: &str) -> Result<Value> {
        let asked = ["-n", NAMESPACE, "exec", pod, "--", "/drift-agent"];
        let asked = [&asked[..], &["status", "-o", "json"]].concat();
        let status = wait::until(FOR_PODS, || {
            // The status of the command says how the agent is, too.
            let said = self.chart.cluster.run(&asked, "");
            let said = said.map_err(|error| format!("{error:#}"))?;
            let answer = serde_json::from_slice::<Value>(&said.stdout);
            match answer {
                Ok(status)
                    if status["policies"][0]["not_compared"] == 0
                        && status["last_full_scan"].is_object() =>
                {
                    Ok(status)
                }
                _ => Err(format!("{said:?}")),
            }
        });
        status.map_err(|seen| anyhow::anyhow!("{pod} has not looked at everything: {seen}"))
    }

    /// What fails in it.
    fn failures(&self, pod: &str, heals: bool) -> Result<BTreeSet<&'static str>> {
        let mut failures = BTreeSet::new();
        let mut check = |name: &'static str, holds: bool| {
            if !holds {
                failures.insert(name);
            }
        };
        let status = self.status(pod)?;
        let mut drifts = status["drifts"].as_array().into_iter().flatten();
        check("reading", drifts.all(|drift| drift["path"] != PRIVATE));
        check("probes", status["sensor"]["name"] != "scan");
        check("user", status["privilege"]["user"] == DETECTOR);
        let bounds = self.chart.on_node(&format!(
            "sed -n 's/^CapBnd:\\t//p' /proc/{}/status",
            status["pid"]
        ))?;
        let bounds = u64::from_str_radix(bounds.trim(), 16).context(bounds)?;
        let kept = confine::of(Part::Detector).bits();
        check("bounds", bounds & !kept == 0);
        if heals {
            let (healed, mapped) = self.told(pod, |of| {
                let mut healed = Vec::new();
                for (name, file) in HEALED {
                    let is_healed = of(file, "config.drift.healed").is_some();
                    if !is_healed && of(file, "config.drift.heal_failed").is_none() {
                        return None;
                    }
                    healed.push((name, is_healed));
                }
                Some((healed, of("mapped", "config.drift.healed")?))
            })?;
            for (name, is_healed) in healed {
                check(name, is_healed);
            }
            let holders = mapped["holders"]["processes"].as_array();
            let is_named = |holders: &Vec<Value>| holders.iter().any(|one| one["how"] == "mapped");
            check("mapped", holders.is_some_and(is_named));
        }
        // It has looked at everything, and hears of what happens now. Who writes is there for as long as it takes to ask what runs in it.
        let script = format!(
            "(printf evil > {TREES}/{pod}/program; sleep 10) > /dev/null 2>&1 < /dev/null &"
        );
        self.chart.on_node(&script)?;
        let program = self.told(pod, |of| of("program", "config.drift.detected"))?;
        check("program", program["actor"]["exe"].is_string());
        Ok(failures)
    }

    /// A pod of this profile with all that the chart gives it, and one without each: what fails there.
    fn without_each(&mut self, profile: &Profile) -> Result<Vec<(String, BTreeSet<&'static str>)>> {
        let objects = self.chart.rendered(&profile.values)?;
        let mut objects = objects.iter();
        let set = objects.find(|object| object["kind"] == "DaemonSet");
        let template = &set.context("no DaemonSet is rendered")?["spec"]["template"]["spec"];
        let added = &template["containers"][0]["securityContext"]["capabilities"]["add"];
        let added: Vec<String> = serde_json::from_value(added.clone())?;
        let mut pods = vec![(format!("{}-with-all", profile.name), None)];
        for one in &added {
            let name = one.to_lowercase().replace('_', "-");
            pods.push((
                format!("{}-without-{name}", profile.name),
                Some(one.as_str()),
            ));
        }
        let mut seen = Vec::new();
        for some in pods.chunks(AT_ONCE) {
            for (name, dropped) in some {
                self.start(name, template, *dropped)?;
            }
            for (name, dropped) in some {
                let failures = self.failures(name, profile.heals)?;
                println!("{name}: {failures:?}");
                match dropped {
                    None => ensure!(failures.is_empty(), "{name}: {failures:?}"),
                    Some(one) => seen.push(((*one).to_owned(), failures)),
                }
            }
            let gone = ["-n", NAMESPACE, "delete", "pod", "--all"];
            self.chart.cluster.ask(&gone, "")?;
        }
        Ok(seen)
    }
}

/// The rows of the table in docs/security.md.
fn rows(observe: &Failures, heal: &Failures) -> Vec<String> {
    let words = |failures: &BTreeSet<&str>| {
        let words: Vec<String> = failures.iter().map(|what| format!("`{what}`")).collect();
        words.join(", ")
    };
    let row = |(capability, with_heal): &(String, BTreeSet<&str>)| {
        let mut observe = observe.iter();
        let with_observe = observe.find(|(other, _)| other == capability);
        let with_observe =
            with_observe.map_or("not given".to_owned(), |(_, failures)| words(failures));
        format!("| `{capability}` | {with_observe} | {} |", words(with_heal))
    };
    heal.iter().map(row).collect()
}

type Failures = [(String, BTreeSet<&'static str>)];

#[test]
fn each_capability_of_the_chart_is_there_for_something_that_fails_without_it() -> Result<()> {
    const TEST: &str = "each_capability_of_the_chart_is_there_for_something_that_fails_without_it";
    let Some(chart) = Chart::find(TEST) else {
        return Ok(());
    };
    chart.cluster.namespace(NAMESPACE)?;
    let policy = POLICY.replace("TREE", "/etc/app");
    // What is made immutable goes with the file system that it is on.
    chart.on_node(&format!(
        "mkdir -p {TREES} {POLICIES}/policies && mount -t tmpfs none {TREES} && cat > {POLICIES}/policies/app.yaml << 'END'\n{policy}END"
    ))?;
    let mut pods = Pods {
        chart: &chart,
        programs: Vec::new(),
    };
    let [observe, heal] = &PROFILES;
    let observe = pods.without_each(observe)?;
    let heal = pods.without_each(heal)?;
    let seen = rows(&observe, &heal);
    for (profile, failures) in PROFILES.iter().zip([&observe, &heal]) {
        let unneeded = failures.iter().filter(|(_, failures)| failures.is_empty());
        let unneeded: Vec<&str> = unneeded.map(|(name, _)| name.as_str()).collect();
        ensure!(
            unneeded.is_empty(),
            "{}: without {unneeded:?} nothing fails",
            profile.name
        );
    }
    let document = include_str!("../../docs/security.md");
    let mut lines = document.lines();
    lines.find(|line| line.starts_with("| dropped |"));
    let documented: Vec<&str> = lines
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .collect();
    ensure!(
        documented == seen,
        "docs/security.md says otherwise. As seen:\n{}",
        seen.join("\n")
    );
    Ok(())
}
