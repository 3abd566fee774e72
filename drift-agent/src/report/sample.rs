//! Records for the tests of this folder: one of each event, and any at all.

use std::{ffi::OsString, os::unix::ffi::OsStringExt, path::PathBuf};

use proptest::{collection::vec, option, prelude::*, result, sample::select};

use super::container::{Container, Pod};
use super::record::{Actor, Cause, Event, FileType, Outcome, Record, SUPERSEDED, State};
use crate::compare::Drift;

/// One complete record of each event, as the pipeline would make them.
pub(super) fn every_event() -> Vec<Record> {
    Event::ALL
        .into_iter()
        .map(|event| {
            let mut record = Record::new(event);
            record.policy = Some("web".into());
            record.version = Some("1.2.0".into());
            record.path = Some("/etc/app/app.conf".into());
            record.cause = Some(Cause::Kernel);
            record.drift = vec![Drift::Content];
            record.declared = Some(State::default());
            record.observed = Some(State::default());
            record.actor = Some(Ok(vim()));
            record.outcome = match event {
                Event::DriftHealed => Some(Outcome::Healed),
                Event::HealFailed => Some(Outcome::Failed),
                Event::HealUnverifiable => Some(Outcome::Unverifiable),
                Event::HealSuppressed => Some(Outcome::Suppressed),
                Event::DriftDetected
                | Event::DriftResolved
                | Event::Touched
                | Event::PolicyActivated
                | Event::PolicyRejected
                | Event::EventsLost => None,
            };
            record.heal_ns = (event == Event::DriftHealed).then_some(1_100_000);
            record.reason = Some("back-off");
            record
        })
        .collect()
}

pub(super) fn vim() -> Actor {
    Actor {
        pid: 812,
        start_ns: 77,
        comm: "vim".into(),
        exe: Some("/usr/bin/vim".into()),
        uid: 1000,
        gid: 1000,
        cgroup: Some("/user.slice".into()),
        container: None,
    }
}

/// Any record that carries what its event must carry.
pub(super) fn any_record() -> impl Strategy<Value = Record> {
    let about = (
        option::of(".{1,12}"),
        option::of(".{1,12}"),
        option::of(bytes().prop_map(PathBuf::from)),
        vec(select(Drift::ALL.to_vec()), 1..4),
    );
    let found = (
        option::of(any_state()),
        option::of(any_state()),
        option::of(prop_oneof![
            any_actor().prop_map(Ok),
            any::<String>().prop_map(Err)
        ]),
        option::of(select(Cause::ALL.to_vec())),
    );
    let done = (
        option::of(any::<u64>()),
        option::of(select(Outcome::ALL.to_vec())),
        option::of(select(vec![
            "back-off",
            "busy",
            "read-only-file-system",
            SUPERSEDED,
        ])),
        option::of(any::<String>()),
        option::of(any::<u64>()),
    );
    // 1970 to 9999: what a machine's clock can say.
    let time = (0..253_402_207_200_i64, 0..1_000_000_000_i32);
    (select(Event::ALL.to_vec()), time, about, found, done).prop_map(
        |(event, (second, nanosecond), about, found, done)| {
            let full = every_event().into_iter().find(|one| one.event == event);
            let mut record = full.expect("every event has a sample");
            record.time = jiff::Timestamp::new(second, nanosecond).expect("a time in range");
            // What was not drawn stays as in the complete sample where the event needs it.
            let keep = record.clone();
            (record.policy, record.version, record.path) = (about.0, about.1, about.2);
            record.drift = about.3;
            record.drift.sort_unstable();
            record.drift.dedup();
            (record.declared, record.observed, record.actor, record.cause) = found;
            (
                record.seen_ns,
                record.outcome,
                record.reason,
                record.message,
                record.heal_ns,
            ) = done;
            while let Some(field) = record.lacks() {
                match field {
                    "policy" => record.policy.clone_from(&keep.policy),
                    "version" => record.version.clone_from(&keep.version),
                    "path" => record.path.clone_from(&keep.path),
                    "cause" => record.cause = keep.cause,
                    "declared" => record.declared.clone_from(&keep.declared),
                    "observed" => record.observed.clone_from(&keep.observed),
                    "actor" => record.actor.clone_from(&keep.actor),
                    "outcome" => record.outcome = keep.outcome,
                    "heal_ns" => record.heal_ns = keep.heal_ns,
                    "reason" => record.reason = keep.reason,
                    other => panic!("no sample for {other}"),
                }
            }
            record
        },
    )
}

fn bytes() -> impl Strategy<Value = OsString> {
    prop_oneof![
        vec(1..=255_u8, 1..40).prop_map(OsString::from_vec),
        any::<String>().prop_map(OsString::from),
        "(/[a-zé\u{202e}\\\\x]{1,8}){1,5}".prop_map(OsString::from),
    ]
}

fn any_state() -> impl Strategy<Value = State> {
    (
        option::of(select(FileType::ALL.to_vec())),
        option::of(any::<[u8; 32]>().prop_map(blake3::Hash::from_bytes)),
        option::of(any::<u64>()),
        option::of(any::<u32>()),
        option::of(any::<u32>()),
        option::of(any::<u32>()),
    )
        .prop_map(|(file_type, digest, size, mode, uid, gid)| State {
            file_type,
            digest,
            size,
            mode,
            uid,
            gid,
        })
}

fn any_actor() -> impl Strategy<Value = Actor> {
    (
        1..=u32::MAX,
        any::<u64>(),
        bytes(),
        option::of(bytes().prop_map(PathBuf::from)),
        any::<u32>(),
        any::<u32>(),
        option::of(any::<String>()),
        option::of(any_container()),
    )
        .prop_map(
            |(pid, start_ns, comm, exe, uid, gid, cgroup, container)| Actor {
                pid,
                start_ns,
                comm,
                exe,
                uid,
                gid,
                cgroup,
                container,
            },
        )
}

fn any_container() -> impl Strategy<Value = Result<Container, String>> {
    let text = || option::of(any::<String>());
    let pod = (any::<String>(), any::<String>(), text(), text());
    let pod = pod.prop_map(|(name, namespace, workload, service_account)| Pod {
        name,
        namespace,
        workload,
        service_account,
    });
    let container = ("[0-9a-f]{64}", text(), option::of(pod), text(), text());
    let container = container.prop_map(|(id, pod_uid, pod, name, image)| Container {
        id,
        pod_uid,
        pod,
        name,
        image,
    });
    result::maybe_ok(container, any::<String>())
}
