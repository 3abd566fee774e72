//! What the kernel's type information says of all that the kernel half reads.

use drift_common::abi::Offsets;

use super::{
    btf::{Btf, BtfError},
    offsets,
    signatures::{self, Known},
};

/// Reads BTF as the running kernel gives it. A member that cannot be told is an error: nothing is loaded then. A function that cannot be told is one that no
/// program is attached to.
pub fn layout(bytes: &[u8]) -> Result<(Offsets, Known), BtfError> {
    let btf = Btf::parse(bytes)?;
    Ok((offsets::resolve(&btf)?, signatures::resolve(&btf)))
}
