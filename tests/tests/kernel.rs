//! The whole kernel tier in one program, for the guests of `cargo xtask vmtest`: ten programs that are the same but for their tests would be most of an image.

mod kernel_alias;
mod kernel_cost;
mod kernel_filesystems;
mod kernel_held;
mod kernel_kinds;
mod kernel_loss;
mod kernel_mounts;
mod kernel_probe;
mod kernel_quiet;
mod kernel_selftest;
