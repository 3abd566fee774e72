//! The end of every call that names what it changes: one program for all of them.

use aya_ebpf::{macros::tracepoint, programs::TracePointContext};
use drift_common::abi::{Kind, Level, SWEEP_SLOT};

use crate::{
    actor,
    call::{Call, Named},
    emit::{self, Change, NO_KEY},
    fault::{Fault, finish},
    kernel::returned,
    path::{self, Found},
};

/// `sys_exit` of the calls that [`Call::enter`] remembers.
#[tracepoint]
pub fn call_exit(ctx: TracePointContext) -> u32 {
    let Some(call) = Call::leave() else {
        return 0;
    };
    if returned(&ctx) < 0 || actor::is_agent() {
        return 0;
    }
    finish(try_named(&call.first, call.kind));
    finish(try_named(&call.second, call.kind))
}

#[inline(always)]
fn try_named(named: &Named, kind: Kind) -> Result<(), Fault> {
    if named.used == 0 {
        return Ok(());
    }
    let mut change = Change {
        slot: SWEEP_SLOT,
        kind,
        level: Level::Done,
        key: NO_KEY,
        writers: 0,
        parent_name: 0,
    };
    match path::find(named)? {
        Found::Object { slot, key } => {
            change.slot = slot;
            if let Some(key) = key {
                change.key = key;
            }
        }
        Found::Anywhere { slot, parent_name } => {
            change.slot = slot;
            change.parent_name = parent_name;
        }
        // Names are exact for what a call puts or takes away under them. An attribute is changed on what the name leads to: through a symbolic link,
        // or on another name of the same inode.
        // That it has other attributes is nothing to its directory.
        Found::Inside { slot, parent_name } => match kind {
            Kind::Attr => {}
            _ => {
                change.slot = slot;
                change.parent_name = parent_name;
            }
        },
        Found::Nobody => match kind {
            Kind::Attr if named.path != 0 => {}
            _ => return Ok(()),
        },
    }
    emit::change(&change);
    Ok(())
}
