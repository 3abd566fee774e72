use super::*;

const ID: &str = "3f5c1f0bd6e29c4f2f8b6f1a0b7c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f8";
const EARLIER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

fn object(uid: &str, name: &str, id: &str) -> PodObject {
    serde_json::from_value(serde_json::json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": uid, "labels": {"pod-template-hash": "5d4f8c7b9"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4f8c7b9", "uid": "r", "controller": true}],
        },
        "spec": {"nodeName": "node", "serviceAccountName": "web", "containers": [{"name": "app", "image": "web:1"}]},
        "status": {"containerStatuses": [{
            "name": "app", "image": "web:1", "imageID": "", "ready": true, "restartCount": 1, "containerID": format!("containerd://{id}"),
            "lastState": {"terminated": {"exitCode": 1, "containerID": format!("containerd://{EARLIER}")}},
        }]},
    }))
    .unwrap()
}

fn told(table: &Table, id: &str, pod_uid: Option<&str>) -> Container {
    let mut container = Container {
        id: id.to_owned(),
        pod_uid: pod_uid.map(str::to_owned),
        pod: None,
        name: None,
        image: None,
    };
    table.tell(&mut container);
    container
}

fn name(container: &Container) -> Option<&str> {
    container.pod.as_ref().map(|pod| pod.name.as_str())
}

#[test]
fn a_container_is_its_pods_also_one_that_has_ended_and_one_that_nobody_has_told_of_yet() {
    let mut table = Table::default();
    table.take(Event::Apply(object("u1", "web-1", ID)));
    for id in [ID, EARLIER] {
        let container = told(&table, id, Some("u1"));
        assert_eq!(container.name.as_deref(), Some("app"));
        assert_eq!(container.image.as_deref(), Some("web:1"));
        let pod = container.pod.unwrap();
        assert_eq!((&*pod.namespace, &*pod.name), ("shop", "web-1"));
        assert_eq!(pod.workload.as_deref(), Some("Deployment/web"));
        assert_eq!(pod.service_account.as_deref(), Some("web"));
    }
    // The kubelet tells of a container after it has started.
    let new = told(&table, &"a".repeat(64), Some("u1"));
    assert_eq!((name(&new), new.name.as_deref()), (Some("web-1"), None));
    // Docker without pods.
    assert_eq!(name(&told(&table, &"a".repeat(64), None)), None);
}

#[test]
fn what_does_not_agree_is_not_known() {
    let mut table = Table::default();
    table.take(Event::Apply(object("u1", "web-1", ID)));
    table.take(Event::Apply(object("u2", "web-2", &"b".repeat(64))));
    let container = told(&table, ID, Some("u2"));
    assert_eq!((name(&container), container.name.as_deref()), (None, None));
    // A pod that the cluster has not told of yet.
    assert_eq!(name(&told(&table, ID, Some("u3"))), Some("web-1"));
    assert_eq!(name(&told(&table, &"c".repeat(64), Some("u3"))), None);
}

#[test]
fn a_pod_of_a_file_is_known_by_the_hash_of_the_file() {
    let mut table = Table::default();
    let mut mirror = object("u1", "etcd-node", ID);
    mirror.annotations_mut().insert(
        OF_FILE.to_owned(),
        "8f14e45fceea167a5a36dedd4bea2543".to_owned(),
    );
    table.take(Event::Apply(mirror));
    let container = told(&table, ID, Some("8f14e45fceea167a5a36dedd4bea2543"));
    assert_eq!(name(&container), Some("etcd-node"));
}

#[test]
fn pods_that_are_gone_are_known_for_a_while_and_no_longer() {
    let mut table = Table::default();
    let id = |number: usize| format!("{number:064x}");
    for number in 0..MOST_GONE + 10 {
        let (uid, name) = (format!("u{number}"), format!("web-{number}"));
        table.take(Event::Apply(object(&uid, &name, &id(number))));
        table.take(Event::Delete(object(&uid, &name, &id(number))));
    }
    assert_eq!(name(&told(&table, &id(20), None)), Some("web-20"));
    assert_eq!(name(&told(&table, &id(5), None)), None);
    assert_eq!(table.pods.len(), MOST_GONE);
    assert!(
        table.containers.len() <= MOST_GONE + 1,
        "{}",
        table.containers.len()
    );
    // A list that has it no more says the same as its deletion.
    table.take(Event::Apply(object("here", "here", ID)));
    table.take(Event::Init);
    table.take(Event::InitDone);
    assert!(table.pods["here"].is_gone);
    assert_eq!(name(&told(&table, ID, None)), Some("here"));
}
