//! What the kernel's type information says of all that the kernel half reads.

use drift_common::abi::{ABSENT, Offsets};

use super::{
    btf::{Btf, BtfError, joined},
    offsets,
    signatures::{self, Known},
};

/// Reads BTF as the running kernel gives it, and that of the module that has overlays, where there is one. A member that cannot be told is an error: nothing is loaded
/// then. A function that cannot be told is one that no program is attached to; where the module's cannot be understood, overlays are seen as without it.
pub fn layout(kernel: &[u8], overlay: Option<&[u8]>) -> Result<(Offsets, Known), BtfError> {
    let btf = Btf::parse(kernel)?;
    let mut offsets = offsets::resolve(&btf)?;
    let known = signatures::resolve(&btf);
    drop(btf);
    if let Some(module) = overlay.filter(|_| offsets.overlay_inode == ABSENT) {
        let found = joined(kernel, module).and_then(|whole| {
            let whole = Btf::parse(&whole)?;
            offsets::overlay(&whole)
        });
        match found {
            Ok((inode, upper)) => {
                offsets.overlay_inode = inode;
                offsets.overlay_upper = upper;
            }
            Err(error) => log::debug!("the module overlay: {error}"),
        }
    }
    Ok((offsets, known))
}
