//! bpf-linker: finds one that is new enough for a compiler, or builds one against the system's LLVM.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::{machine, step::Step};

const VERSION: &str = "0.13.0";
/// The LLVMs that this version of bpf-linker has a feature for.
const LLVMS: std::ops::RangeInclusive<u32> = 21..=23;

/// A bpf-linker on the `PATH` for bitcode of this LLVM, or what is wrong.
pub(super) fn on_path(llvm: u32) -> Result<PathBuf, String> {
    let path = machine::which("bpf-linker").ok_or("bpf-linker is not on the PATH")?;
    match linked_llvm(&path) {
        Some(own) if own < llvm => Err(format!(
            "{} is built with LLVM {own}, older than the compiler's {llvm}",
            path.display()
        )),
        Some(_) | None => Ok(path),
    }
}

/// One that `install` has built for this LLVM, or one on the `PATH`.
pub(super) fn find(tools: &Path, llvm: u32) -> Result<PathBuf, String> {
    let kept = kept_in(tools, llvm).join("bin/bpf-linker");
    if machine::is_executable(&kept) {
        Ok(kept)
    } else {
        on_path(llvm)
    }
}

fn kept_in(tools: &Path, llvm: u32) -> PathBuf {
    tools.join(format!("bpf-linker-{VERSION}-llvm-{llvm}"))
}

/// The LLVM that the linker loads when it starts; `None` when it is linked in.
fn linked_llvm(linker: &Path) -> Option<u32> {
    llvm_named_in(&fs::read(linker).ok()?)
}

/// The number in `libLLVM.so.22.1` (or `libLLVM-22.so`), as it stands among the names of an executable's libraries.
fn llvm_named_in(binary: &[u8]) -> Option<u32> {
    let number_after = |name: &[u8]| {
        let found = binary
            .windows(name.len())
            .position(|window| window == name)?;
        let digits: String = binary[found + name.len()..]
            .iter()
            .map(|byte| char::from(*byte))
            .take_while(char::is_ascii_digit)
            .collect();
        digits.parse().ok()
    };
    number_after(b"libLLVM.so.").or_else(|| number_after(b"libLLVM-"))
}

/// Debian's packages that building it takes.
pub(super) fn packages(llvm: u32) -> [String; 4] {
    [
        format!("llvm-{llvm}-dev"),
        format!("libpolly-{llvm}-dev"),
        "libzstd-dev".to_owned(),
        "zlib1g-dev".to_owned(),
    ]
}

/// The command that builds it, keyed by its version and its LLVM so that a newer compiler gets a newer linker.
pub(super) fn install_step(tools: &Path, llvm: u32) -> Result<Step, String> {
    if !LLVMS.contains(&llvm) {
        return Err(format!(
            "bpf-linker {VERSION} knows LLVM {} to {}, and the system's Rust is built with {llvm}",
            LLVMS.start(),
            LLVMS.end()
        ));
    }
    let prefix = format!("/usr/lib/llvm-{llvm}");
    Ok(Step::cargo(format!(
        "build bpf-linker {VERSION} with LLVM {llvm} (a minute)"
    ))
    .args(["install", "--locked", "bpf-linker", "--version", VERSION])
    .args(["--no-default-features", "--features"])
    .arg(format!("llvm-{llvm}"))
    .arg("--root")
    .arg(kept_in(tools, llvm))
    .env("LLVM_PREFIX", &prefix)
    // llvm-sys names its variable after its own version: 221 for LLVM 22.
    .env(&format!("LLVM_SYS_{llvm}1_PREFIX"), &prefix)
    .env_remove("CARGO_TARGET_DIR")
    .env_remove("RUSTFLAGS"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linkers_llvm_is_read_from_its_libraries() {
        assert_eq!(llvm_named_in(b"\0libc.so.6\0libLLVM.so.22.1\0"), Some(22));
        assert_eq!(llvm_named_in(b"\0libLLVM-19.so.1\0"), Some(19));
        assert_eq!(llvm_named_in(b"\0libc.so.6\0"), None);
        assert_eq!(llvm_named_in(b"libLLVM.so."), None);
    }

    #[test]
    fn an_llvm_that_the_linker_has_no_feature_for_is_refused_in_words() {
        assert!(install_step(Path::new("/t"), 22).is_ok());
        let refused = install_step(Path::new("/t"), 30).unwrap_err();
        assert!(refused.contains("21 to 23"), "{refused}");
    }
}
