//! What a compiler says about itself.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::{step::Step, workspace};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rustc {
    /// Its first line: `rustc 1.96.0 (ac68faa20 2026-05-25)`.
    pub(super) version: String,
    pub(super) release: (u32, u32),
    /// Major version of its LLVM.
    pub(super) llvm: u32,
    pub(super) sysroot: PathBuf,
}

impl Rustc {
    /// Asks the compiler; `ask` makes the step that runs it, without arguments yet.
    pub(super) fn ask(ask: impl Fn() -> Step) -> Result<Rustc> {
        let about = ask().arg("-vV").read()?;
        let sysroot = ask().args(["--print", "sysroot"]).read()?;
        Rustc::from_answers(&about, &sysroot)
            .with_context(|| format!("`rustc -vV` did not answer as expected: {}", about.trim()))
    }

    fn from_answers(about: &str, sysroot: &str) -> Option<Rustc> {
        let field = |name: &str| {
            about
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        };
        Some(Rustc {
            version: about.lines().next()?.trim().to_owned(),
            release: workspace::release(field("release")?)?,
            llvm: field("LLVM version")?.split('.').next()?.parse().ok()?,
            sysroot: sysroot.trim().into(),
        })
    }

    /// The sources of its own standard library, which rustup lists as a component even where the folder is gone.
    pub(super) fn core_sources(&self) -> PathBuf {
        self.sysroot.join("lib/rustlib/src/rust/library/core")
    }

    pub(super) fn has_core_sources(&self) -> bool {
        has_sources(&self.core_sources())
    }
}

fn has_sources(core: &Path) -> bool {
    core.join("Cargo.toml").is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_is_known_by_its_answers() {
        let about = "rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)\nbinary: rustc\n\
                     host: x86_64-unknown-linux-gnu\nrelease: 1.96.0\nLLVM version: 22.1.8\n";
        let rustc = Rustc::from_answers(about, "/usr\n").unwrap();
        assert_eq!((rustc.release, rustc.llvm), ((1, 96), 22));
        assert_eq!(
            rustc.core_sources(),
            Path::new("/usr/lib/rustlib/src/rust/library/core")
        );
        assert!(rustc.version.starts_with("rustc 1.96.0 (ac68faa20"));
        assert_eq!(Rustc::from_answers("rustc 1.96.0\n", "/usr"), None);
    }
}
