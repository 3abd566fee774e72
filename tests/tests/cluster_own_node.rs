//! Who may write which NodeDrift: an agent that of its own node. What the chart brings for that, in a control plane.

use std::time::Duration;

use anyhow::{Result, ensure};
use drift_tests::{
    chart::{CHART, Chart},
    wait,
};
use serde_json::{Value, json};

#[test]
fn an_agents_token_writes_the_nodedrift_of_its_own_node_and_no_other() -> Result<()> {
    const TEST: &str = "an_agents_token_writes_the_nodedrift_of_its_own_node_and_no_other";
    const SPACE: &str = "drift-own";
    let Some(chart) = Chart::find(TEST) else {
        return Ok(());
    };
    let cluster = &chart.cluster;
    cluster.define()?;
    cluster.namespace(SPACE)?;
    for node in ["own-a", "own-b"] {
        cluster.node(node, "none")?;
        cluster.ask(&["delete", "nd", node, "--ignore-not-found"], "")?;
    }
    let mut arguments = vec!["template", "own", CHART, "-n", SPACE];
    for template in [
        "templates/serviceaccount.yaml",
        "templates/rbac.yaml",
        "templates/admission.yaml",
    ] {
        arguments.extend(["-s", template]);
    }
    let rendered = chart.helm(&arguments)?;
    cluster.ask(&["apply", "-f", "-"], &rendered)?;
    // Whatever roles somebody gives it besides.
    let generous = json!([
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "drift-own-all"},
            "rules": [{"apiGroups": ["configdrift.io"], "resources": ["nodedrifts", "nodedrifts/status"], "verbs": ["*"]}]},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "drift-own-all"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "drift-own-all"},
            "subjects": [{"kind": "ServiceAccount", "name": "own-drift", "namespace": SPACE}]},
    ]);
    let generous: Vec<String> = generous
        .as_array()
        .into_iter()
        .flatten()
        .map(Value::to_string)
        .collect();
    let generous = generous.join("\n---\n");
    // A pod that was on the node own-a: no kubelet has to run it.
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "agent", "namespace": SPACE},
        "spec": {"nodeName": "own-a", "serviceAccountName": "own-drift", "containers": [{"name": "agent", "image": "none"}]}});
    cluster.ask(&["apply", "-f", "-"], &pod.to_string())?;
    let token = |bound: &[&str]| {
        cluster.ask(
            &[&["-n", SPACE, "create", "token", "own-drift"], bound].concat(),
            "",
        )
    };
    let folder = tempfile::tempdir()?;
    let config = |token: &str| -> Result<String> {
        Ok(chart
            .kubeconfig(folder.path(), token.trim())?
            .display()
            .to_string())
    };
    let own = config(&token(&[
        "--bound-object-kind=Pod",
        "--bound-object-name=agent",
    ])?)?;
    let object = |name: &str| {
        json!({"apiVersion": "configdrift.io/v1alpha1", "kind": "NodeDrift", "metadata": {"name": name}}).to_string()
    };
    let patch = ["--type=merge", "-p", r#"{"status": {"agentVersion": "9"}}"#];
    let label = [
        "--type=merge",
        "-p",
        r#"{"metadata": {"labels": {"a": "b"}}}"#,
    ];
    let ask = |config: &str, arguments: &[&str], input: &str| -> Result<Result<String, String>> {
        let output = cluster.run(&[&["--kubeconfig", config], arguments].concat(), input)?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(if output.status.success() {
            Ok(said(&output.stdout))
        } else {
            Err(said(&output.stderr))
        })
    };
    let create = ["create", "-f", "-"];
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    let status_apply = [
        "apply",
        "--server-side",
        "--force-conflicts",
        "--subresource=status",
        "-f",
        "-",
    ];
    // A new policy of the API server takes a moment.
    wait::until(Duration::from_secs(30), || {
        let tried = ask(
            &own,
            &["create", "--dry-run=server", "-f", "-"],
            &object("own-b"),
        );
        match tried.map_err(|error| format!("{error:#}"))? {
            Err(refused) if refused.contains("its own node alone") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .map_err(anyhow::Error::msg)?;

    // With the chart's own roles: its node.
    let mine = object("own-a");
    let own_node: [(&[&str], &str); 4] = [
        (&create, &mine),
        (&apply, &mine),
        (&status_apply, &mine),
        (&["get", "nd", "own-a"], ""),
    ];
    for (arguments, input) in own_node {
        let said = ask(&own, arguments, input)?;
        ensure!(said.is_ok(), "{arguments:?}: {said:?}");
    }
    // With all roles there are: no other, not even by trying.
    cluster.ask(&["apply", "-f", "-"], &generous)?;
    wait::until(Duration::from_secs(20), || {
        let asked = ask(
            &own,
            &["auth", "can-i", "deletecollection", "nodedrifts"],
            "",
        );
        match asked.map_err(|error| format!("{error:#}"))? {
            Ok(said) if said.trim() == "yes" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .map_err(anyhow::Error::msg)?;
    cluster.ask(&create, &object("own-b"))?;
    let stored = cluster.json(&["get", "nd", "own-b"])?;
    let mut replaced = stored.clone();
    replaced["metadata"]["labels"] = json!({"a": "b"});
    let replaced = replaced.to_string();
    let collection = [
        "delete",
        "--raw",
        "/apis/configdrift.io/v1alpha1/nodedrifts?fieldSelector=metadata.name%3Down-b",
    ];
    let other_node: [(&str, &[&str], &str); 9] = [
        ("create", &create, &object("own-c")),
        ("create by apply", &apply, &object("own-c")),
        ("apply", &apply, &{
            let mut labelled: Value = serde_json::from_str(&object("own-b"))?;
            labelled["metadata"]["labels"] = json!({"a": "b"});
            labelled.to_string()
        }),
        ("apply status", &status_apply, &{
            let mut told: Value = serde_json::from_str(&object("own-b"))?;
            told["status"] = json!({"agentVersion": "9"});
            told.to_string()
        }),
        (
            "patch",
            &[&["patch", "nd", "own-b"], &label[..]].concat(),
            "",
        ),
        (
            "patch status",
            &[
                &["patch", "nd", "own-b", "--subresource=status"],
                &patch[..],
            ]
            .concat(),
            "",
        ),
        ("update", &["replace", "-f", "-"], &replaced),
        ("delete", &["delete", "nd", "own-b"], ""),
        ("deletecollection", &collection, ""),
    ];
    for (verb, arguments, input) in other_node {
        match ask(&own, arguments, input)? {
            Err(refused) if refused.contains("its own node alone") => println!("{verb}: refused"),
            other => anyhow::bail!("{verb} of another node's NodeDrift: {other:?}"),
        }
    }
    let now = cluster.json(&["get", "nd", "own-b"])?;
    ensure!(now == stored, "{now}, and was {stored}");

    // A token that nobody has bound to a pod is of no node.
    let unbound = config(&token(&[])?)?;
    for node in ["own-a", "own-b"] {
        let arguments = [&["patch", "nd", node], &label[..]].concat();
        let said = ask(&unbound, &arguments, "")?;
        ensure!(
            said.as_ref()
                .is_err_and(|refused| refused.contains("its own node alone")),
            "{node}: {said:?}"
        );
    }
    cluster.ask(
        &["delete", "clusterrolebinding,clusterrole", "drift-own-all"],
        "",
    )?;
    cluster.ask(&["delete", "-f", "-", "--ignore-not-found"], &rendered)?;
    cluster.ask(&["delete", "nd,node", "own-a", "own-b"], "")?;
    cluster
        .ask(&["delete", "namespace", SPACE, "--wait=false"], "")
        .map(drop)
}
