//! One boot, from the image to what the guest said. Bounded: a guest that hangs is ended.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use super::{guest, kernel::Kernel, tools::Tools};
use crate::architecture::Architecture;

/// Processor time for all of one guest: it means the same however many others want the processor.
const MOST_WORK: Duration = Duration::from_secs(2400);
/// A guest that hangs idle uses none.
const TIMEOUT: Duration = Duration::from_secs(7200);
/// Between two looks at QEMU.
const PAUSE: Duration = Duration::from_millis(100);

/// All security modules that a distribution may have switched on. A panic ends the guest. What guards a processor against its own guesses only
/// costs instructions where none guesses.
const COMMAND_LINE: &str =
    "quiet panic=-1 lsm=lockdown,capability,landlock,yama,bpf mitigations=off";

/// The machine that QEMU is to be.
#[derive(Debug)]
pub(super) struct Board {
    machine: &'static str,
    processor: &'static str,
    /// What its kernels are told besides.
    command_line: &'static str,
    /// The serial lines, as its kernels call them: the console, and what the script says.
    pub(super) lines: [&'static str; 2],
}

impl Board {
    pub(super) fn of(architecture: Architecture) -> Board {
        match architecture {
            Architecture::Amd64 => Board {
                machine: "pc",
                // All that QEMU can do, but for fast string instructions: where instructions are counted it leaves its translated code after
                // each byte of one, and a kernel that finds them clears and copies memory with nothing else.
                processor: "max,-erms,-fsrm",
                // A kernel that is not let run for a while must not take its timer for broken. 112 is `rep_good` (see above).
                command_line: "no_timer_check clearcpuid=112",
                lines: ["ttyS0", "ttyS1"],
            },
            Architecture::Arm64 => Board {
                machine: "virt",
                // Pointers are signed by the means that costs QEMU least.
                processor: "max,pauth-impdef=on",
                command_line: "",
                lines: ["ttyAMA0", "ttyAMA1"],
            },
        }
    }

    fn command_line(&self) -> String {
        format!(
            "console={} {COMMAND_LINE} {}",
            self.lines[0], self.command_line
        )
    }
}

/// What came out of a guest.
#[derive(Debug)]
pub(super) struct Said {
    /// The second serial line: what the script said.
    pub(super) tests: String,
    /// The end of the first: the kernel's own words.
    pub(super) console: String,
    /// It did not end by itself.
    pub(super) ended_by_us: bool,
    /// Processor time that it took.
    pub(super) worked: Duration,
}

/// QEMU is ended with its value, whatever becomes of this program's plans.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            // What cannot be ended is gone already.
            let _gone = self.0.kill();
            let _gone = self.0.wait();
        }
    }
}

/// Boots a kernel, waits for its end, and gives what it said.
pub(super) fn boot(
    tools: &Tools,
    kernel: &Kernel,
    base: &Path,
    folder: &Path,
    logs: &Path,
) -> Result<Said> {
    let image = guest::with_modules(base, kernel, folder)?;
    let log = |what: &str| logs.join(format!("{}.{what}", kernel.name));
    let (tests, console) = (log("tests"), log("console"));
    for file in [&tests, &console] {
        fs::write(file, "").with_context(|| format!("making {}", file.display()))?;
    }
    // Processor time of others counts more: a guest's is never in a hurry.
    let board = Board::of(kernel.architecture);
    let mut command = Command::new("nice");
    command
        .args(["-n", "10"])
        .arg(tools.qemu())
        .args([
            "-machine",
            board.machine,
            "-accel",
            "tcg",
            "-cpu",
            board.processor,
        ])
        .args(["-smp", "1", "-m", "1536"])
        // The guest's time goes by instructions, one a nanosecond, and jumps ahead while it idles: deadlines mean the same however busy
        // this machine is.
        .args(["-icount", "shift=0,sleep=off"])
        .args(["-nodefaults", "-no-user-config", "-no-reboot"])
        .args(["-display", "none"]);
    for place in tools.firmware() {
        command.arg("-L").arg(place);
    }
    command
        .arg("-kernel")
        .arg(&kernel.image)
        .arg("-initrd")
        .arg(&image)
        .args(["-append", board.command_line().trim()])
        .arg("-serial")
        .arg(format!("file:{}", console.display()))
        .arg("-serial")
        .arg(format!("file:{}", tests.display()))
        .env("LD_LIBRARY_PATH", tools.libraries())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let mut machine = Machine(command.spawn().context("starting QEMU (by way of nice)")?);
    let end = Instant::now() + TIMEOUT;
    let mut ended_by_us = true;
    let mut work = Duration::ZERO;
    while Instant::now() < end {
        if let Some(status) = machine.0.try_wait().context("waiting for QEMU")? {
            anyhow::ensure!(status.success(), "QEMU ended with {status}");
            ended_by_us = false;
            break;
        }
        work = worked(machine.0.id()).unwrap_or(work).max(work);
        if work > MOST_WORK {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    drop(machine);
    let read = |file: &Path| -> Result<String> {
        let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    Ok(Said {
        tests: read(&tests)?,
        console: read(&console)?,
        ended_by_us,
        worked: work,
    })
}

/// Processor time that a process has used, with all its threads; `None`: it is gone.
fn worked(pid: u32) -> Option<Duration> {
    worked_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// From a line of proc_pid_stat(5): ticks in user space and in the kernel, a hundredth of a second each to every program.
fn worked_in(stat: &str) -> Option<Duration> {
    // What stands before the last bracket is the program's name, whatever that may be.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_millis((ticks()? + ticks()?) * 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_a_guest_has_used_is_read_whatever_its_programs_name_is() {
        let stat = "7 (qemu) (x 1) S 1 7 7 0 -1 4194560 9 0 0 0 1250 50 3 4 30 10 5 0 100\n";
        assert_eq!(worked_in(stat), Some(Duration::from_secs(13)));
        assert_eq!(worked_in("7 (qemu) S 1"), None);
        assert!(worked(std::process::id()).is_some());
    }
}
