//! What both halves of drift agree on.
//!
//! * [`abi`] — the bytes that cross the border between the kernel programs and the agent (`no_std`).
//! * [`escape`] — text of others, made safe to show (needs the `std` feature).
//! * [`yaml`] — YAML text as events, bounded (needs the `std` feature).
//! * [`policy`] — the language of policies: model, parser, validation (needs the `std` feature).

#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

pub mod abi;
#[cfg(feature = "std")]
pub mod escape;
#[cfg(feature = "std")]
pub mod policy;
#[cfg(feature = "std")]
pub mod yaml;
