//! Policies as resources of a real API server: the same language, and the same verdict.

mod table;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use drift_common::policy::{self, Document, Problems, Source};
use drift_tests::cluster::Cluster;
use serde_json::{Value, json};

/// What a file with `text` holds, and what is wrong with it.
fn read(text: &str) -> Result<(Vec<Document>, Problems)> {
    let name: Arc<Path> = Path::new("p.yaml").into();
    let source = Source::new(name, text.as_bytes().to_vec())
        .map_err(|problem| anyhow::anyhow!("{}", problem.one_line()))?;
    let mut problems = Problems::default();
    let documents = policy::parse(&source, &mut problems);
    Ok((documents, problems))
}

/// What the API server says of each of `documents`, by its name; empty: it takes it. Nothing is kept.
fn verdicts(
    cluster: &Cluster,
    documents: &BTreeMap<String, Value>,
) -> Result<BTreeMap<String, String>> {
    let texts: Vec<String> = documents.values().map(Value::to_string).collect();
    let output = cluster.run(
        &["create", "--dry-run=server", "--validate=strict", "-f", "-"],
        &texts.join("\n---\n"),
    )?;
    let said = String::from_utf8_lossy(&output.stdout);
    let refused = String::from_utf8_lossy(&output.stderr);
    // What is refused before it is known to be an object has no name; kubectl says all in the order of the documents.
    let mut nameless = refused
        .lines()
        .filter(|line| line.starts_with("Error from server (BadRequest)"));
    documents
        .keys()
        .map(|name| {
            let is_taken = |line: &str| line.contains(&format!("/{name} created"));
            let named = |line: &&str| line.contains(&format!("\"{name}\""));
            let why = match refused.lines().find(named) {
                _ if said.lines().any(is_taken) => "",
                Some(why) => why,
                None => nameless
                    .next()
                    .with_context(|| format!("nothing is said of {name}:\n{said}\n{refused}"))?,
            };
            Ok((name.clone(), why.to_owned()))
        })
        .collect()
}

#[test]
fn two_hundred_resources_have_the_same_verdict_here_and_there() -> Result<()> {
    let Some(cluster) = Cluster::find("two_hundred_resources_have_the_same_verdict_here_and_there")
    else {
        return Ok(());
    };
    cluster.define()?;
    let cases = table::cases()?;
    let documents: BTreeMap<String, Value> = cases
        .iter()
        .map(|case| (case.name.clone(), case.document.clone()))
        .collect();
    ensure!(documents.len() == cases.len(), "two cases have one name");
    let verdicts = verdicts(&cluster, &documents)?;
    let mut wrong = Vec::new();
    let (mut both, mut taken) = (0, 0);
    for case in &cases {
        let (_, problems) = read(&case.document.to_string())?;
        let (here, there) = (problems.is_empty(), verdicts[&case.name].is_empty());
        let said = || {
            format!(
                "{}\n  agent: {}\n  API server: {}",
                case.document,
                problems.one_line(),
                verdicts[&case.name]
            )
        };
        if (here, there) != (case.agent, case.server) {
            wrong.push(format!(
                "expected ({}, {}), is ({here}, {there}): {}",
                case.agent,
                case.server,
                said()
            ));
        }
        // The field is named on both sides.
        if !there && !verdicts[&case.name].contains(&case.field) {
            wrong.push(format!(
                "the API server does not name {}: {}",
                case.field,
                said()
            ));
        }
        both += usize::from(case.agent == case.server);
        taken += usize::from(case.agent && case.server);
    }
    ensure!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
    println!(
        "{} resources: {both} with one verdict ({taken} taken, {} refused), {} that only the agent or only a file can have",
        cases.len(),
        both - taken,
        cases.len() - both
    );
    ensure!(both >= 200, "only {both} with one verdict");
    Ok(())
}

const FILE: &str = r#"apiVersion: configdrift.io/v1alpha1
kind: PolicyVersion
metadata: {name: web-1.2.0}
spec:
  policy: web
  version: 1.2.0
  files:
    - path: /etc/app/app.conf
      content: {inline: "listen = 80\n"}
      mode: "0644"
      owner: root
      group: 0
      xattrs: {user.origin: web, user.draft: {absent: true}}
      acl: [user::rw-, group::r--, other::r--]
      maxSize: 512
      compare: {format: env, manage: [/listen]}
    - {path: /etc/app/empty, content: {base64: ""}, severity: critical, onDrift: observe}
  symlinks: [{path: /etc/app/link, target: app.conf}]
  masks: [{path: /etc/systemd/system/x.service}]
  absent: [{pathBytes: L2V0Yy9hcHAv/w==}]
  directories: [{path: /etc/app/d, exhaustive: true, ignore: ["*.bak"]}]
  dependencies: [{policy: base, version: ">=1.0.0, <2.0.0"}]
---
apiVersion: configdrift.io/v1alpha1
kind: Policy
metadata: {name: web, labels: {team: x}}
spec:
  activeVersion: 1.2.0
  mode: heal
  guard: {backoff: {first: 2s, factor: 3, cap: 300s}, perMinute: 10, fight: {heals: 3, within: 1m, hold: 1h30m}}
  nodeSelector: {role: web}
  rollout: {arms: [{name: a, version: 1.2.0, weight: 50}, {name: b, version: 1.2.0, weight: 20}]}
---
apiVersion: configdrift.io/v1alpha1
kind: PolicyVersionRef
metadata: {name: base}
spec: {policy: base, from: {namespace: platform, policy: linux-base}, versions: [1.0.0]}
---
apiVersion: configdrift.io/v1alpha1
kind: PolicyVersionRef
metadata: {name: web-to-shop}
spec: {policy: web, to: {namespaces: [shop, team]}}
"#;

#[test]
fn a_policy_file_is_applied_and_what_the_cluster_gives_is_a_policy_file() -> Result<()> {
    let Some(cluster) =
        Cluster::find("a_policy_file_is_applied_and_what_the_cluster_gives_is_a_policy_file")
    else {
        return Ok(());
    };
    cluster.define()?;
    cluster.namespace("drift-files")?;
    cluster.ask(&["-n", "drift-files", "apply", "-f", "-"], FILE)?;
    let given = cluster.ask(
        &[
            "-n",
            "drift-files",
            "get",
            "cpv,cpol,cpvref",
            "-o",
            "yaml",
            "--show-managed-fields",
        ],
        "",
    )?;
    ensure!(
        given.contains("managedFields") && given.contains("kind: List"),
        "{given}"
    );
    let (declared, problems) = read(FILE)?;
    ensure!(problems.is_empty(), "{}", problems.one_line());
    let (there, problems) = read(&given)?;
    ensure!(problems.is_empty(), "{}\n{given}", problems.one_line());
    assert_eq!(there, declared);

    // All of the project's are listed together, each with what matters of it.
    let listed = cluster.ask(&["-n", "drift-files", "get", "drift"], "")?;
    println!("{listed}");
    for words in [
        &["NAME", "ACTIVE", "MODE", "CANARY", "WEIGHT", "AGE"][..],
        &["policy.configdrift.io/web", "1.2.0", "heal"],
        &["NAME", "POLICY", "VERSION", "AGE"],
        &["policyversion.configdrift.io/web-1.2.0", "web", "1.2.0"],
        &["NAME", "POLICY", "FROM", "AS", "TO", "VERSIONS", "AGE"],
        &[
            "policyversionref.configdrift.io/base",
            "base",
            "platform",
            "linux-base",
        ],
        &[
            "policyversionref.configdrift.io/web-to-shop",
            "web",
            "[\"shop\",\"team\"]",
        ],
    ] {
        let found = listed.lines().any(|line| {
            let there: Vec<&str> = line.split_whitespace().collect();
            there.starts_with(words)
        });
        ensure!(found, "{words:?}\n{listed}");
    }
    Ok(())
}

#[test]
fn a_version_never_changes_and_a_policy_does() -> Result<()> {
    let Some(cluster) = Cluster::find("a_version_never_changes_and_a_policy_does") else {
        return Ok(());
    };
    cluster.define()?;
    cluster.namespace("drift-changes")?;
    let apply = |text: &str| cluster.run(&["-n", "drift-changes", "apply", "-f", "-"], text);
    cluster.ask(&["-n", "drift-changes", "apply", "-f", "-"], FILE)?;
    let output = apply(&FILE.replace("listen = 80", "listen = 81"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        said.contains("a version never changes: make a PolicyVersion with another `version`"),
        "{said}"
    );
    ensure!(
        apply(&FILE.replace("mode: heal", "mode: observe"))?
            .status
            .success()
    );
    // Labels are no part of it.
    let label = json!({"metadata": {"labels": {"seen": "yes"}}}).to_string();
    cluster
        .ask(
            &[
                "-n",
                "drift-changes",
                "patch",
                "cpv",
                "web-1.2.0",
                "--type=merge",
                "-p",
                &label,
            ],
            "",
        )
        .context("labels of a version")?;
    Ok(())
}

#[test]
fn what_is_too_large_for_a_cluster_is_refused_with_the_way_out() -> Result<()> {
    let Some(cluster) =
        Cluster::find("what_is_too_large_for_a_cluster_is_refused_with_the_way_out")
    else {
        return Ok(());
    };
    cluster.define()?;
    cluster.namespace("drift-large")?;
    let create = |lengths: &[usize]| {
        let file = |(number, length): (usize, &usize)| json!({"path": format!("/etc/large/{number}"), "content": {"inline": "x".repeat(*length)}});
        let files: Vec<Value> = lengths.iter().enumerate().map(file).collect();
        let object = json!({"apiVersion": "configdrift.io/v1alpha1", "kind": "PolicyVersion",
            "metadata": {"name": format!("large-1.{}.0", lengths.len())},
            "spec": {"policy": "large", "version": format!("1.{}.0", lengths.len()), "files": files}});
        let asked = ["-n", "drift-large", "create", "-f", "-"];
        let output = cluster.run(&asked, &object.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok::<_, anyhow::Error>((output.status.success(), said))
    };
    let (taken, said) = create(&[1_048_577])?;
    ensure!(
        !taken && said.contains("spec.files[0].content.inline: Too long"),
        "{said}"
    );
    // Each by itself would do; etcd refuses them together, and says no more than that.
    let (taken, said) = create(&[900_000, 900_000])?;
    ensure!(
        !taken
            && said.contains("contents come to more than 1,000,000 bytes")
            && said.contains("name them by their `digest`"),
        "{said}"
    );
    let (taken, said) = create(&[500_000, 400_000, 90_000])?;
    ensure!(taken, "{said}");
    Ok(())
}
