//! A kernel table beside what the agent has put into it: whoever may load programs may change the table too.

use std::{
    collections, fmt,
    os::fd::{AsFd, OwnedFd},
};

use aya::maps::{Array, HashMap, Map, MapData, MapError};

use drift_common::abi::{MAYBE_WORDS, maybe_bit};

use super::batch;

/// A hash map that only the agent writes.
pub(super) struct Mirror<const K: usize> {
    name: &'static str,
    map: HashMap<MapData, [u8; K], u32>,
    /// The same table, for calls that aya does not have.
    fd: OwnedFd,
    own: collections::HashMap<[u8; K], u32>,
}

/// A table that holds something else than the agent has put into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tampered {
    pub table: &'static str,
    /// Entries that are gone, have another value, or were put in by somebody else.
    pub missing: usize,
    pub changed: usize,
    pub foreign: usize,
}

impl fmt::Display for Tampered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tampered {
            table,
            missing,
            changed,
            foreign,
        } = self;
        write!(
            f,
            "{table}: {missing} entries gone, {changed} changed, {foreign} of somebody else"
        )
    }
}

impl<const K: usize> Mirror<K> {
    pub(super) fn new(name: &'static str, map: Map) -> Result<Self, MapError> {
        let fd = match &map {
            Map::HashMap(data) => data.fd().as_fd().try_clone_to_owned()?,
            _ => return Err(MapError::InvalidMapType { map_type: 0 }),
        };
        Ok(Mirror {
            name,
            map: HashMap::try_from(map)?,
            fd,
            own: collections::HashMap::new(),
        })
    }

    pub(super) fn insert(&mut self, key: [u8; K], value: u32) -> Result<(), MapError> {
        self.map.insert(key, value, 0)?;
        self.own.insert(key, value);
        Ok(())
    }

    /// Removing what is not there is no error: another thread, or an earlier declaration, has done it.
    pub(super) fn remove(&mut self, key: &[u8; K]) -> Result<(), MapError> {
        self.own.remove(key);
        super::watch::gone(self.map.remove(key))
    }

    /// What is not as the agent has put it there.
    pub(super) fn tampered(&self) -> Result<Option<Tampered>, MapError> {
        let there = batch::entries::<K, 4>(self.fd.as_fd())?;
        Ok(compare(
            self.name,
            &self.own,
            there
                .iter()
                .map(|(key, value)| (key, u32::from_ne_bytes(*value))),
        ))
    }
}

/// The table of bits by inode number, which only the agent writes. Bits are set and stay: one too many costs a look at an inode that nobody declared.
pub(super) struct Bits {
    map: Array<MapData, u64>,
    fd: OwnedFd,
    own: Vec<u64>,
}

impl Bits {
    pub(super) fn new(map: Map) -> Result<Self, MapError> {
        let fd = match &map {
            Map::Array(data) => data.fd().as_fd().try_clone_to_owned()?,
            _ => return Err(MapError::InvalidMapType { map_type: 0 }),
        };
        Ok(Bits {
            map: Array::try_from(map)?,
            fd,
            own: vec![0; MAYBE_WORDS as usize],
        })
    }

    /// From now on an inode with this number is looked at.
    pub(super) fn set(&mut self, ino: u64) -> Result<(), MapError> {
        let (word, bit) = maybe_bit(ino);
        let own = &mut self.own[word as usize];
        if *own & bit == 0 {
            self.map.set(word, *own | bit, 0)?;
            *own |= bit;
        }
        Ok(())
    }

    pub(super) fn tampered(&self) -> Result<Option<Tampered>, MapError> {
        let there = batch::entries::<4, 8>(self.fd.as_fd())?;
        let changed = there.iter().filter(|(word, bits)| {
            let own = self.own.get(u32::from_ne_bytes(*word) as usize);
            own != Some(&u64::from_ne_bytes(*bits))
        });
        let changed = changed.count();
        Ok((changed > 0).then_some(Tampered {
            table: "MAYBE",
            missing: 0,
            changed,
            foreign: 0,
        }))
    }
}

/// A table of one entry, which only the agent writes.
pub(super) struct Single<const N: usize> {
    name: &'static str,
    map: Array<MapData, [u64; N]>,
    own: [u64; N],
}

impl<const N: usize> Single<N> {
    pub(super) fn new(name: &'static str, map: Map) -> Result<Self, MapError> {
        Ok(Single {
            name,
            map: Array::try_from(map)?,
            own: [0; N],
        })
    }

    pub(super) fn set(&mut self, value: [u64; N]) -> Result<(), MapError> {
        if self.own != value {
            self.map.set(0, value, 0)?;
            self.own = value;
        }
        Ok(())
    }

    pub(super) fn tampered(&self) -> Result<Option<Tampered>, MapError> {
        let is_own = self.map.get(&0, 0)? == self.own;
        Ok((!is_own).then_some(Tampered {
            table: self.name,
            missing: 0,
            changed: 1,
            foreign: 0,
        }))
    }
}

fn compare<'a, const K: usize>(
    table: &'static str,
    own: &collections::HashMap<[u8; K], u32>,
    there: impl Iterator<Item = (&'a [u8; K], u32)>,
) -> Option<Tampered> {
    let (mut found, mut changed, mut foreign) = (0, 0, 0);
    for (key, value) in there {
        match own.get(key) {
            Some(expected) => {
                found += 1;
                changed += usize::from(*expected != value);
            }
            None => foreign += 1,
        }
    }
    let tampered = Tampered {
        table,
        missing: own.len().saturating_sub(found),
        changed,
        foreign,
    };
    (tampered.missing + changed + foreign > 0).then_some(tampered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_change_a_table_is_told_apart() {
        let own = collections::HashMap::from([([1], 10), ([2], 20), ([3], 30)]);
        let told = |there: &[([u8; 1], u32)]| {
            compare("t", &own, there.iter().map(|(key, value)| (key, *value)))
                .map(|told| (told.missing, told.changed, told.foreign))
        };
        assert_eq!(told(&[([1], 10), ([2], 20), ([3], 30)]), None);
        assert_eq!(told(&[([1], 10), ([3], 30)]), Some((1, 0, 0)));
        assert_eq!(told(&[([1], 10), ([2], 21), ([3], 30)]), Some((0, 1, 0)));
        assert_eq!(
            told(&[([1], 10), ([2], 20), ([3], 30), ([4], 40)]),
            Some((0, 0, 1))
        );
        assert_eq!(told(&[]), Some((3, 0, 0)));
    }
}
