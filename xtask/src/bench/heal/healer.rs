//! The least that is a healer at all: it waits for a change (inotify), compares, and writes with all syncs. A program of its own, as the agent is.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    mem::MaybeUninit,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use rustix::fs::inotify;

use super::disk::Disk;

/// Keeps the file `file` of a folder as it is when this starts. For `bench heal`.
#[derive(Debug, clap::Args)]
pub(in crate::bench) struct Args {
    folder: PathBuf,
}

const READY: &str = "ready";
const HEALED: &str = "healed";

pub(in crate::bench) fn run(args: &Args) -> Result<()> {
    let disk = Disk::new(&args.folder)?;
    let path = args.folder.join("file");
    let declared = fs::read(&path)?;
    let events = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    let wanted = inotify::WatchFlags::CLOSE_WRITE | inotify::WatchFlags::MOVED_TO;
    inotify::add_watch(&events, &args.folder, wanted)?;
    let mut out = std::io::stdout().lock();
    let mut say = |line: &str| {
        writeln!(out, "{line}")?;
        out.flush()
    };
    say(READY)?;
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(&events, &mut buffer);
    loop {
        let event = reader.next()?;
        if event.file_name() != Some(c"file") {
            continue;
        }
        let mut bytes = Vec::new();
        File::open(&path)?.read_to_end(&mut bytes)?;
        if bytes != declared {
            disk.put(&declared)?;
            say(HEALED)?;
        }
    }
}

/// It, running.
#[derive(Debug)]
pub(super) struct Healer {
    child: Child,
    said: BufReader<ChildStdout>,
    file: PathBuf,
}

impl Healer {
    pub(super) fn start(this: &Path, folder: &Path, declared: &[u8]) -> Result<Healer> {
        let file = folder.join("file");
        fs::write(&file, declared)?;
        let mut child = Command::new(this)
            .args(["bench", "healer"])
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the minimal healer")?;
        let said = BufReader::new(child.stdout.take().context("it has no output")?);
        let mut healer = Healer { child, said, file };
        healer.hear(READY)?;
        Ok(healer)
    }

    fn hear(&mut self, wanted: &str) -> Result<()> {
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        ensure!(line.trim_end() == wanted, "the minimal healer: {line:?}");
        Ok(())
    }

    /// Somebody writes these bytes; how long they stay.
    pub(super) fn heal(&mut self, other: &[u8]) -> Result<Duration> {
        fs::write(&self.file, other)?;
        let closed = Instant::now();
        self.hear(HEALED)?;
        Ok(closed.elapsed())
    }
}

impl Drop for Healer {
    fn drop(&mut self) {
        // It knows no other end.
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            eprintln!("warning: the minimal healer does not end ({error})");
        }
    }
}
