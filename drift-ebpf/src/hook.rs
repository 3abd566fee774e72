//! The hooks, one file for each kind of change. Each is a thin `fn x(ctx)` over a `try_x` whose error is counted.
//!
//! Which tracepoint each program is attached to is listed once, on the agent's side (`drift-agent/src/probe/hook.rs`): several system calls with the
//! same arguments share one program.

#![expect(
    clippy::needless_pass_by_value,
    reason = "aya's macros hand the context over by value"
)]

mod attr;
mod call;
mod create;
mod mount;
mod open;
mod read;
mod remove;
mod replace;
mod uring;
mod write;
