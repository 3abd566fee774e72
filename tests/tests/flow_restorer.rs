//! The restorer, and a detector that was taken over: it writes what the policy folder says, and nothing else.

use std::{
    fs,
    io::{IoSlice, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{fs::PermissionsExt, net::UnixStream},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use drift_agent::{
    declare, restore,
    restore::{Answer, Heal, Kind, Recovered, Request},
    store::{Change, Entry, Holding, Journal, Stage, Store},
};
use drift_tests::{
    agent::{Agent, SOON, is_built, program},
    privilege::{SCAN, SOMEBODY, is_root},
    scene::{HEAL_AT_ONCE, Scene, file},
    wait::until,
};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};

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
            .args(["/", ""])
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
        forced: false,
        place: None,
    };
    let a = || heal(scene.at("a.conf"));
    let (kind, ..) = hostile.refused(&Request::Heal(Box::new(a())))?;
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
        let request = Request::Heal(Box::new(request));
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

    let done = hostile.ask(&Request::Heal(Box::new(a())))?;
    ensure!(done == Answer::Healed { notes: Vec::new() }, "{done:?}");
    ensure!(fs::read(scene.at("a.conf"))? == b"declared\n");
    // Once more, of what is as it should be: nothing is written.
    use std::os::unix::fs::MetadataExt;
    let before = fs::metadata(scene.at("b.conf"))?.ino();
    hostile.ask(&Request::Heal(Box::new(heal(scene.at("b.conf")))))?;
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
            after: Vec::new(),
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
