//! What this machine is and what this process may do on it.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// The first executable file called `program` on the `PATH`.
pub(crate) fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| is_executable(file))
}

pub(crate) fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// `CI=true`, as continuous integration sets it.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true" || value == "1")
}

/// Whether this process may load kernel programs and the kernel can say where its fields are. The agent finds out for itself, by loading one;
/// this only tells whether falling back to scans would be a defect.
pub(crate) fn expects_probes() -> bool {
    Path::new("/sys/kernel/btf/vmlinux").exists()
        && fs::read_to_string("/proc/self/status")
            .is_ok_and(|status| may_load_probes(&status).unwrap_or(false))
}

/// From `/proc/self/status`: CAP_SYS_ADMIN, or both CAP_BPF and CAP_PERFMON, are in effect.
fn may_load_probes(status: &str) -> Option<bool> {
    const SYS_ADMIN: u64 = 1 << 21;
    const PERFMON_AND_BPF: u64 = 1 << 38 | 1 << 39;
    let hex = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    let effective = u64::from_str_radix(hex.trim(), 16).ok()?;
    Some(effective & SYS_ADMIN != 0 || effective & PERFMON_AND_BPF == PERFMON_AND_BPF)
}

/// Where built tools are kept: the user's cache folder, which outlives `cargo clean`; `target` where there is none.
pub(crate) fn tools_folder(target: &Path) -> PathBuf {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map_or_else(
            || target.join("tools"),
            |cache| cache.join("drift").join("tools"),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_from_the_status() {
        let of = |hex: &str| may_load_probes(&format!("Name:\tx\nCapEff:\t{hex}\nSeccomp:\t0\n"));
        assert_eq!(of("000001ffffffffff"), Some(true));
        assert_eq!(of("0000000000200000"), Some(true));
        assert_eq!(of("000000c000000000"), Some(true));
        assert_eq!(of("0000008000000000"), Some(false), "CAP_BPF alone");
        assert_eq!(of("0000000000000000"), Some(false));
        assert_eq!(may_load_probes("Name:\tx\n"), None);
    }

    #[test]
    fn only_executable_files_are_found() {
        assert!(which("sh").is_some());
        assert_eq!(which("no-such-program-anywhere"), None);
        assert!(!is_executable(Path::new("/etc/passwd")));
        assert!(!is_executable(Path::new("/")));
    }
}
