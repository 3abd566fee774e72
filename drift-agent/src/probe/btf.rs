//! A reader of BTF (the kernel's type information), as far as finding a member needs it.
//!
//! Pure: bytes in, offsets out. Everything that is not exactly as the format says is an error, never a guess: a wrong offset would make the kernel half
//! read the wrong memory. Format: Documentation/bpf/btf.rst, kernel 6.18. A longer header than this one is accepted, as the format promises.

use std::collections::HashMap;

use thiserror::Error;

/// Why a type or member could not be told.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum BtfError {
    #[error("the kernel's BTF is cut off or mangled at byte {at}")]
    Mangled { at: usize },
    #[error("the kernel's BTF has a type of a kind that this version does not know ({kind})")]
    UnknownKind { kind: u32 },
    #[error("the kernel's BTF has no struct `{name}`")]
    NoStruct { name: String },
    #[error("the kernel's BTF has {count} different structs `{name}`")]
    Ambiguous { name: String, count: usize },
    #[error("struct `{name}` of this kernel has no member `{member}`")]
    NoMember { name: String, member: String },
    #[error("member `{member}` of struct `{name}` is a bit field")]
    BitField { name: String, member: String },
    #[error(
        "member `{member}` of struct `{name}` has {found} bytes in this kernel; {expected} were expected"
    )]
    Size {
        name: String,
        member: String,
        found: u64,
        expected: u64,
    },
}

type Result<T> = std::result::Result<T, BtfError>;

#[derive(Debug)]
struct Type {
    kind: u32,
    /// Size in bytes, or the id of the type referred to.
    size_or_type: u32,
    kind_flag: bool,
    /// Where the members start in the type section, and how many there are.
    members: usize,
    count: usize,
}

/// Parsed BTF.
#[derive(Debug)]
pub struct Btf<'a> {
    types: Vec<Type>,
    type_section: &'a [u8],
    strings: &'a [u8],
    structs: HashMap<&'a [u8], Vec<u32>>,
}

/// Where a member is, from the start of the outermost struct asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Bytes.
    pub offset: u32,
    /// Type id.
    id: u32,
}

const INT: u32 = 1;
const PTR: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const FWD: u32 = 7;
const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const RESTRICT: u32 = 11;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
const FLOAT: u32 = 16;
const DECL_TAG: u32 = 17;
const TYPE_TAG: u32 = 18;
const ENUM64: u32 = 19;

/// Types that only say something about another one; chains of them are short in any kernel, and a loop must end.
const MAX_CHAIN: usize = 64;

impl<'a> Btf<'a> {
    /// Reads little-endian BTF, as in `/sys/kernel/btf/vmlinux`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let magic = bytes.get(..2).ok_or(BtfError::Mangled { at: 0 })?;
        if magic != [0x9f, 0xeb] || bytes.get(2) != Some(&1) {
            return Err(BtfError::Mangled { at: 0 });
        }
        let header = u32_at(bytes, 4)? as usize;
        let section = |offset: usize, length: usize| -> Result<&'a [u8]> {
            let start = header.checked_add(u32_at(bytes, offset)? as usize);
            let end = start.and_then(|start| Some(start + u32_at(bytes, length).ok()? as usize));
            start
                .zip(end)
                .and_then(|(start, end)| bytes.get(start..end))
                .ok_or(BtfError::Mangled { at: offset })
        };
        let type_section = section(8, 12)?;
        let strings = section(16, 20)?;
        let mut btf = Btf {
            types: Vec::new(),
            type_section,
            strings,
            structs: HashMap::new(),
        };
        btf.read_types()?;
        Ok(btf)
    }

    fn read_types(&mut self) -> Result<()> {
        let mut at = 0;
        while at < self.type_section.len() {
            let name = u32_at(self.type_section, at)?;
            let info = u32_at(self.type_section, at + 4)?;
            let size_or_type = u32_at(self.type_section, at + 8)?;
            let count = (info & 0xffff) as usize;
            let kind = info >> 24 & 0x1f;
            let members = at + 12;
            let extra = match kind {
                INT | VAR | DECL_TAG => 4,
                ARRAY => 12,
                STRUCT | UNION | DATASEC | ENUM64 => 12 * count,
                ENUM | FUNC_PROTO => 8 * count,
                PTR | FWD | TYPEDEF | VOLATILE | CONST | RESTRICT | FUNC | FLOAT | TYPE_TAG => 0,
                kind => return Err(BtfError::UnknownKind { kind }),
            };
            if members + extra > self.type_section.len() {
                return Err(BtfError::Mangled { at });
            }
            self.types.push(Type {
                kind,
                size_or_type,
                kind_flag: info >> 31 == 1,
                members,
                count,
            });
            if kind == STRUCT {
                let id = self.types.len() as u32;
                let name = self.string(name)?;
                if !name.is_empty() {
                    self.structs.entry(name).or_default().push(id);
                }
            }
            at = members + extra;
        }
        Ok(())
    }

    fn string(&self, offset: u32) -> Result<&'a [u8]> {
        let mangled = BtfError::Mangled {
            at: offset as usize,
        };
        let Some(rest) = self.strings.get(offset as usize..) else {
            return Err(mangled);
        };
        match rest.iter().position(|byte| *byte == 0) {
            Some(end) => Ok(&rest[..end]),
            None => Err(mangled),
        }
    }

    /// Ids start at 1; 0 is `void`.
    fn get(&self, id: u32) -> Result<&Type> {
        (id as usize)
            .checked_sub(1)
            .and_then(|index| self.types.get(index))
            .ok_or(BtfError::Mangled { at: id as usize })
    }

    /// Follows typedefs and qualifiers.
    fn plain(&self, mut id: u32) -> Result<&Type> {
        for _ in 0..MAX_CHAIN {
            let found = self.get(id)?;
            match found.kind {
                TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG => id = found.size_or_type,
                _ => return Ok(found),
            }
        }
        Err(BtfError::Mangled { at: id as usize })
    }

    /// The member `path` ("f_path.dentry") of the only struct `name`; `size` is what it must have, in bytes.
    pub fn member(&self, name: &str, path: &str, size: u64) -> Result<Member> {
        let found = self.start(name, path)?;
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

    /// Where a member starts, whatever its size: one that is a struct of its own, which is not read as a whole.
    pub fn start(&self, name: &str, path: &str) -> Result<Member> {
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
        let mut found = Member { offset: 0, id: *id };
        for part in path.split('.') {
            let in_type = self.plain(found.id)?;
            let inner = self
                .find(in_type, part.as_bytes(), 0)
                .map_err(|error| error.named(name, path))?
                .ok_or_else(|| BtfError::NoMember {
                    name: name.to_owned(),
                    member: path.to_owned(),
                })?;
            found = Member {
                offset: found.offset + inner.offset,
                id: inner.id,
            };
        }
        Ok(found)
    }

    /// A member by name, looking into nameless structs and unions too.
    fn find(&self, in_type: &Type, name: &[u8], depth: usize) -> Result<Option<Member>> {
        if !matches!(in_type.kind, STRUCT | UNION) || depth > MAX_CHAIN {
            return Ok(None);
        }
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
                let inner = self.find(self.plain(id)?, name, depth + 1)?;
                if let Some(inner) = inner {
                    return Ok(Some(Member {
                        offset: bits / 8 + inner.offset,
                        id: inner.id,
                    }));
                }
            }
        }
        Ok(None)
    }

    /// Bytes.
    fn size(&self, id: u32) -> Result<u64> {
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
            other => other,
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk::<4>())
        .map(|four| u32::from_le_bytes(*four))
        .ok_or(BtfError::Mangled { at })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds BTF by hand: types are given as words, strings by name.
    struct Builder {
        types: Vec<u8>,
        strings: Vec<u8>,
    }

    impl Builder {
        fn new() -> Self {
            Builder {
                types: Vec::new(),
                strings: vec![0],
            }
        }

        fn name(&mut self, name: &str) -> u32 {
            if name.is_empty() {
                return 0;
            }
            let at = self.strings.len() as u32;
            self.strings.extend_from_slice(name.as_bytes());
            self.strings.push(0);
            at
        }

        fn words(&mut self, words: &[u32]) {
            for word in words {
                self.types.extend_from_slice(&word.to_le_bytes());
            }
        }

        fn int(&mut self, size: u32) {
            let name = self.name("int");
            self.words(&[name, INT << 24, size, size * 8]);
        }

        fn composite(&mut self, kind: u32, name: &str, flag: bool, members: &[(&str, u32, u32)]) {
            let name = self.name(name);
            let info = kind << 24 | members.len() as u32 | u32::from(flag) << 31;
            self.words(&[name, info, 64]);
            for (member, id, position) in members {
                let member = self.name(member);
                self.words(&[member, *id, *position]);
            }
        }

        fn bytes(&self, header: u32) -> Vec<u8> {
            let mut bytes = vec![0x9f, 0xeb, 1, 0];
            for word in [
                header,
                0,
                self.types.len() as u32,
                self.types.len() as u32,
                self.strings.len() as u32,
            ] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
            bytes.resize(header as usize, 0);
            bytes.extend_from_slice(&self.types);
            bytes.extend_from_slice(&self.strings);
            bytes
        }
    }

    /// 1: int of 4 bytes; 2: nameless union {inner: 1}; 3: struct outer {_: 2 at 8, plain: 1 at 16, bits: 1 wide 3}.
    fn sample() -> Builder {
        let mut builder = Builder::new();
        builder.int(4);
        builder.composite(UNION, "", false, &[("inner", 1, 0)]);
        builder.composite(
            STRUCT,
            "outer",
            true,
            &[("", 2, 64), ("plain", 1, 128), ("bits", 1, 3 << 24 | 160)],
        );
        builder
    }

    #[test]
    fn members_are_found_also_inside_nameless_unions() {
        let bytes = sample().bytes(24);
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(btf.member("outer", "plain", 4).unwrap().offset, 16);
        assert_eq!(btf.member("outer", "inner", 4).unwrap().offset, 8);
    }

    #[test]
    fn a_longer_header_is_accepted() {
        let bytes = sample().bytes(40);
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(btf.member("outer", "plain", 4).unwrap().offset, 16);
    }

    #[test]
    fn what_is_not_exactly_right_is_refused_with_a_sentence() {
        let bytes = sample().bytes(24);
        let btf = Btf::parse(&bytes).unwrap();
        for (path, size, expected) in [
            (
                "gone",
                4,
                "struct `outer` of this kernel has no member `gone`",
            ),
            (
                "plain",
                8,
                "member `plain` of struct `outer` has 4 bytes in this kernel; 8 were expected",
            ),
            ("bits", 4, "member `bits` of struct `outer` is a bit field"),
            (
                "plain.deeper",
                4,
                "struct `outer` of this kernel has no member `plain.deeper`",
            ),
        ] {
            assert_eq!(
                btf.member("outer", path, size).unwrap_err().to_string(),
                expected
            );
        }
        assert_eq!(
            btf.member("nobody", "x", 4).unwrap_err().to_string(),
            "the kernel's BTF has no struct `nobody`"
        );
    }

    #[test]
    fn two_structs_of_one_name_are_refused() {
        let mut builder = sample();
        builder.composite(STRUCT, "outer", false, &[("plain", 1, 0)]);
        let bytes = builder.bytes(24);
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(
            btf.member("outer", "plain", 4).unwrap_err(),
            BtfError::Ambiguous {
                name: "outer".into(),
                count: 2
            }
        );
    }

    #[test]
    fn every_cut_and_every_flipped_byte_ends_in_a_verdict() {
        let bytes = sample().bytes(24);
        for length in 0..bytes.len() {
            if let Ok(btf) = Btf::parse(&bytes[..length]) {
                let _verdict = btf.member("outer", "inner", 4);
            }
        }
        for at in 0..bytes.len() {
            for value in [0x00, 0x01, 0x7f, 0xff] {
                let mut mangled = bytes.clone();
                mangled[at] = value;
                if let Ok(btf) = Btf::parse(&mangled) {
                    let _verdict = btf.member("outer", "inner", 4);
                }
            }
        }
    }
}
