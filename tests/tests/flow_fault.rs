//! A change of versions in which a system call fails, once or for good: it says so, and has happened or has not.

use anyhow::{Context, Result, ensure};
use drift_tests::{
    agent::is_built,
    skip::skip,
    sweep::{Call, Change, Ground, has_strace, points},
};

/// The calls that read or change files.
const CALLS: &str = "openat,openat2,read,pread64,write,pwrite64,fsync,fdatasync,syncfs,ftruncate,renameat,renameat2,unlinkat,linkat,symlinkat,mkdirat,mkdir,fchmod,fchown,fchownat,statx,newfstatat,fstat,flock,getdents64,flistxattr";

/// Faults of each kind, where not every call is tried.
const FEW: usize = 3;

const ERRORS: [&str; 6] = ["EIO", "ENOSPC", "EINTR", "EDQUOT", "EROFS", "EMFILE"];

#[test]
fn a_call_that_fails_is_said_and_the_change_is_whole_or_not_at_all() -> Result<()> {
    let test = "a_call_that_fails_is_said_and_the_change_is_whole_or_not_at_all";
    if !is_built(test) || !has_strace(test) {
        return Ok(());
    }
    // A call that is interrupted for good is tried for ever, and the numbers of calls differ from run to run since policies are read by several threads.
    if std::env::var_os("DRIFT_SWEEP").is_none() {
        skip(test, "a long sweep: `cargo xtask sweep fault` runs it");
        return Ok(());
    }
    for change in [Change::Activate, Change::Rollback] {
        let ground = Ground::new(change)?;
        let (before, after) = change.versions();
        let all = ground.calls(CALLS)?;
        let (mut faults, mut failed) = (0, 0);
        for (index, error) in ERRORS.iter().enumerate() {
            for (often, for_good) in [("", false), ("+", true)] {
                // Each error at other points, where not all are tried.
                for Call { name, number } in points(&all, FEW, 2 * index + usize::from(for_good)) {
                    let ended = ground.change(&format!(
                        "trace={name} inject={name}:error={error}:when={number}{often}"
                    ))?;
                    let what = || {
                        let said = ended.said();
                        format!("{change:?}, {error} at {name} number {number}{often}: {said}")
                    };
                    let status = ended.output.status.code().with_context(what)?;
                    // 127: the loader found no library. Everything else ends with a status of its own, and a sentence.
                    ensure!([0, 1, 10, 127].contains(&status), "{}", what());
                    // Where nothing can be written any more, nothing can be said.
                    let is_mute = for_good && name == "write";
                    let is_said = is_mute || !ended.output.stderr.is_empty();
                    ensure!(status == 0 || is_said, "{}", what());
                    let version = ground.version().with_context(what)?;
                    ensure!(
                        status != 0 || version == Some(after),
                        "a false success: {}",
                        what()
                    );
                    let (recovered, _) = ground.recovered().with_context(what)?;
                    ensure!([before, after].contains(&recovered), "{}", what());
                    ensure!(
                        status != 0 || recovered == after,
                        "a false success: {}",
                        what()
                    );
                    faults += 1;
                    failed += usize::from(status != 0);
                }
            }
        }
        eprintln!(
            "{change:?}: {faults} faults, {failed} of them ended it; false successes 0, mixed 0, left over 0"
        );
    }
    Ok(())
}
