//! The least that watching by inotify takes: one watch on the directory, events read and thrown away. What it cannot say is who.

use std::{mem::MaybeUninit, path::PathBuf};

use anyhow::Result;
use rustix::fs::inotify;

/// Watches a directory until it is killed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    directory: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let fd = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    let wanted = inotify::WatchFlags::CLOSE_WRITE
        | inotify::WatchFlags::MODIFY
        | inotify::WatchFlags::ATTRIB
        | inotify::WatchFlags::CREATE
        | inotify::WatchFlags::DELETE
        | inotify::WatchFlags::MOVE;
    inotify::add_watch(&fd, &args.directory, wanted)?;
    println!("ready");
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(fd, &mut buffer);
    loop {
        std::hint::black_box(reader.next()?);
    }
}
