use std::{
    io::{Read, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream as Client},
    thread,
    time::Instant,
};

use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::{
    serve::{AskError, Health, ask},
    store::DEFAULT_QUOTA,
};

fn status() -> Status {
    Status {
        node: "node-a".to_owned(),
        health: Health::Healthy,
        reasons: Vec::new(),
        agent: None,
        pid: None,
        started: None,
        uptime_s: None,
        sensor: None,
        events_lost: None,
        records_lost: None,
        last_full_scan: None,
        full_scan_running_s: None,
        stops: Vec::new(),
        policies: Vec::new(),
        drifts: Vec::new(),
        store: None,
        privilege: None,
    }
}

fn desk(asked: mpsc::Sender<Asked>, store: Arc<Store>) -> Arc<Desk> {
    Arc::new(Desk::new(asked, store, None, Duration::ZERO))
}

/// A socket with something behind it that answers as long as the scene is there.
struct Scene {
    folder: TempDir,
    runtime: tokio::runtime::Runtime,
    served: Option<Served>,
}

impl Scene {
    /// `answers`: whether what is behind the socket does.
    fn new(answers: bool) -> Scene {
        let folder = tempfile::tempdir().expect("a folder");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let store = Store::open(folder.path(), DEFAULT_QUOTA).expect("a store");
        let (sender, mut asked) = mpsc::channel::<Asked>(8);
        let guard = runtime.enter();
        let served = serve(folder.path(), desk(sender, store.into()));
        drop(guard);
        runtime.spawn(async move {
            let mut unanswered = Vec::new();
            while let Some(request) = asked.recv().await {
                if answers {
                    let answer = Body::Status(Box::new(status()));
                    request.answer.send(answer).expect("somebody waits");
                } else {
                    unanswered.push(request);
                }
            }
        });
        Scene {
            folder,
            runtime,
            served: Some(served.expect("a socket")),
        }
    }

    fn connect(&self) -> Client {
        let client = Client::connect(self.folder.path().join(NAME)).expect("connected");
        let patience = Some(Duration::from_secs(20));
        client.set_read_timeout(patience).expect("a time-out");
        client
    }

    /// What is answered to these bytes, after which nothing more is sent.
    fn say(&self, bytes: &[u8]) -> Value {
        let mut client = self.connect();
        // An agent that has heard enough does not take the rest.
        let _broken = client.write_all(bytes);
        let _broken = client.shutdown(std::net::Shutdown::Write);
        read(client)
    }

    fn still_answers(&self) {
        let answer = ask(self.folder.path(), Request::Status);
        assert!(matches!(answer, Ok(Body::Status(_))), "{answer:?}");
    }
}

fn read(mut client: Client) -> Value {
    let mut answer = String::new();
    // Bytes that were sent and not taken may end the connection hard, after the answer.
    let _reset = client.read_to_string(&mut answer);
    let line = answer.strip_suffix('\n').expect("a line");
    serde_json::from_str(line).expect("JSON")
}

#[test]
fn a_request_is_answered_and_the_store_adds_what_it_knows() {
    let scene = Scene::new(true);
    let answer = scene.say(b"{\"v\":1,\"request\":\"status\"}\n");
    assert_eq!(answer["v"], 1);
    assert_eq!(answer["status"]["health"], "healthy");
    assert_eq!(answer["status"]["store"]["quota"], DEFAULT_QUOTA);
    scene.still_answers();
}

#[test]
fn what_is_no_request_is_told_so_and_nothing_of_it_is_repeated() {
    let scene = Scene::new(true);
    let long = [b"{\"v\":1,\"request\":\"".as_slice(), &[b'x'; 10_000]].concat();
    let deep = "[".repeat(4000) + "\n";
    for (bytes, reason) in [
        (&b""[..], "bad-request"),
        (b"\n", "bad-request"),
        (b"status\n", "bad-request"),
        (b"{\"v\":1,\"request\":\"status\"}", "bad-request"),
        (b"{\"v\":1}\n", "unknown-request"),
        (b"{\"request\":\"status\"}\n", "bad-request"),
        (b"{\"v\":2,\"request\":\"status\"}\n", "version"),
        (b"{\"v\":-1,\"request\":\"status\"}\n", "bad-request"),
        (
            b"{\"v\":1,\"request\":\"secret-words\"}\n",
            "unknown-request",
        ),
        (
            b"{\"v\":1,\"request\":\"status\",\"more\":1}\n",
            "unknown-request",
        ),
        (
            b"{\"v\":1,\"request\":{\"status\":{}}}\n",
            "unknown-request",
        ),
        (&[0xff; 100], "bad-request"),
        (&long, "bad-request"),
        (deep.as_bytes(), "bad-request"),
    ] {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]);
        let answer = scene.say(bytes);
        assert_eq!(answer["error"]["reason"], reason, "{shown}: {answer}");
        assert!(!answer.to_string().contains("secret"), "{answer}");
    }
    scene.still_answers();
}

#[test]
fn who_says_nothing_and_who_reads_nothing_is_let_go_and_others_are_served() {
    let scene = Scene::new(true);
    let start = Instant::now();
    let silent: Vec<_> = (0..3).map(|_| scene.connect()).collect();
    let mut half = scene.connect();
    half.write_all(b"{\"v\":1,").expect("taken");
    let mut deaf = scene.connect();
    deaf.write_all(b"{\"v\":1,\"request\":\"status\"}\n")
        .expect("taken");
    scene.still_answers();
    assert!(start.elapsed() < FOR_REQUEST, "{:?}", start.elapsed());
    for client in silent.into_iter().chain([half]) {
        assert_eq!(read(client)["error"]["reason"], "too-slow");
    }
    drop(deaf);
    scene.still_answers();
}

#[test]
fn a_hundred_that_hold_on_only_make_others_wait() {
    let scene = Scene::new(true);
    let held: Vec<_> = (0..100).map(|_| scene.connect()).collect();
    drop(held);
    scene.still_answers();
}

#[test]
fn a_pipeline_that_does_not_answer_holds_nobody_for_ever() {
    let scene = Scene::new(false);
    let start = Instant::now();
    let asking: Vec<_> = (0..4)
        .map(|_| {
            let folder = scene.folder.path().to_owned();
            thread::spawn(move || ask(&folder, Request::Status))
        })
        .collect();
    for one in asking {
        match one.join().expect("no panic") {
            Err(AskError::Refused(refusal)) => assert_eq!(refusal.reason, "busy"),
            other => panic!("{other:?}"),
        }
    }
    assert!(
        start.elapsed() < Request::Status.patience() * 2,
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn the_socket_is_for_its_owner_and_goes_with_the_agent() {
    let mut scene = Scene::new(true);
    let socket = scene.folder.path().join(NAME);
    let mode = socket.metadata().expect("there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let guard = scene.runtime.enter();
    scene.served = None;
    drop(guard);
    assert!(!socket.exists());
    let answer = ask(scene.folder.path(), Request::Status);
    assert!(matches!(answer, Err(AskError::NoAgent)), "{answer:?}");
    let answer = ask(&scene.folder.path().join("gone"), Request::Status);
    assert!(matches!(answer, Err(AskError::NoAgent)), "{answer:?}");
}

#[test]
fn what_a_killed_agent_or_somebody_else_left_is_replaced_and_long_paths_do_no_harm() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("x".repeat(150));
    std::fs::create_dir(&state).expect("made");
    let target = folder.path().join("target");
    std::fs::write(&target, "theirs").expect("written");
    std::os::unix::fs::symlink(&target, state.join(NAME)).expect("a link");
    let answer = ask(&state, Request::Status);
    assert!(
        matches!(answer, Err(AskError::NoAgent | AskError::Io(_))),
        "{answer:?}"
    );
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _inside = runtime.enter();
    let store: Arc<Store> = Store::open(&state, DEFAULT_QUOTA).expect("a store").into();
    for _ in 0..2 {
        let (sender, mut asked) = mpsc::channel(1);
        let served = serve(&state, desk(sender, Arc::clone(&store)));
        runtime.spawn(async move {
            while let Some(request) = asked.recv().await {
                let answer = Body::Status(Box::new(status()));
                request.answer.send(answer).expect("somebody waits");
            }
        });
        let answer = ask(&state, Request::Status);
        assert!(matches!(answer, Ok(Body::Status(_))), "{answer:?}");
        std::mem::forget(served.expect("a socket")); // as a kill does: the socket stays
    }
    assert_eq!(std::fs::read_to_string(&target).expect("read"), "theirs");
}

#[test]
fn only_root_and_who_runs_the_agent_may_ask() {
    for (user, owner, may) in [
        (0, 0, true),
        (0, 1000, true),
        (1000, 1000, true),
        (1000, 0, false),
        (1001, 1000, false),
        (u32::MAX, 0, false), // of another user namespace
    ] {
        assert_eq!(may_ask(user, owner), may, "{user} {owner}");
    }
}

#[test]
fn the_wire_is_what_the_document_shows() {
    let asking = Asking {
        v: VERSION,
        request: Request::Status,
    };
    let asking = serde_json::to_value(&asking).expect("JSON");
    assert_eq!(asking, json!({"v": 1, "request": "status"}));
    let answering = Answering {
        v: VERSION,
        body: refused("busy", "later"),
    };
    let answering = serde_json::to_value(&answering).expect("JSON");
    let expected = json!({"v": 1, "error": {"reason": "busy", "message": "later"}});
    assert_eq!(answering, expected);
}

proptest! {
    #[test]
    fn no_line_makes_it_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _either = parse(&line);
    }
}
