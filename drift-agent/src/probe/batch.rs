//! A whole kernel table in a few system calls (`BPF_MAP_LOOKUP_BATCH`, since 5.6): one call for each entry would take a core's time on a large table.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

/// Entries asked for at once.
const CHUNK: usize = 4096;

/// `enum bpf_cmd` in `linux/bpf.h`.
const BPF_MAP_LOOKUP_BATCH: libc::c_long = 24;

/// The part of `union bpf_attr` that the command reads: `batch` in `linux/bpf.h`.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    element_flags: u64,
    flags: u64,
}

const _: () = assert!(size_of::<Attributes>() == 56);

/// All entries of a hash or array map whose keys and values have these sizes. What changes meanwhile may be among them or not.
pub(super) fn entries<const K: usize, const V: usize>(
    map: BorrowedFd<'_>,
) -> io::Result<Vec<([u8; K], [u8; V])>> {
    let mut all = Vec::new();
    let mut room = CHUNK;
    let (mut keys, mut values) = (vec![[0; K]; room], vec![[0; V]; room]);
    // Where the next call goes on: opaque, four bytes for the maps there are here.
    let mut from = [0u8; 8];
    let mut is_first = true;
    loop {
        let mut next = [0u8; 8];
        let mut attributes = Attributes {
            in_batch: if is_first { 0 } else { from.as_ptr() as u64 },
            out_batch: next.as_mut_ptr() as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: room as u32,
            map_fd: map.as_raw_fd() as u32,
            ..Attributes::default()
        };
        // SAFETY: `attributes` has the layout and the size that is given. The kernel writes at most `count` keys and values, for which both vectors have room
        // (callers give the sizes that the map was made with), and at most four bytes to `out_batch`; all of them outlive the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                BPF_MAP_LOOKUP_BATCH,
                &raw mut attributes,
                size_of::<Attributes>(),
            )
        };
        let error = (result < 0).then(io::Error::last_os_error);
        let code = error.as_ref().and_then(io::Error::raw_os_error);
        match code {
            None | Some(libc::ENOENT) => {
                let found = (attributes.count as usize).min(room);
                all.extend(
                    keys[..found]
                        .iter()
                        .copied()
                        .zip(values[..found].iter().copied()),
                );
            }
            // One bucket of a hash map has more than that.
            Some(libc::ENOSPC) => {
                room *= 2;
                keys.resize(room, [0; K]);
                values.resize(room, [0; V]);
                continue;
            }
            Some(libc::EINTR) => continue,
            Some(_) => {}
        }
        match error {
            None => {
                from = next;
                is_first = false;
            }
            // The end of the table.
            Some(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(all),
            Some(error) => return Err(error),
        }
    }
}
