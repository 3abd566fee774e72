use std::{fs, path::Path};

use super::*;
use tempfile::TempDir;

mod blobs;
mod crash;
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
