//! What a guest consists of: the agent, the tests, the programs they run, the libraries of all these, and a script that runs the tests.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use super::{boot, image::Image, kernel::Kernel, tools::Tools};
use crate::{architecture::Architecture, shell::quote, step::Step};

/// Programs that the tests and the script run: this machine's, where the guest can run those.
const PROGRAMS: [&str; 32] = [
    "cat",
    "chmod",
    "chown",
    "chroot",
    "cp",
    "dd",
    "dmesg",
    "echo",
    "env",
    "grep",
    "head",
    "kmod",
    "ln",
    "ls",
    "mkdir",
    "mkfifo",
    "mknod",
    "mount",
    "mv",
    "pivot_root",
    "rm",
    "rmdir",
    "sed",
    "sh",
    "sleep",
    "tail",
    "timeout",
    "touch",
    "true",
    "truncate",
    "umount",
    "unshare",
];

/// Those that make file systems: where this machine has none, the tests that need it say so.
const MAKERS: [&str; 3] = ["mkfs.btrfs", "mkfs.ext4", "mkfs.xfs"];

/// Where the loader looks in the guest; libraries lie there without their folders.
const LIBRARIES: &str = "lib";

/// Seconds for the tests of one file under one sensor, as the guest's clock counts them.
pub(super) const FILE_TIMEOUT: u64 = 150;

/// Everything but the kernel.
#[derive(Debug)]
pub(super) struct Guest<'a> {
    pub(super) architecture: Architecture,
    pub(super) agent: &'a Path,
    /// Nothing where a command is run instead.
    pub(super) tests: Option<&'a Tests>,
    pub(super) sensors: &'a [&'static str],
    pub(super) filter: Option<&'a str>,
    /// Instead of the tests, where it is not empty.
    pub(super) command: &'a [OsString],
}

#[derive(Debug)]
pub(super) struct Tests {
    /// All of the tier.
    pub(super) program: PathBuf,
    /// The names of the tier's files: each is a module of the program.
    pub(super) tier: Vec<String>,
}

impl Guest<'_> {
    /// Writes the part of the image that all kernels share.
    pub(super) fn image(&self, tools: &Tools, folder: &Path) -> Result<PathBuf> {
        let place = folder.join("base.cpio");
        let file = File::create(&place).with_context(|| format!("making {}", place.display()))?;
        let mut image = Image::new(BufWriter::new(file));
        let writing = || format!("writing {}", place.display());
        for folder in ["dev", "etc", "proc", "sys", "tmp", "modules", "root", "run"] {
            image.folder(folder).with_context(writing)?;
        }
        image
            .character("dev/console", (5, 1))
            .with_context(writing)?;
        image.character("dev/null", (1, 3)).with_context(writing)?;
        let text = |name: &str| format!("{name}:x:0:0:{name}:/root:/bin/sh\n");
        image
            .file("etc/passwd", 0o644, text("root").as_bytes())
            .and_then(|()| image.file("etc/group", 0o644, b"root:x:0:\n"))
            .and_then(|()| image.link("usr", "."))
            .and_then(|()| image.link("sbin", "bin"))
            // kmod is told by its name what it is to do.
            .and_then(|()| image.link("bin/insmod", "kmod"))
            .and_then(|()| image.file("init", 0o755, self.script().as_bytes()))
            .with_context(writing)?;

        let mut needed = BTreeMap::new();
        let mut add = |from: &Path, to: &str, strip: bool| -> Result<()> {
            needed.extend(tools.needed(from)?);
            let copy;
            let from = if strip {
                copy = stripped(from, folder, tools)?;
                &copy
            } else {
                from
            };
            image
                .copy(from, to, 0o755)
                .with_context(|| format!("putting {} into the image", from.display()))
        };
        for program in PROGRAMS {
            let path = tools
                .guest_program(program)
                .with_context(|| format!("the tests need `{program}`, which is not there"))?;
            add(&path, &format!("bin/{program}"), false)?;
        }
        for program in MAKERS {
            if let Some(path) = tools.guest_program(program) {
                add(&path, &format!("bin/{program}"), false)?;
            }
        }
        // Across it is the program of the image, and is run as it is there.
        let strip = self.architecture == Architecture::here();
        add(self.agent, "bin/drift-agent", strip)?;
        if let Some(tests) = self.tests {
            add(&tests.program, "bin/tests", true)?;
        }
        for (name, from) in needed {
            let to = if name.starts_with('/') {
                name.trim_start_matches('/').to_owned()
            } else {
                format!("{LIBRARIES}/{name}")
            };
            image
                .copy(&from, &to, 0o755)
                .with_context(|| format!("putting {} into the image", from.display()))?;
        }
        image
            .finish()
            .and_then(|mut file| file.flush())
            .with_context(writing)?;
        Ok(place)
    }

    /// The first process. What it says on the second serial line is read by [`super::verdict`].
    fn script(&self) -> String {
        let work = if let Some(tests) = self.tests {
            self.run_tests(tests)
        } else {
            let words: Vec<String> = self.command.iter().map(|word| quote(word)).collect();
            format!("timeout -k 5 {FILE_TIMEOUT} {}\n", words.join(" "))
        };
        format!(
            "#!/bin/sh\n\
             export PATH=/bin HOME=/root TMPDIR=/tmp LD_LIBRARY_PATH=/{LIBRARIES} RUST_BACKTRACE=0\n\
             export DRIFT_AGENT=/bin/drift-agent DRIFT_SKIPS=/skips\n\
             mount -t proc none /proc && mount -t sysfs none /sys && mount -t devtmpfs none /dev && mount -t tmpfs none /tmp\n\
             mount -t cgroup2 none /sys/fs/cgroup\n\
             mount -t securityfs none /sys/kernel/security\n\
             for module in /modules/*; do insmod $module; done\n\
             exec </dev/null >/dev/{line} 2>&1\n\
             {work}\
             sleep 0.2\n\
             echo b >/proc/sysrq-trigger\n",
            line = boot::Board::of(self.architecture).lines[1],
        )
    }

    fn run_tests(&self, tests: &Tests) -> String {
        // A file's tests are those of its module; libtest runs what has any of the names that it is given, so a name asked for stands for itself.
        let runs: Vec<String> = match self.filter {
            Some(filter) => vec![quote(OsStr::new(filter))],
            None => tests.tier.iter().map(|file| format!("{file}::")).collect(),
        };
        format!(
            "echo \"@@ kernel $(cat /proc/sys/kernel/osrelease)\"\n\
             for sensor in {sensors}; do\n\
             if ! drift-agent probe --sensor $sensor >/probe; then\n\
             echo \"@@ unsupported $sensor $(sed -n 's/^no probes *//p' /probe)\"\n\
             continue\n\
             fi\n\
             for run in {runs}; do\n\
             name=${{run%%::*}}\n\
             echo \"@@ begin $sensor $name\"\n\
             : >/skips\n\
             DRIFT_TEST_SENSOR=$sensor timeout -k 5 {FILE_TIMEOUT} tests --test-threads 1 \"$run\"\n\
             status=$?\n\
             while read -r line; do echo \"@@ skip $line\"; done </skips\n\
             echo \"@@ end $sensor $name $status\"\n\
             done\n\
             done\n\
             echo '@@ done'\n",
            sensors = self.sensors.join(" "),
            runs = runs.join(" "),
        )
    }
}

/// The shared part and this kernel's modules, one archive behind the other.
pub(super) fn with_modules(base: &Path, kernel: &Kernel, folder: &Path) -> Result<PathBuf> {
    let place = folder.join(format!("image-{}.cpio", kernel.name));
    let writing = || format!("writing {}", place.display());
    fs::copy(base, &place).with_context(writing)?;
    let file = File::options()
        .append(true)
        .open(&place)
        .with_context(writing)?;
    let mut image = Image::new(BufWriter::new(file));
    for (index, module) in kernel.modules.iter().enumerate() {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        image
            .copy(module, &format!("modules/{index:02}-{name}"), 0o644)
            .with_context(|| format!("putting {} into the image", module.display()))?;
    }
    image
        .finish()
        .and_then(|mut file| file.flush())
        .with_context(writing)?;
    Ok(place)
}

/// Without its symbols, which are nine tenths of it.
fn stripped(program: &Path, folder: &Path, tools: &Tools) -> Result<PathBuf> {
    let place = folder.join("stripped");
    Step::new("take the symbols out of a program", tools.strip())
        .arg("--strip-all")
        .arg("-o")
        .args([&place, program])
        .read()?;
    Ok(place)
}
