//! Where a struct has a member.

use super::{
    ARRAY, Btf, BtfError, ENUM, ENUM64, FLOAT, INT, MAX_CHAIN, PTR, Result, STRUCT, Type, UNION,
    u32_at,
};

/// Nameless structs and unions in one struct. Any kernel has a few dozen; mangled ones hold themselves, twice.
const MOST_NESTED: usize = 1000;

/// Where a member is, from the start of the outermost struct asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Bytes.
    pub offset: u32,
    /// Type id.
    id: u32,
}

impl Member {
    /// Of its type.
    pub(super) fn id(self) -> u32 {
        self.id
    }
}

impl Btf<'_> {
    /// The member `path` ("f_path.dentry") of the only struct `name`; `size` is what it must have, in bytes.
    pub fn member(&self, name: &str, path: &str, size: u64) -> Result<Member> {
        self.member_of(self.only(name)?, name, path, size)
    }

    /// The only struct of this name.
    fn only(&self, name: &str) -> Result<u32> {
        let ids = self
            .structs
            .get(name.as_bytes())
            .map_or(&[][..], Vec::as_slice);
        let [id] = ids else {
            let name = name.to_owned();
            return Err(if ids.is_empty() {
                BtfError::NoStruct { name }
            } else {
                BtfError::Ambiguous {
                    name,
                    count: ids.len(),
                }
            });
        };
        Ok(*id)
    }

    /// Where a member of the only struct `name` starts, whatever its size: one that is a struct of its own, which is not read as a whole.
    pub fn start(&self, name: &str, path: &str) -> Result<Member> {
        self.start_of(self.only(name)?, name, path)
    }

    /// The same as [`Btf::member`] of the struct with this id; `name` is for what is said.
    pub(super) fn member_of(&self, id: u32, name: &str, path: &str, size: u64) -> Result<Member> {
        let found = self.start_of(id, name, path)?;
        let found_size = self.size(found.id)?;
        if found_size != size {
            return Err(BtfError::Size {
                name: name.to_owned(),
                member: path.to_owned(),
                found: found_size,
                expected: size,
            });
        }
        Ok(found)
    }

    /// All of it lies within the struct with this id.
    fn start_of(&self, id: u32, name: &str, path: &str) -> Result<Member> {
        let mut found = Member { offset: 0, id };
        for part in path.split('.') {
            let in_type = self.plain(found.id)?;
            let mut left = MOST_NESTED;
            let inner = self
                .find(in_type, part.as_bytes(), MAX_CHAIN, &mut left)
                .map_err(|error| error.named(name, path))?
                .ok_or_else(|| BtfError::NoMember {
                    name: name.to_owned(),
                    member: path.to_owned(),
                })?;
            found = Member {
                offset: found
                    .offset
                    .checked_add(inner.offset)
                    .ok_or_else(|| outside(name, path))?,
                id: inner.id,
            };
        }
        if u64::from(found.offset) + self.size(found.id)? > self.size(id)? {
            return Err(outside(name, path));
        }
        Ok(found)
    }

    /// A member by name, looking into nameless structs and unions too.
    /// `deeper`: how far down these may still go; `left`: how many of them may still be looked into.
    fn find(
        &self,
        in_type: &Type,
        name: &[u8],
        deeper: usize,
        left: &mut usize,
    ) -> Result<Option<Member>> {
        if !matches!(in_type.kind, STRUCT | UNION) {
            return Ok(None);
        }
        let (Some(deeper), Some(others)) = (deeper.checked_sub(1), left.checked_sub(1)) else {
            return Err(BtfError::Mangled {
                at: in_type.members,
            });
        };
        *left = others;
        for index in 0..in_type.count {
            let at = in_type.members + 12 * index;
            let member_name = self.string(u32_at(self.type_section, at)?)?;
            let id = u32_at(self.type_section, at + 4)?;
            let position = u32_at(self.type_section, at + 8)?;
            // With the flag, the upper eight bits are the width of a bit field and the lower ones the position in bits.
            let (bits, width) = if in_type.kind_flag {
                (position & 0x00ff_ffff, position >> 24)
            } else {
                (position, 0)
            };
            if member_name == name {
                if width != 0 || bits % 8 != 0 {
                    return Err(BtfError::BitField {
                        name: String::new(),
                        member: String::new(),
                    });
                }
                return Ok(Some(Member {
                    offset: bits / 8,
                    id,
                }));
            }
            if member_name.is_empty() && width == 0 {
                let inner = self.find(self.plain(id)?, name, deeper, left)?;
                if let Some(inner) = inner {
                    return Ok(Some(Member {
                        offset: (bits / 8)
                            .checked_add(inner.offset)
                            .ok_or(BtfError::Outside {
                                name: String::new(),
                                member: String::new(),
                            })?,
                        id: inner.id,
                    }));
                }
            }
        }
        Ok(None)
    }

    /// Bytes.
    pub(super) fn size(&self, id: u32) -> Result<u64> {
        let found = self.plain(id)?;
        Ok(match found.kind {
            PTR => 8,
            INT | STRUCT | UNION | ENUM | ENUM64 | FLOAT => u64::from(found.size_or_type),
            ARRAY => {
                let element = u32_at(self.type_section, found.members)?;
                let count = u32_at(self.type_section, found.members + 8)?;
                let element = self.plain(element)?;
                match element.kind {
                    PTR => 8 * u64::from(count),
                    _ => u64::from(element.size_or_type) * u64::from(count),
                }
            }
            _ => 0,
        })
    }
}

impl BtfError {
    fn named(self, name: &str, path: &str) -> BtfError {
        match self {
            BtfError::BitField { .. } => BtfError::BitField {
                name: name.to_owned(),
                member: path.to_owned(),
            },
            BtfError::Outside { .. } => outside(name, path),
            other => other,
        }
    }
}

fn outside(name: &str, path: &str) -> BtfError {
    BtfError::Outside {
        name: name.to_owned(),
        member: path.to_owned(),
    }
}
