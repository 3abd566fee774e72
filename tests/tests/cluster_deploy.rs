//! The chart: what it renders, what it is allowed, and its whole life on a real node.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use drift_agent::confine::{CAPABILITIES, Part};
use drift_tests::{
    chart::{BUSYBOX, CHART, Chart, NODE},
    upgrade::{self, many, untold},
    wait,
};
use serde_json::{Value, json};

const HEAL: [&str; 2] = ["profile=heal", "host.writablePaths={/etc/app}"];
const OBSERVE: [&str; 1] = ["host.writablePaths={/etc/app}"];
const FOR_A_POD: Duration = Duration::from_secs(60);

fn of_kind<'v>(objects: &'v [Value], kind: &str) -> Result<&'v Value> {
    let mut objects = objects.iter();
    objects
        .find(|object| object["kind"] == kind)
        .with_context(|| format!("no {kind} is rendered"))
}

/// The labels that say that Helm has made it.
fn without_helm(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("helm.sh/chart");
            fields.remove("app.kubernetes.io/managed-by");
            fields.values_mut().for_each(without_helm);
        }
        Value::Array(items) => items.iter_mut().for_each(without_helm),
        _ => {}
    }
}

#[test]
fn kustomize_renders_what_the_chart_does_and_the_api_server_takes_it() -> Result<()> {
    const TEST: &str = "kustomize_renders_what_the_chart_does_and_the_api_server_takes_it";
    let Some(chart) = Chart::find(TEST) else {
        return Ok(());
    };
    chart.cluster.define()?;
    let namespace = ["create", "namespace", "drift-rendered"];
    let gone = [
        "delete",
        "namespace",
        "drift-rendered",
        "--ignore-not-found",
    ];
    chart.cluster.ask(&gone, "")?;
    chart.cluster.ask(&namespace, "")?;
    for (overlay, values) in [("observe", &OBSERVE[..]), ("heal", &HEAL[..])] {
        let mut lint = vec!["lint", "--strict", CHART];
        lint.extend(values.iter().flat_map(|value| ["--set", value]));
        chart.helm(&lint)?;
        let by_name = |mut objects: Vec<Value>| {
            objects.iter_mut().for_each(without_helm);
            objects.retain(|object| object["kind"] != "Namespace");
            objects
                .sort_by_key(|object| format!("{}/{}", object["kind"], object["metadata"]["name"]));
            objects
        };
        let of_helm = by_name(chart.rendered(values)?);
        let of_kustomize = by_name(chart.kustomized(overlay)?);
        ensure!(
            of_helm.len() == of_kustomize.len(),
            "{overlay}: another number of objects"
        );
        for (one, other) in of_helm.iter().zip(&of_kustomize) {
            ensure!(
                one == other,
                "{overlay}: Helm renders {one:#}, and kustomize {other:#}"
            );
        }
        let mut dry = vec![
            "template",
            "drift",
            CHART,
            "-n",
            "drift-rendered",
            "--no-hooks",
        ];
        dry.extend(values.iter().flat_map(|value| ["--set", value]));
        let text = chart.helm(&dry)?;
        let asked = [
            "apply",
            "--server-side",
            "--force-conflicts",
            "--dry-run=server",
            "-f",
            "-",
        ];
        let taken = chart.cluster.ask(&asked, &text)?;
        println!(
            "{overlay}: the API server takes {} objects",
            taken.lines().count()
        );
        ensure!(taken.contains("daemonset.apps/drift"), "{taken}");
    }
    // Where there is an API server alone, nobody would end it.
    chart
        .cluster
        .ask(&[&gone[..], &["--wait=false"]].concat(), "")?;
    Ok(())
}

#[test]
fn an_agent_is_given_what_it_needs_and_the_host_only_where_somebody_says_so() -> Result<()> {
    const TEST: &str = "an_agent_is_given_what_it_needs_and_the_host_only_where_somebody_says_so";
    let Some(chart) = Chart::find(TEST) else {
        return Ok(());
    };
    // `confine` needs these two of the restorer's to become another user.
    let to_become = ["CAP_CHOWN", "CAP_DAC_OVERRIDE"];
    let used = |is_used: &dyn Fn(Part, &str) -> bool| -> BTreeSet<String> {
        let used = CAPABILITIES
            .iter()
            .filter(|each| is_used(each.part, each.name));
        used.map(|each| each.name.trim_start_matches("CAP_").to_owned())
            .collect()
    };
    // What needs a value of its own.
    let asked_for = |name: &str| matches!(name, "CAP_SYS_ADMIN" | "CAP_SYS_RESOURCE");
    // No program of the host gets a signal from a pod.
    let of_no_use = |name: &str| name == "CAP_KILL";
    // Who still has a file that was put back.
    let of_heals = |name: &str| name == "CAP_CHECKPOINT_RESTORE";
    let observe = used(&|part, name| {
        !asked_for(name) && !of_heals(name) && (part != Part::Restorer || to_become.contains(&name))
    });
    let heal = used(&|_, name| !asked_for(name) && !of_no_use(name));
    let all = used(&|_, name| !of_no_use(name));
    for (values, expected, writes) in [
        (&OBSERVE[..], observe, false),
        (&HEAL[..], heal, true),
        (
            &[
                HEAL[0],
                HEAL[1],
                "security.trustedAttributes=true",
                "security.oldKernels=true",
            ][..],
            all,
            true,
        ),
    ] {
        let objects = chart.rendered(values)?;
        let pod = &of_kind(&objects, "DaemonSet")?["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let security = &container["securityContext"];
        let added: BTreeSet<String> =
            serde_json::from_value(security["capabilities"]["add"].clone())?;
        ensure!(
            added == expected,
            "{values:?}: {added:?}, and not {expected:?}"
        );
        ensure!(
            security["capabilities"]["drop"] == json!(["ALL"])
                && security["privileged"] == false
                && security["allowPrivilegeEscalation"] == false
                && security["readOnlyRootFilesystem"] == true
                && pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault",
            "{pod}"
        );
        ensure!(
            pod["hostNetwork"].is_null() && pod["hostIPC"].is_null(),
            "{pod}"
        );
        let mounts = container["volumeMounts"].as_array().context("mounts")?;
        let writable: Vec<&str> = mounts
            .iter()
            .filter(|mount| mount["readOnly"] != true)
            .filter_map(|mount| mount["mountPath"].as_str())
            .collect();
        let expected: &[&str] = if writes {
            &["/var/lib/drift-agent", "/host/etc/app"]
        } else {
            &["/var/lib/drift-agent"]
        };
        ensure!(writable == expected, "{values:?}: {writable:?}");
        let arguments = container["args"].to_string();
        ensure!(
            arguments.contains("--mode=observe") != writes,
            "{arguments}"
        );
    }
    for (values, said) in [
        (&["profile=other"][..], "'observe', 'heal'"),
        (&["profile=heal"][..], "host.writablePaths"),
        (&["host.paths={etc}"][..], "/host/paths/0"),
        (&["host.paths={/etc/../root}"][..], "without `..`"),
        (
            &["host.paths={/a}", "host.writablePaths={/a}"][..],
            "name it once",
        ),
        (&["host.path={/a}"][..], "'path' not allowed"),
    ] {
        let error = chart.rendered(values).err().context("it is refused")?;
        ensure!(format!("{error:#}").contains(said), "{values:?}: {error:#}");
    }
    Ok(())
}

/// The status of the node, as soon as it is so.
fn node_drift(chart: &Chart, what: &str, is: impl Fn(&Value) -> bool) -> Result<Value> {
    wait::until(FOR_A_POD, || {
        match chart.cluster.json(&["get", "nd", NODE]) {
            Ok(found) if is(&found["status"]) => Ok(found["status"].clone()),
            Ok(found) => Err(format!("{:#}", found["status"])),
            Err(error) => Err(format!("{error:#}")),
        }
    })
    .map_err(|seen| anyhow::anyhow!("{what}: {seen}"))
}

fn holds(status: &Value, condition: &str) -> bool {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.any(|one| one["type"] == condition && one["status"] == "True")
}

fn is_healed(status: &Value, what: &str) -> bool {
    let told = &status["drifts"][0];
    told["outcome"] == "healed" && told["path"] == what && holds(status, "Healed")
}

/// Another image of the agent, which every node has.
const OLD: &str = "old";
const IMAGES: &str = "jsonpath={.items[*].spec.containers[*].image}";

#[test]
fn the_chart_is_installed_heals_is_upgraded_and_leaves_what_the_page_names() -> Result<()> {
    const TEST: &str = "the_chart_is_installed_heals_is_upgraded_and_leaves_what_the_page_names";
    const FILE: &str = "/etc/app/app.conf";
    let Some(chart) = Chart::find(TEST) else {
        return Ok(());
    };
    let cluster = &chart.cluster;
    cluster.namespace("drift-shop")?;
    let install = |arguments: &[&str]| {
        let start = Instant::now();
        let test_image = format!("test.image={BUSYBOX}");
        let all = [
            "upgrade",
            "--install",
            "drift",
            CHART,
            "-n",
            "drift-system",
            "--create-namespace",
            "--set",
            "image.repository=localhost/drift-agent",
            "--set",
            "image.pullPolicy=Never",
            "--set",
            "host.writablePaths={/etc/app}",
            "--set",
            &test_image,
            "--wait",
            "--timeout=120s",
        ];
        let said = chart.helm(&[&all[..], arguments].concat());
        println!("helm {arguments:?}: {} ms", start.elapsed().as_millis());
        said
    };
    let old = format!("image.tag={OLD}");
    install(&["--set", "profile=heal", "--set", &old]).inspect_err(|_| {
        let said = cluster.ask(&["-n", "drift-system", "describe", "pods"], "");
        eprintln!("{}", said.unwrap_or_default());
    })?;
    let policy = drift_tests::cluster::app("1.0.0", "none", FILE.as_ref())
        .replace(r#""nodeSelector":{"role":"none"}"#, r#""nodeSelector":{}"#);
    cluster.ask(&["-n", "drift-shop", "apply", "-f", "-"], &policy)?;
    node_drift(&chart, "the policy is in force", |status| {
        status["policies"][0]["activeVersion"] == "1.0.0"
            && holds(status, "Healed")
            && holds(status, "Synced")
    })?;
    let declared = "version 1.0.0\n";
    let content = || chart.on_node(&format!("cat {FILE}"));
    ensure!(content()? == declared, "{}", content()?);

    let start = Instant::now();
    chart.on_node(&format!("echo drift > {FILE}"))?;
    let healed = node_drift(&chart, "a drift on the node is healed", |status| {
        is_healed(status, FILE) && status["drifts"][0]["kinds"] == json!(["content"])
    })?;
    println!(
        "from the change to the NodeDrift with its heal: {} ms",
        start.elapsed().as_millis()
    );
    ensure!(content()? == declared, "{}", content()?);
    ensure!(
        healed["sensor"]["name"] != "scan" && healed["drifts"][0]["actor"]["comm"] == "sh",
        "the pod has its kernel programs, and hears who it was: {healed:#}"
    );
    println!(
        "{}",
        chart.helm(&["test", "drift", "-n", "drift-system", "--timeout=90s"])?
    );

    // While the pod is another one, nobody looks; its successor looks at everything before it is ready.
    cluster.ask(&["-n", "drift-shop", "apply", "-f", "-"], &many())?;
    let in_force = |status: &Value| {
        let mut policies = status["policies"].as_array().into_iter().flatten();
        policies.any(|policy| policy["name"] == "many" && policy["drifting"] == 0)
    };
    node_drift(&chart, "many files are as declared", |status| {
        in_force(status) && holds(status, "Healed")
    })?;
    let image = || cluster.ask(&["-n", "drift-system", "get", "pods", "-o", IMAGES], "");
    ensure!(image()?.ends_with(&format!(":{OLD}")), "{}", image()?);
    let (drifts, upgrades) = std::thread::scope(|scope| -> Result<_> {
        let writer = scope.spawn(|| chart.on_node(upgrade::WRITER));
        let upgrades = (|| -> Result<_> {
            install(&["--set", "profile=heal"])?;
            let new = image()?;
            chart.helm(&[
                "rollback",
                "drift",
                "1",
                "-n",
                "drift-system",
                "--wait",
                "--timeout=120s",
            ])?;
            Ok((new, image()?))
        })();
        chart.on_node(upgrade::END)?;
        let written = writer.join();
        let written = written.map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        Ok((written.trim().parse::<u64>()?, upgrades?))
    })?;
    node_drift(&chart, "each drift of the upgrade is healed", |status| {
        in_force(status) && holds(status, "Healed")
    })?;
    let left = chart.on_node("grep -L '^declared$' /etc/app/many-* || true")?;
    ensure!(left.is_empty(), "{left}");
    let missed = untold(&chart, drifts)?;
    println!(
        "{drifts} drifts during the upgrade to {} and back to {}: {} not told, none not healed",
        upgrades.0,
        upgrades.1,
        missed.len()
    );
    ensure!(drifts > 50 && missed.is_empty(), "not told: {missed:?}");
    ensure!(
        upgrades.0 != upgrades.1 && upgrades.1.ends_with(&format!(":{OLD}")),
        "{upgrades:?}"
    );

    // With the other profile it sees and tells, and cannot write.
    install(&["--set", "profile=observe"])?;
    chart.on_node(&format!("echo drift > {FILE}"))?;
    let told = node_drift(&chart, "a drift is told and left", |status| {
        let first = &status["drifts"][0];
        first["path"] == FILE && first["outcome"] == "observed"
    })?;
    ensure!(
        told["policies"][0]["mode"] == "observe" && !holds(&told, "Healed"),
        "{told:#}"
    );
    ensure!(content()? == "drift\n", "{}", content()?);

    chart.helm(&[
        "uninstall",
        "drift",
        "-n",
        "drift-system",
        "--wait",
        "--timeout=90s",
    ])?;
    let kinds = "daemonsets,pods,serviceaccounts,roles,rolebindings,networkpolicies,clusterroles,clusterrolebindings,\
                 validatingadmissionpolicies,validatingadmissionpolicybindings,secrets,configmaps,cpol,cpv";
    let gone = wait::until(FOR_A_POD, || {
        let left = cluster.ask(
            &[
                "get",
                kinds,
                "-A",
                "-l",
                "app.kubernetes.io/instance=drift",
                "-o",
                "name",
            ],
            "",
        );
        match left {
            Ok(left) if left.is_empty() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    gone.map_err(|left| anyhow::anyhow!("is there still: {left}"))?;
    let releases = cluster.ask(&["-n", "drift-system", "get", "secrets", "-o", "name"], "")?;
    ensure!(releases.is_empty(), "{releases}");
    // What the page names.
    let definitions = cluster.ask(&["get", "crd", "-o", "name"], "")?;
    for kind in [
        "policies",
        "policyversions",
        "policyversionrefs",
        "nodedrifts",
    ] {
        ensure!(
            definitions.contains(&format!("/{kind}.configdrift.io")),
            "{definitions}"
        );
    }
    ensure!(
        cluster
            .ask(
                &["-n", "drift-shop", "get", "cpol", "app", "-o", "name"],
                ""
            )
            .is_ok(),
        "people's policies stay"
    );
    chart.on_node("ls -d /var/lib/drift-agent /run/drift /etc/app")?;
    chart.on_node("rm -r /var/lib/drift-agent /run/drift /etc/app /run/drift-writer-ends")?;
    cluster
        .ask(
            &[
                "delete",
                "namespace",
                "drift-system",
                "drift-shop",
                "--wait=false",
            ],
            "",
        )
        .map(drop)
}
