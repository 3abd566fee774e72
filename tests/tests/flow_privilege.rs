//! Who may do what: the process that looks cannot write, the one that writes does only what a declaration says, and each capability is there for something.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    io::{IoSlice, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            fs::{PermissionsExt, chown},
            net::UnixStream,
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};

use anyhow::{Context, Result, bail, ensure};
use drift_agent::{
    confine::{self, CAPABILITIES, Part},
    declare, restore,
    restore::{Answer, Heal, Kind, Recovered, Request},
    store::{Change, Entry, Holding, Journal, Stage, Store},
};
use drift_tests::{
    agent::{Agent, SOON, has_probes, is_built, program},
    scene::{HEAL_AT_ONCE, Scene, file},
    skip::skip,
    wait::until,
};
use rustix::{
    io::Errno,
    net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
        SocketType, sendmsg, socketpair,
    },
    process::{Pid, Signal, kill_process},
    thread::{CapabilitySet, capabilities},
};
use serde_json::Value;

/// Scanning fast: where who made a change does not matter.
const SCAN: [&str; 4] = ["--sensor", "scan", "--scan-interval", "100ms"];

/// Somebody who is not root, and has no name.
const SOMEBODY: u32 = 12_345;

fn is_root(test: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip(test, "only root has capabilities to give up");
    }
    is_root
}

/// What `drift-agent status` says of who may do what.
fn privilege(scene: &Scene) -> Result<Value> {
    let output = Command::new(program())
        .args(["status", "-o", "json", "--state"])
        .arg(scene.root().join("state"))
        .output()?;
    let said: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    Ok(said["privilege"].clone())
}

/// The restorer's number, when it is at work.
fn restorer(scene: &Scene) -> Result<i32> {
    until(SOON, || {
        let said = privilege(scene).map_err(|error| format!("{error:#}"))?;
        said["restorer_pid"]
            .as_i64()
            .ok_or_else(|| said.to_string())
    })
    .map_err(anyhow::Error::msg)
    .and_then(|pid| Ok(i32::try_from(pid)?))
}

/// A line of `/proc/PID/status`.
fn line(pid: i32, name: &str) -> Result<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(line
        .with_context(|| format!("no {name}"))?
        .trim()
        .to_owned())
}

fn set(pid: i32, name: &str) -> Result<CapabilitySet> {
    Ok(CapabilitySet::from_bits_retain(u64::from_str_radix(
        &line(pid, name)?,
        16,
    )?))
}

fn is_gone(pid: i32) -> bool {
    // One that has ended and was not waited for is a zombie of whoever adopts it.
    line(pid, "State").map_or(true, |state| state.starts_with(['Z', 'X']))
}

#[test]
fn each_process_has_what_the_table_says_and_nothing_else() -> Result<()> {
    let test = "each_process_has_what_the_table_says_and_nothing_else";
    if !has_probes(test) || !is_root(test) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("a.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let agent = Agent::start(&scene, &[])?;
    let detector = i32::try_from(agent.pid())?;
    let restorer = restorer(&scene)?;
    let keeper: i32 = line(restorer, "PPid")?.parse()?;
    ensure!(line(keeper, "PPid")?.parse() == Ok(detector));
    let has = capabilities(None)?.permitted;
    for (pid, part, user, inherited) in [
        (detector, Part::Detector, confine::DETECTOR, false),
        (keeper, Part::Restorer, 0, true),
        (restorer, Part::Restorer, 0, false),
    ] {
        let expected = confine::of(part) & has;
        let none = CapabilitySet::empty();
        let all = |pid: i32| -> Result<BTreeMap<&str, CapabilitySet>> {
            ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]
                .into_iter()
                .map(|name| Ok((name, set(pid, name)?)))
                .collect()
        };
        let inherits = if inherited { expected } else { none };
        ensure!(
            all(pid)?
                == BTreeMap::from([
                    ("CapInh", inherits),
                    ("CapPrm", expected),
                    ("CapEff", expected),
                    ("CapBnd", expected),
                    ("CapAmb", inherits),
                ]),
            "{part:?}: {:?}",
            all(pid)?
        );
        ensure!(line(pid, "NoNewPrivs")? == "1" && line(pid, "Seccomp")? == "2");
        let users = format!("{user}\t{user}\t{user}\t{user}");
        ensure!(line(pid, "Uid")? == users, "{}", line(pid, "Uid")?);
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            let status = fs::read_to_string(thread?.path().join("status"))?;
            ensure!(status.contains(&format!("CapEff:\t{:016x}", expected.bits())));
            ensure!(status.contains("Seccomp:\t2") && status.contains(&users));
        }
    }
    // What cannot be dumped belongs to root in /proc, whoever it is.
    use std::os::unix::fs::MetadataExt;
    ensure!(fs::metadata(format!("/proc/{detector}/environ"))?.uid() == 0);
    let said = privilege(&scene)?;
    ensure!(
        said["user"] == confine::DETECTOR
            && said["restorer"] == "at-work"
            && said["syscall_filter"] == "in force"
            && said["lacks"] == Value::Array(Vec::new()),
        "{said}"
    );
    ensure!(agent.stop()?.success());
    until(SOON, || {
        if is_gone(keeper) && is_gone(restorer) {
            Ok(())
        } else {
            Err("still there")
        }
    })
    .map_err(anyhow::Error::msg)
}

#[test]
fn who_only_watches_has_no_restorer_until_something_is_to_be_put_back() -> Result<()> {
    let test = "who_only_watches_has_no_restorer_until_something_is_to_be_put_back";
    if !is_built(test) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("a.conf", "declared\n")];
    scene.declare("1.0.0", "  mode: observe\n", &files)?;
    let agent = Agent::start(&scene, &SCAN)?;
    agent.event(0, "config.drift.detected", &scene.at("a.conf"))?;
    let said = privilege(&scene)?;
    ensure!(said["restorer"] == "not-needed", "{said}");
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    agent.event(0, "config.drift.healed", &scene.at("a.conf"))?;
    restorer(&scene)?;
    Ok(())
}

/// What a process in the detector's place could try, and how the kernel answers.
fn attempts(scene: &Scene) -> Vec<(&'static str, std::io::Result<()>)> {
    let declared = scene.at("a.conf");
    let name = declared.as_os_str();
    let tree = scene.tree();
    let python = |_: &OsStr| Command::new("true").status().map(drop);
    vec![
        (
            "open for writing",
            fs::OpenOptions::new().write(true).open(&declared).map(drop),
        ),
        ("truncate", fs::File::create(&declared).map(drop)),
        ("remove", fs::remove_file(&declared)),
        ("rename", fs::rename(&declared, tree.join("b.conf"))),
        ("make beside", fs::write(tree.join("new.conf"), "x")),
        ("make a directory", fs::create_dir(tree.join("new.d"))),
        (
            "chmod",
            fs::set_permissions(&declared, fs::Permissions::from_mode(0o777)),
        ),
        ("chown", chown(&declared, Some(SOMEBODY), None)),
        ("link", fs::hard_link(&declared, tree.join("link"))),
        (
            "symlink",
            std::os::unix::fs::symlink("x", tree.join("link")),
        ),
        (
            "setxattr",
            rustix::fs::setxattr(&declared, "user.x", b"x", rustix::fs::XattrFlags::empty())
                .map_err(Into::into),
        ),
        (
            "utimes",
            fs::File::open(&declared).and_then(|file| file.set_modified(std::time::UNIX_EPOCH)),
        ),
        (
            "mount",
            rustix::mount::mount_bind(scene.elsewhere(), &tree).map_err(Into::into),
        ),
        ("run a program", python(name)),
        (
            "become root",
            rustix::thread::set_thread_uid(rustix::process::Uid::ROOT).map_err(Into::into),
        ),
        (
            "write to the memory of its parent",
            fs::OpenOptions::new()
                .write(true)
                .open(format!("/proc/{}/mem", std::os::unix::process::parent_id()))
                .map(drop),
        ),
    ]
}

/// In a thread of its own: what is given up is the thread's alone.
#[test]
fn the_process_that_looks_cannot_write_what_is_declared() -> Result<()> {
    if !is_root("the_process_that_looks_cannot_write_what_is_declared") {
        return Ok(());
    }
    for has_probes in [true, false] {
        let scene = Scene::new()?;
        scene.lay_out(&[file("a.conf", "declared\n"), file("secret", "declared\n")])?;
        fs::set_permissions(scene.at("secret"), fs::Permissions::from_mode(0o600))?;
        let state = scene.root().join("state");
        fs::create_dir(&state)?;
        confine::give(&state, confine::DETECTOR)?;
        let inside = || -> Result<()> {
            let confined = confine::detector(&state, has_probes, false);
            ensure!(confined.lacks.is_empty(), "{:?}", confined.lacks);
            ensure!(has_probes == confined.landlock.is_err(), "{confined:?}");
            for (what, result) in attempts(&scene) {
                let error = result.err().with_context(|| format!("it can {what}"))?;
                let refused = [Errno::PERM, Errno::ACCESS, Errno::XDEV].map(|it| it.raw_os_error());
                ensure!(
                    error.raw_os_error().is_some_and(|it| refused.contains(&it)),
                    "{what}: {error}"
                );
            }
            // It still does what it is there for.
            ensure!(fs::read(scene.at("secret"))? == b"declared\n");
            fs::write(state.join("own"), "x")?;
            fs::rename(state.join("own"), state.join("owned"))?;
            Ok(())
        };
        thread::scope(|scope| scope.spawn(inside).join())
            .map_err(|_| anyhow::Error::msg("panicked"))??;
        ensure!(fs::read(scene.at("a.conf"))? == b"declared\n");
        ensure!(fs::read_dir(scene.tree())?.count() == 2);
    }
    Ok(())
}

/// A restorer, and this test in the place of a detector that was taken over.
struct Hostile {
    child: Child,
    socket: Option<OwnedFd>,
}

impl Hostile {
    fn start(scene: &Scene) -> Result<Self> {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let child = Command::new(program())
            .args(["restore-process", "restorer"])
            .arg(std::process::id().to_string())
            .arg("as-the-policies-say")
            .arg(scene.policies())
            .arg(scene.root().join("state"))
            .stdin(theirs)
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self {
            child,
            socket: Some(ours),
        })
    }

    fn connect(&self) -> Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [theirs.as_fd()];
        ensure!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let socket = self.socket.as_ref().context("ended")?;
        sendmsg(
            socket,
            &[IoSlice::new(b"C")],
            &mut control,
            SendFlags::empty(),
        )?;
        ours.set_read_timeout(Some(SOON))?;
        Ok(ours)
    }

    fn ask(&self, request: &Request) -> Result<Answer> {
        let mut connection = self.connect()?;
        let body = serde_json::to_vec(request)?;
        connection.write_all(&u32::try_from(body.len())?.to_le_bytes())?;
        connection.write_all(&body)?;
        let mut length = [0; 4];
        connection.read_exact(&mut length)?;
        let mut answer = vec![0; u32::from_le_bytes(length) as usize];
        connection.read_exact(&mut answer)?;
        Ok(serde_json::from_slice(&answer)?)
    }

    /// Why it is not done.
    fn refused(&self, request: &Request) -> Result<(Kind, String, String)> {
        match self.ask(request)? {
            Answer::Failed {
                kind,
                reason,
                message,
            } => Ok((kind, reason, message)),
            other => bail!("{request:?}: {other:?}"),
        }
    }

    fn recovered(&self) -> Result<Recovered> {
        match self.ask(&Request::Recovered)? {
            Answer::Recovered(recovered) => Ok(recovered),
            other => bail!("{other:?}"),
        }
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.socket = None;
        // It ends by itself when nobody is left to ask it.
        let ended = until(SOON, || match self.child.try_wait() {
            Ok(Some(_)) => Ok(()),
            other => Err(other),
        });
        if ended.is_err() {
            let _gone = self.child.kill();
            let _gone = self.child.wait();
        }
    }
}

#[test]
fn the_process_that_writes_refuses_what_no_declaration_says() -> Result<()> {
    if !is_built("the_process_that_writes_refuses_what_no_declaration_says") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("a.conf", "declared\n"), file("b.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    fs::create_dir(scene.root().join("state"))?;
    fs::write(scene.at("a.conf"), "evil\n")?;
    fs::write(scene.at("undeclared"), "mine\n")?;
    let hostile = Hostile::start(&scene)?;
    let digest = blake3::hash(b"declared\n").to_string();
    let heal = |path: PathBuf| Heal {
        policy: "p".to_owned(),
        version: "1.0.0".to_owned(),
        path,
        action: "replace".to_owned(),
        digest: Some(digest.clone()),
    };
    let a = || heal(scene.at("a.conf"));
    let (kind, ..) = hostile.refused(&Request::Heal(a()))?;
    ensure!(kind == Kind::Refused, "nothing is declared yet");
    let declare = |seal: String| Request::Declare {
        holds: Vec::new(),
        seal,
    };
    let (kind, reason, _) = hostile.refused(&declare("0".repeat(64)))?;
    ensure!(kind == Kind::Stale && reason == "stale-declaration");
    let snapshot = declare::load(
        &scene.policies(),
        Path::new("/"),
        None,
        &declare::Holds::new(),
    )
    .map_err(|rejected| anyhow::Error::msg(rejected.to_string()))?;
    let seal = restore::seal(&snapshot);
    ensure!(hostile.ask(&declare(seal.clone()))? == Answer::Declared);

    let refusals = [
        (Kind::Refused, heal(scene.at("undeclared"))),
        (Kind::Refused, heal("/etc/passwd".into())),
        (Kind::Refused, heal(scene.tree().join("../tree/a.conf"))),
        (Kind::Refused, heal(scene.tree())),
        (
            Kind::Stale,
            Heal {
                version: "2.0.0".to_owned(),
                ..a()
            },
        ),
        (
            Kind::Stale,
            Heal {
                policy: "q".to_owned(),
                ..a()
            },
        ),
        (
            Kind::Stale,
            Heal {
                digest: Some(blake3::hash(b"evil\n").to_string()),
                ..a()
            },
        ),
        (
            Kind::Stale,
            Heal {
                digest: None,
                ..a()
            },
        ),
        (
            Kind::Tried,
            Heal {
                action: "remove".to_owned(),
                ..a()
            },
        ),
        (
            Kind::Tried,
            Heal {
                action: "\u{1b}[2J".to_owned(),
                ..a()
            },
        ),
    ];
    for (expected, request) in refusals {
        let request = Request::Heal(request);
        let (kind, _, message) = hostile.refused(&request)?;
        ensure!(kind == expected, "{request:?}: {kind:?} {message}");
    }
    let switch = Request::Switch {
        seal: seal.clone(),
        moves: vec![drift_agent::store::Moved {
            policy: "p".to_owned(),
            from: "1.0.0".to_owned(),
            to: "2.0.0".to_owned(),
        }],
        holding: Holding::default(),
    };
    let (kind, ..) = hostile.refused(&switch)?;
    ensure!(kind == Kind::Stale, "that is no change of what is declared");

    for bytes in [
        b"\xff\xff\xff\xff".to_vec(),
        (17u32 << 20).to_le_bytes().to_vec(),
        [&4u32.to_le_bytes()[..], b"null"].concat(),
        [&9u32.to_le_bytes()[..], b"\"sweep\"\0\0"].concat(),
        [&2u32.to_le_bytes()[..], b"\xc3\x28"].concat(),
    ] {
        let mut connection = hostile.connect()?;
        connection.write_all(&bytes)?;
        let mut answer = Vec::new();
        // A reset is an end, too.
        let _ended = connection.read_to_end(&mut answer);
        ensure!(answer.is_empty(), "{bytes:?}");
    }
    ensure!(fs::read(scene.at("a.conf"))? == b"evil\n");
    ensure!(fs::read(scene.at("undeclared"))? == b"mine\n");

    let done = hostile.ask(&Request::Heal(a()))?;
    ensure!(done == Answer::Healed { notes: Vec::new() }, "{done:?}");
    ensure!(fs::read(scene.at("a.conf"))? == b"declared\n");
    // Once more, of what is as it should be: nothing is written.
    use std::os::unix::fs::MetadataExt;
    let before = fs::metadata(scene.at("b.conf"))?.ino();
    hostile.ask(&Request::Heal(heal(scene.at("b.conf"))))?;
    ensure!(fs::metadata(scene.at("b.conf"))?.ino() == before);
    // Watching only is what the policy says now, and the detector cannot keep it from hearing that.
    scene.declare("1.0.0", "  mode: observe\n", &files)?;
    let (kind, ..) = hostile.refused(&declare("1".repeat(64)))?;
    ensure!(kind == Kind::Stale);
    Ok(())
}

/// The journal stands in a folder that the detector may write to.
#[test]
fn a_journal_that_no_policy_explains_is_left_alone() -> Result<()> {
    if !is_built("a_journal_that_no_policy_explains_is_left_alone") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("a.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    fs::write(scene.at("undeclared"), "mine\n")?;
    let state = scene.root().join("state");
    fs::create_dir(&state)?;
    let attributes = Change::Attributes {
        mode: Some(0o777),
        uid: Some(SOMEBODY),
        gid: None,
    };
    for (path, change) in [
        (scene.at("undeclared"), Change::Remove),
        (scene.tree(), attributes),
        (scene.at("a.conf"), Change::Remove),
    ] {
        Store::beside(&state)?.write_journal(&Journal {
            stage: Stage::Committed,
            moves: Vec::new(),
            holding: Holding::default(),
            directories: Vec::new(),
            entries: vec![Entry {
                path: path.clone(),
                change,
            }],
        })?;
        let recovered = Hostile::start(&scene)?.recovered()?;
        let failed = recovered.failed.context("it was believed")?;
        ensure!(failed.contains(&path.display().to_string()), "{failed}");
    }
    ensure!(fs::read(scene.at("undeclared"))? == b"mine\n");
    ensure!(fs::read(scene.at("a.conf"))? == b"declared\n");
    ensure!(fs::metadata(scene.tree())?.permissions().mode() & 0o7777 != 0o777);
    Ok(())
}

#[test]
fn a_restorer_that_is_killed_is_followed_by_another() -> Result<()> {
    if !is_built("a_restorer_that_is_killed_is_followed_by_another") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "h"]
        .into_iter()
        .map(|name| file(name, &format!("{name} declared\n").repeat(20_000)))
        .collect();
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let agent = Agent::start(&scene, &SCAN)?;
    let mut before = restorer(&scene)?;
    for round in 0..3u32 {
        for file in &files {
            fs::write(scene.at(file.path), format!("evil {round}\n"))?;
        }
        // In the midst of it, or before or after: what comes of it is the same.
        let first = scene.at("a");
        let declared = files[0].content.as_bytes();
        until(SOON, || match fs::read(&first) {
            Ok(now) if now == declared => Ok(()),
            other => Err(format!("{:?}", other.map(|bytes| bytes.len()))),
        })
        .map_err(anyhow::Error::msg)?;
        let pid = Pid::from_raw(before).context("no number")?;
        kill_process(pid, Signal::KILL)?;
        until(SOON, || {
            let all = files.iter().all(|file| {
                fs::read(scene.at(file.path)).is_ok_and(|now| now == file.content.as_bytes())
            });
            if all { Ok(()) } else { Err("not all healed") }
        })
        .map_err(|why| anyhow::Error::msg(format!("{why}\n{}", agent.all())))?;
        fs::write(scene.at("b"), "evil again\n")?;
        until(SOON, || match fs::read(scene.at("b")) {
            Ok(now) if now == files[1].content.as_bytes() => Ok(()),
            _ => Err("not healed by the next"),
        })
        .map_err(|why| anyhow::Error::msg(format!("{why}\n{}", agent.all())))?;
        let after = restorer(&scene)?;
        ensure!(after != before);
        before = after;
    }
    ensure!(
        agent.errors().contains("has ended (signal: 9 (SIGKILL)): another one is started when something is to be put back"),
        "{}",
        agent.errors()
    );
    let left = fs::read_dir(scene.tree())?.count();
    ensure!(left == files.len(), "{left} names: something is left over");
    Ok(())
}

#[test]
fn an_agent_that_is_killed_takes_its_restorer_along() -> Result<()> {
    if !is_built("an_agent_that_is_killed_takes_its_restorer_along") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("a.conf", "declared\n")];
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let agent = Agent::start(&scene, &SCAN)?;
    let restorer = restorer(&scene)?;
    let keeper: i32 = line(restorer, "PPid")?.parse()?;
    agent.kill()?;
    until(SOON, || {
        if is_gone(restorer) && is_gone(keeper) {
            Ok(())
        } else {
            Err("still there")
        }
    })
    .map_err(anyhow::Error::msg)?;
    // And the next one begins as if nothing had been.
    let agent = Agent::start(&scene, &SCAN)?;
    fs::write(scene.at("a.conf"), "evil\n")?;
    agent.event(0, "config.drift.healed", &scene.at("a.conf"))?;
    Ok(())
}

/// The agent as it runs where a capability may not be had.
fn without(scene: &Scene, names: &[&str], arguments: &[&str]) -> Result<Agent> {
    let minus: Vec<String> = names
        .iter()
        .map(|name| format!("-{}", name.trim_start_matches("CAP_").to_lowercase()))
        .collect();
    let minus = minus.join(",");
    let ready = scene.root().join("ready");
    let mut command = Command::new("setpriv");
    if !names.is_empty() {
        command.args(["--bounding-set", &minus, "--inh-caps", &minus]);
    }
    command
        .arg("--")
        .arg(program())
        .args(["run", "-o", "jsonl", "--policies"])
        .arg(scene.policies())
        .arg("--state")
        .arg(scene.root().join("state"))
        .arg("--ready-file")
        .arg(&ready)
        .args(arguments);
    let agent = Agent::spawn(command)?;
    until(SOON, || {
        if ready.exists() {
            Ok(())
        } else {
            Err("not ready")
        }
    })
    .map_err(|why| anyhow::Error::msg(format!("{why}\n{}", agent.all())))?;
    Ok(agent)
}

/// What fails without a capability: a drift that stays, made by `spoil`, of what is declared with `spec`.
struct Loss {
    name: &'static str,
    spec: &'static str,
    spoil: fn(&Scene) -> Result<()>,
    path: &'static str,
}

const LOSSES: [Loss; 7] = [
    Loss {
        name: "CAP_CHOWN",
        spec: "files:\n    - {path: TREE/f, content: {inline: x}, owner: 12345}\n",
        spoil: |scene| Ok(fs::write(scene.at("f"), "x")?),
        path: "f",
    },
    Loss {
        name: "CAP_DAC_OVERRIDE",
        spec: "files:\n    - {path: TREE/theirs/f, content: {inline: x}}\n",
        spoil: |scene| {
            fs::create_dir(scene.at("theirs"))?;
            Ok(chown(scene.at("theirs"), Some(SOMEBODY), None)?)
        },
        path: "theirs/f",
    },
    Loss {
        name: "CAP_FOWNER",
        spec: "files:\n    - {path: TREE/f, content: {inline: x}, mode: \"0640\"}\n",
        spoil: |scene| {
            fs::write(scene.at("f"), "x")?;
            Ok(chown(scene.at("f"), Some(SOMEBODY), None)?)
        },
        path: "f",
    },
    Loss {
        name: "CAP_FSETID",
        spec: "files:\n    - {path: TREE/f, content: {inline: x}, mode: \"2755\", group: 12345}\n",
        spoil: |scene| {
            fs::write(scene.at("f"), "x")?;
            Ok(chown(scene.at("f"), None, Some(SOMEBODY))?)
        },
        path: "f",
    },
    Loss {
        name: "CAP_SETFCAP",
        spec: "files:\n    - {path: TREE/f, content: {inline: x}, capabilities: cap_net_raw=ep}\n",
        spoil: |scene| Ok(fs::write(scene.at("f"), "x")?),
        path: "f",
    },
    Loss {
        name: "CAP_LINUX_IMMUTABLE",
        spec: "files:\n    - {path: TREE/f, content: {inline: x}, flags: [append]}\n",
        spoil: |scene| Ok(fs::write(scene.at("f"), "x")?),
        path: "f",
    },
    Loss {
        name: "CAP_SYS_ADMIN",
        spec: "files:\n    - {path: TREE/f, content: {inline: x}, xattrs: {security.drift: v}}\n",
        spoil: |scene| Ok(fs::write(scene.at("f"), "x")?),
        path: "f",
    },
];

/// Each line of the table of docs/security.md.
#[test]
fn without_a_capability_what_it_is_for_fails_and_says_so() -> Result<()> {
    let test = "without_a_capability_what_it_is_for_fails_and_says_so";
    if !is_built(test) || !is_root(test) {
        return Ok(());
    }
    if Command::new("setpriv").arg("--version").output().is_err() {
        skip(test, "setpriv (util-linux) is not there");
        return Ok(());
    }
    let restorers = CAPABILITIES
        .iter()
        .filter(|each| each.part == Part::Restorer);
    let names: Vec<&str> = restorers.map(|each| each.name).collect();
    let mut shown: Vec<&str> = LOSSES.iter().map(|loss| loss.name).collect();
    ensure!(names.len() == shown.len() && names.iter().all(|name| shown.contains(name)));
    shown.sort_unstable();
    for loss in LOSSES {
        let declared = || -> Result<Scene> {
            let scene = Scene::new()?;
            scene.declare_spec("1.0.0", HEAL_AT_ONCE, loss.spec)?;
            (loss.spoil)(&scene)?;
            Ok(scene)
        };
        let what = |agent: &Agent| format!("{}\n{}", loss.name, agent.all());
        let scene = declared()?;
        let path = scene.at(loss.path);
        let agent = without(&scene, &[loss.name], &SCAN)?;
        let failed = agent.event(0, "config.drift.heal_failed", &path);
        let failed = failed.with_context(|| what(&agent))?;
        let row = CAPABILITIES.iter().find(|each| each.name == loss.name);
        let sentence = format!(
            "degraded: without {} {}.",
            loss.name,
            row.context("no row")?.without
        );
        ensure!(agent.errors().contains(&sentence), "{}", what(&agent));
        eprintln!(
            "without {}: {} ({})",
            loss.name, failed["message"], failed["reason"]
        );
        ensure!(agent.stop()?.success());
        // With it, the same is put back.
        let scene = declared()?;
        let path = scene.at(loss.path);
        let agent = Agent::start(&scene, &SCAN)?;
        agent
            .event(0, "config.drift.healed", &path)
            .with_context(|| what(&agent))?;
        ensure!(agent.stop()?.success());
        unflag(&path)?;
    }
    Ok(())
}

fn unflag(path: &Path) -> Result<()> {
    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
    let file = fs::File::open(path)?;
    let flags = ioctl_getflags(&file)?;
    if flags.intersects(IFlags::APPEND) {
        ioctl_setflags(&file, flags - IFlags::APPEND)?;
    }
    Ok(())
}

/// The detector's lines of the table.
#[test]
fn without_what_the_detector_holds_it_sees_less_and_says_so() -> Result<()> {
    let test = "without_what_the_detector_holds_it_sees_less_and_says_so";
    if !has_probes(test) || !is_root(test) {
        return Ok(());
    }
    if Command::new("setpriv").arg("--version").output().is_err() {
        skip(test, "setpriv (util-linux) is not there");
        return Ok(());
    }
    let scene = |mode| -> Result<Scene> {
        let scene = Scene::new()?;
        let files = [file("f", "declared\n")];
        scene.lay_out(&files)?;
        scene.declare("1.0.0", "  mode: observe\n", &files)?;
        chown(scene.at("f"), Some(SOMEBODY), None)?;
        fs::set_permissions(scene.at("f"), fs::Permissions::from_mode(mode))?;
        Ok(scene)
    };
    for name in ["CAP_BPF", "CAP_PERFMON"] {
        let scene = scene(0o644)?;
        // CAP_SYS_ADMIN would do at the start, and is gone when they are needed again.
        let agent = without(&scene, &[name, "CAP_SYS_ADMIN"], &[])?;
        let errors = agent.errors();
        ensure!(errors.contains("degraded: no probes"), "{name}: {errors}");
        ensure!(
            errors.contains(&format!("degraded: without {name} no probes")),
            "{errors}"
        );
        ensure!(agent.stop()?.success());
    }
    let open = scene(0o600)?;
    let agent = without(&open, &["CAP_DAC_READ_SEARCH", "CAP_DAC_OVERRIDE"], &SCAN)?;
    let seen = agent.event(0, "config.drift.detected", &open.at("f"))?;
    ensure!(seen["drift"] == serde_json::json!(["unreadable"]), "{seen}");
    ensure!(
        agent
            .errors()
            .contains("degraded: without CAP_DAC_READ_SEARCH"),
        "{}",
        agent.errors()
    );
    ensure!(agent.stop()?.success());

    for (names, expected) in [(&["CAP_SYS_PTRACE"][..], false), (&[], true)] {
        let scene = scene(0o644)?;
        let agent = without(&scene, names, &[])?;
        let mark = agent.mark();
        fs::write(scene.at("f"), "evil\n")?;
        let seen = agent.event(mark, "config.drift.detected", &scene.at("f"))?;
        ensure!(seen["actor"]["pid"] == std::process::id(), "{seen}");
        ensure!(
            seen["actor"]["exe"].is_string() == expected,
            "{names:?}: {seen}"
        );
        ensure!(agent.stop()?.success());
    }
    Ok(())
}

/// The last good policies are kept in a folder that the detector may write to.
#[test]
fn what_no_restorer_has_read_is_not_put_back_though_it_is_called_the_last_good() -> Result<()> {
    let test = "what_no_restorer_has_read_is_not_put_back_though_it_is_called_the_last_good";
    if !is_built(test) || !is_root(test) {
        return Ok(());
    }
    let scene = Scene::new()?;
    let state = scene.root().join("state");
    let files = [file("a.conf", "declared\n")];
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let agent = Agent::start(&scene, &SCAN)?;
    agent.event(0, "config.drift.healed", &scene.at("a.conf"))?;
    ensure!(agent.stop()?.success());
    fs::write(scene.policies().join("policy.yaml"), "none: [\n")?;
    for is_vouched in [true, false] {
        if !is_vouched {
            rustix::fs::removexattr(&state, "trusted.drift.vouched")?;
        }
        fs::write(scene.at("a.conf"), "evil\n")?;
        let agent = Agent::start(&scene, &SCAN)?;
        let event = if is_vouched {
            "config.drift.healed"
        } else {
            "config.drift.heal_failed"
        };
        let record = agent.event(0, event, &scene.at("a.conf"))?;
        if !is_vouched {
            let why = record["message"].as_str().unwrap_or_default();
            ensure!(why.contains("no restorer has ever read them"), "{record}");
        }
        ensure!(agent.stop()?.success());
    }
    Ok(())
}
