//! Each kind of change, made by this process through each call that makes it: seen by the kernel half, with the right process, and healed. The same under
//! each sensor (`cargo xtask vmtest`).

use std::{
    ffi::CString,
    fs::{self, File, OpenOptions, Permissions},
    io::{self, IoSlice, Write},
    os::{
        fd::{AsFd, AsRawFd, FromRawFd},
        unix::{
            ffi::OsStrExt,
            fs::{OpenOptionsExt, PermissionsExt, chown, fchown, symlink},
        },
    },
    path::Path,
};

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::{Agent, has_probes},
    scene::{HEAL_AT_ONCE, Scene, file},
    stage::{Kind, Mounts},
};
use libc::{c_int, c_long};
use rustix::{
    fs::{AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags},
    io::ReadWriteFlags,
};

/// One way, from a declared file, and a folder beside it, to something else.
type Change = fn(app: &Path, aside: &Path) -> Result<()>;

const READ_ONLY: &str = "open for reading with O_TRUNC";

const CHANGES: [(&str, Change); 17] = [
    ("write", |app, _| {
        Ok(OpenOptions::new().append(true).open(app)?.write_all(b"x")?)
    }),
    ("open with O_TRUNC", |app, _| {
        File::create(app)?;
        Ok(())
    }),
    (READ_ONLY, |app, _| {
        // POSIX leaves open what this does; Linux truncates.
        let flags = OFlags::RDONLY | OFlags::TRUNC | OFlags::CLOEXEC;
        rustix::fs::open(app, flags, Mode::empty())?;
        Ok(())
    }),
    ("truncate", |app, _| {
        let file = OpenOptions::new().write(true).open(app)?;
        Ok(file.set_len(2)?)
    }),
    ("the last of two descriptors", |app, _| {
        let first = OpenOptions::new().append(true).open(app)?;
        let mut second = first.try_clone()?;
        drop(first);
        Ok(second.write_all(b"x")?)
    }),
    ("chmod", |app, _| {
        Ok(fs::set_permissions(app, Permissions::from_mode(0o600))?)
    }),
    ("fchmod", |app, _| {
        Ok(File::open(app)?.set_permissions(Permissions::from_mode(0o666))?)
    }),
    ("chown", |app, _| Ok(chown(app, Some(7), None)?)),
    ("fchown", |app, _| {
        Ok(fchown(File::open(app)?, Some(7), None)?)
    }),
    ("unlink", |app, _| Ok(fs::remove_file(app)?)),
    ("rename away", |app, aside| {
        Ok(fs::rename(app, aside.join("away"))?)
    }),
    ("rename onto", |app, aside| {
        fs::write(aside.join("new"), "other\n")?;
        Ok(fs::rename(aside.join("new"), app)?)
    }),
    ("exchange", |app, aside| {
        let other = aside.join("exchanged");
        fs::write(&other, "other\n")?;
        Ok(rustix::fs::renameat_with(
            CWD,
            app,
            CWD,
            &other,
            RenameFlags::EXCHANGE,
        )?)
    }),
    ("symlink", |app, _| {
        fs::remove_file(app)?;
        Ok(symlink("nowhere", app)?)
    }),
    ("mkdir", |app, _| {
        fs::remove_file(app)?;
        Ok(fs::create_dir(app)?)
    }),
    ("mknod", |app, _| {
        fs::remove_file(app)?;
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(rustix::fs::mknodat(CWD, app, FileType::Fifo, mode, 0)?)
    }),
    ("link of a file without a name", |app, aside| {
        let mut file = OpenOptions::new()
            .write(true)
            .custom_flags(OFlags::TMPFILE.bits().cast_signed())
            .open(aside)?;
        file.write_all(b"other\n")?;
        fs::remove_file(app)?;
        let name = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        Ok(rustix::fs::linkat(
            CWD,
            name,
            CWD,
            app,
            AtFlags::SYMLINK_FOLLOW,
        )?)
    }),
];

/// What a call that is made by its number has returned.
fn returned(result: c_long) -> Result<c_int> {
    ensure!(result >= 0, "{}", io::Error::last_os_error());
    Ok(c_int::try_from(result)?)
}

/// Opens a file by a call of this number, with one argument after the path, and writes to it.
#[cfg(target_arch = "x86_64")]
fn write_by(number: c_long, app: &Path, argument: c_int) -> Result<()> {
    let path = CString::new(app.as_os_str().as_bytes())?;
    // SAFETY: both calls read the path, which outlives them.
    let fd = returned(unsafe { libc::syscall(number, path.as_ptr(), argument) })?;
    // SAFETY: nobody else has this descriptor.
    Ok(unsafe { File::from_raw_fd(fd) }.write_all(b"other\n")?)
}

/// `struct file_handle` of name_to_handle_at(2), with room.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: c_int,
    handle: [u8; 128],
}

fn opened_by_handle(app: &Path) -> Result<File> {
    let path = CString::new(app.as_os_str().as_bytes())?;
    let mut handle = Handle {
        bytes: 128,
        kind: 0,
        handle: [0; 128],
    };
    let mut mount: c_int = 0;
    // SAFETY: the kernel reads the path and writes to the handle, at most as many bytes as it says, and to the mount's number.
    let result = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            path.as_ptr(),
            &raw mut handle,
            &raw mut mount,
            0,
        )
    };
    returned(result).context("name_to_handle_at")?;
    let beside = File::open(app.parent().context("a folder")?)?;
    // SAFETY: the kernel reads the handle.
    let result = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            beside.as_raw_fd(),
            &raw const handle,
            libc::O_WRONLY | libc::O_CLOEXEC,
        )
    };
    let fd = returned(result).context("open_by_handle_at")?;
    // SAFETY: nobody else has this descriptor.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn to_write(app: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(app)
}

/// A file with other bytes, on the same file system, open to be read.
fn other(app: &Path) -> io::Result<File> {
    let source = app.with_file_name("source");
    fs::write(&source, "other\n")?;
    File::open(source)
}

/// Calls that a library may come to use instead of others (with `linkat` of a file without a name, above).
const CALLS: &[(&str, Change)] = &[
    #[cfg(target_arch = "x86_64")]
    ("open", |app, _| {
        write_by(libc::SYS_open, app, libc::O_WRONLY)
    }),
    #[cfg(target_arch = "x86_64")]
    ("creat", |app, _| write_by(libc::SYS_creat, app, 0o644)),
    ("openat", |app, _| {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, app, flags, Mode::empty())?;
        Ok(File::from(fd).write_all(b"other\n")?)
    }),
    ("openat2", |app, _| {
        let (flags, way) = (OFlags::WRONLY | OFlags::CLOEXEC, ResolveFlags::empty());
        let fd = rustix::fs::openat2(CWD, app, flags, Mode::empty(), way)?;
        Ok(File::from(fd).write_all(b"other\n")?)
    }),
    ("open_by_handle_at", |app, _| {
        Ok(opened_by_handle(app)?.write_all(b"other\n")?)
    }),
    ("pwritev2", |app, _| {
        let bytes = [IoSlice::new(b"oth"), IoSlice::new(b"er\n")];
        let flags = ReadWriteFlags::empty();
        ensure!(rustix::io::pwritev2(to_write(app)?, &bytes, 0, flags)? == 6);
        Ok(())
    }),
    ("copy_file_range", |app, _| {
        let (source, app) = (other(app)?, to_write(app)?);
        ensure!(rustix::fs::copy_file_range(source, None, app, None, 6)? == 6);
        Ok(())
    }),
    ("sendfile", |app, _| {
        ensure!(rustix::fs::sendfile(to_write(app)?, other(app)?, None, 6)? == 6);
        Ok(())
    }),
    ("splice", |app, _| {
        let (from, mut to) = io::pipe()?;
        to.write_all(b"other\n")?;
        let app = to_write(app)?;
        let nowhere = std::ptr::null_mut();
        // SAFETY: no pointer is handed over.
        let moved =
            unsafe { libc::splice(from.as_raw_fd(), nowhere, app.as_raw_fd(), nowhere, 6, 0) };
        ensure!(moved == 6, "{}", io::Error::last_os_error());
        Ok(())
    }),
    ("truncate", |app, _| {
        let path = CString::new(app.as_os_str().as_bytes())?;
        // SAFETY: the kernel reads the path.
        ensure!(unsafe { libc::truncate(path.as_ptr(), 2) } == 0);
        Ok(())
    }),
    ("fallocate", |app, _| {
        let flags = FallocateFlags::empty();
        Ok(rustix::fs::fallocate(to_write(app)?, flags, 0, 64)?)
    }),
];

/// Makes each of these changes beside an agent that puts the file back.
fn each(scene: &Scene, changes: &[(&str, Change)]) -> Result<()> {
    let mut declared = file("app.conf", "declared\n");
    declared.mode = Some("0644");
    declared.owner = Some("0");
    let files = [declared];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", HEAL_AT_ONCE, &files)?;
    let agent = Agent::start(scene, &[])?;
    let app = scene.at("app.conf");
    for &(what, change) in changes {
        // What only the sensor btf tells the process of: the descriptor was never one for writing.
        if what == READ_ONLY && std::env::var("DRIFT_TEST_SENSOR").as_deref() != Ok("btf") {
            continue;
        }
        let mark = agent.mark();
        change(&app, &scene.elsewhere()).with_context(|| what.to_owned())?;
        let detected = agent
            .event(mark, "config.drift.detected", &app)
            .with_context(|| what.to_owned())?;
        ensure!(
            detected["cause"] == "kernel" && detected["actor"]["pid"] == std::process::id(),
            "{what}: {detected}"
        );
        agent
            .event(mark, "config.drift.healed", &app)
            .with_context(|| what.to_owned())?;
        ensure!(fs::read_to_string(&app)? == "declared\n", "{what}");
    }
    ensure!(agent.stop()?.success());
    Ok(())
}

#[test]
fn each_kind_of_change_is_seen_with_its_process_and_healed() -> Result<()> {
    if !has_probes("each_kind_of_change_is_seen_with_its_process_and_healed") {
        return Ok(());
    }
    each(&Scene::new()?, &CHANGES)
}

/// B045: a library comes to use another call for the same, and nothing is seen any more.
#[test]
fn each_call_that_opens_writes_or_cuts_is_seen_with_its_process_and_healed() -> Result<()> {
    if !has_probes("each_call_that_opens_writes_or_cuts_is_seen_with_its_process_and_healed") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let mounts = Mounts::of(&scene);
    // Which has handles, wherever the machine's root is.
    Kind::Tmpfs.mount(scene.root(), |_| Ok(()))?;
    each(&scene, CALLS)?;
    mounts.clear()
}

#[test]
fn a_directory_on_the_way_that_is_moved_is_seen_with_the_process() -> Result<()> {
    if !has_probes("a_directory_on_the_way_that_is_moved_is_seen_with_the_process") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let files = [file("deep/er/app.conf", "declared\n")];
    scene.lay_out(&files)?;
    scene.declare("1.0.0", "", &files)?;
    let agent = Agent::start(&scene, &[])?;
    let (app, deep) = (scene.at("deep/er/app.conf"), scene.at("deep"));
    let away = scene.elsewhere().join("deep");
    let mark = agent.mark();
    fs::rename(&deep, &away)?;
    let detected = agent.event(mark, "config.drift.detected", &app)?;
    ensure!(
        detected["cause"] == "kernel" && detected["actor"]["pid"] == std::process::id(),
        "{detected}"
    );
    fs::rename(&away, &deep)?;
    agent.event(mark, "config.drift.resolved", &app)?;
    Ok(())
}
