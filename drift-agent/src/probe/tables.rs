//! What the kernel tables take of the kernel's memory, as it accounts for it itself.

use std::{
    fs, io,
    os::fd::{AsFd, AsRawFd},
};

use aya::{
    Ebpf,
    maps::{Map, MapData},
};

/// Bytes, of all tables and rings together.
pub(super) fn bytes(ebpf: &Ebpf) -> io::Result<u64> {
    ebpf.maps().map(|(name, map)| of(name, map)).sum()
}

fn of(name: &str, map: &Map) -> io::Result<u64> {
    let data =
        data(map).ok_or_else(|| io::Error::other(format!("`{name}` is of no known kind")))?;
    let place = format!("/proc/self/fdinfo/{}", data.fd().as_fd().as_raw_fd());
    locked(&fs::read_to_string(&place)?)
        .ok_or_else(|| io::Error::other(format!("{place} does not say what `{name}` takes")))
}

/// The kinds that map.rs in drift-ebpf has, and the one its log has.
const fn data(map: &Map) -> Option<&MapData> {
    match map {
        Map::Array(data)
        | Map::HashMap(data)
        | Map::LruHashMap(data)
        | Map::PerCpuArray(data)
        | Map::PerfEventArray(data)
        | Map::RingBuf(data) => Some(data),
        _ => None,
    }
}

/// From the line that begins with `memlock:`.
fn locked(info: &str) -> Option<u64> {
    let mut lines = info.lines();
    let said = lines.find_map(|line| line.strip_prefix("memlock:"))?;
    said.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_table_takes_is_read_from_its_descriptor() {
        let info = "pos:\t0\nflags:\t02000002\nmap_type:\t2\nkey_size:\t4\nmax_entries:\t1\nmemlock:\t4096\nmap_id:\t7\n";
        assert_eq!(locked(info), Some(4096));
        assert_eq!(locked("pos:\t0\nflags:\t02\n"), None);
    }
}
