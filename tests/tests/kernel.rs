//! The kernel tier: the kernel programs on this kernel, and in the guests of `cargo xtask vmtest`.

mod kernel_alias;
mod kernel_cost;
mod kernel_filesystems;
mod kernel_held;
mod kernel_holders;
mod kernel_kinds;
mod kernel_loss;
mod kernel_mounts;
mod kernel_probe;
mod kernel_quiet;
mod kernel_selftest;
