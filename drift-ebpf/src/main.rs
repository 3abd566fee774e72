//! drift's kernel programs: a table of contents.
//!
//! A hook sees one kind of change, [`key`] and [`path`] find out which object it was, [`filter`] says whether anybody declared it, and
//! [`emit`] marks it dirty and rings. Nothing here decides anything: the agent reads the object itself.

#![cfg_attr(target_arch = "bpf", no_std, no_main, feature(asm_experimental_arch))]

mod actor;
mod call;
mod emit;
mod fault;
mod filter;
mod hook;
mod kernel;
mod key;
mod map;
mod path;
mod traced;

/// On the host the crate is only checked: by editors, and by clippy.
#[cfg(not(target_arch = "bpf"))]
fn main() {
    eprintln!("these are kernel programs: `cargo xtask build` builds them into drift-agent");
}

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    // The verifier proves that no path leads here.
    loop {}
}

/// Some helpers are open to GPL-compatible programs only; the crate is GPL-2.0 OR MIT.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
