//! The end of every call that names what it changes: one program for all of them.

use aya_ebpf::{macros::tracepoint, programs::TracePointContext};
use drift_common::abi::{Kind, Level, SWEEP_SLOT};

use crate::{
    actor,
    call::{Call, Named, SOURCE},
    emit::{self, Change},
    fault::{Fault, finish},
    kernel::returned,
    path::{self, How},
};

/// `sys_exit` of the calls that [`Call::enter`] remembers.
#[tracepoint]
pub fn call_exit(ctx: TracePointContext) -> u32 {
    let Some(call) = Call::leave() else {
        return 0;
    };
    if returned(&ctx) < 0 || actor::is_ours() {
        return 0;
    }
    if call.kind as u32 == Kind::Mount as u32 {
        emit::mount();
        return 0;
    }
    finish(call.kind, try_named(&call.first, call.kind));
    finish(call.kind, try_named(&call.second, call.kind))
}

#[inline(always)]
fn try_named(named: &Named, kind: Kind) -> Result<(), Fault> {
    if named.used == 0 {
        return Ok(());
    }
    let found = path::find(named)?;
    let is_source = named.used == SOURCE;
    let kind = if is_source { Kind::Attr } else { kind };
    // Names are exact for what a call puts or takes away under them. An attribute is changed on what the name leads to: through a symbolic link, or on
    // another name of the same inode. Then a sweep is asked for.
    let slot = match (found.how, kind) {
        // Whoever links files that nobody declared asks for no sweep: another name of a declared file has told of itself when it was made.
        (How::Nobody | How::Inside, _) if is_source => return Ok(()),
        // That it has other attributes is nothing to its directory.
        (How::Inside, Kind::Attr) => SWEEP_SLOT,
        (How::Inside, Kind::Times) => return Ok(()),
        (How::Nobody, Kind::Attr) if named.path != 0 => SWEEP_SLOT,
        (How::Nobody, _) => return Ok(()),
        (How::Object | How::Anywhere | How::Inside, _) => found.slot,
    };
    emit::change(&Change {
        slot,
        kind,
        level: Level::Done,
        key: found.key,
        writers: 0,
        parent_name: if slot == SWEEP_SLOT {
            0
        } else {
            found.parent_name
        },
    });
    Ok(())
}
