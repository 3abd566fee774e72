//! Embeds the kernel programs where `cargo xtask build` has left them; without them the agent still builds, and says so when it is run.

use std::{env, path::PathBuf};

fn main() {
    println!("cargo::rustc-check-cfg=cfg(drift_probes)");
    println!("cargo::rerun-if-env-changed=DRIFT_PROBES");
    let Some(probes) = env::var_os("DRIFT_PROBES").map(PathBuf::from) else {
        return;
    };
    println!("cargo::rerun-if-changed={}", probes.display());
    if probes.is_file() {
        println!("cargo::rustc-cfg=drift_probes");
        println!("cargo::rustc-env=DRIFT_PROBES={}", probes.display());
    }
}
