use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use super::*;
use tempfile::TempDir;

mod blobs;
mod crash;
mod database;
mod history;
mod snapshot;
mod state;

const MIB: u64 = 1 << 20;

fn folder() -> TempDir {
    tempfile::Builder::new()
        .prefix("drift-store-")
        .tempdir()
        .expect("a temporary folder")
}

fn open(dir: &Path) -> Store {
    Store::open(dir, DEFAULT_QUOTA).expect("the store opens")
}

/// Where a blob is.
fn blob_path(dir: &Path, digest: &Hash) -> PathBuf {
    let hex = digest.to_hex();
    dir.join("blobs").join(&hex[..2]).join(&hex[2..])
}

/// Bytes that do not compress.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new()
        .update(&seed.to_le_bytes())
        .finalize_xof()
        .fill(&mut bytes);
    bytes
}

fn seen(policy: &str, version: &str, content: &str) -> Seen {
    Seen {
        policy: policy.to_owned(),
        version: version.to_owned(),
        digest: blake3::hash(content.as_bytes()),
    }
}

fn activation(policy: &str, version: &str, blobs: &[Hash]) -> Activation {
    Activation {
        seen: seen(policy, version, version),
        declaration: None,
        blobs: blobs.iter().map(|digest| *digest.as_bytes()).collect(),
    }
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
}
