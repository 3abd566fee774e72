//! A reader of BTF (the kernel's type information), as far as finding members and parameters needs it.
//!
//! Pure: bytes in, offsets and places out. Everything that is not exactly as the format says is an error, never a guess: a wrong offset would make the kernel half
//! read the wrong memory. Format: Documentation/bpf/btf.rst, kernel 6.18. A longer header than this one is accepted, as the format promises.

mod function;
mod member;
mod split;

use std::collections::HashMap;

use thiserror::Error;

pub use function::Place;
pub use member::Member;
pub use split::joined;

/// Why a type or member could not be told.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum BtfError {
    #[error("the kernel's BTF is cut off or mangled at byte {at}")]
    Mangled { at: usize },
    #[error("this BTF is a module's and continues that of the kernel, which is needed instead")]
    Split,
    #[error("this BTF is no module's that continues that of the kernel")]
    NotSplit,
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
    #[error("member `{member}` of struct `{name}` reaches beyond the struct's end")]
    Outside { name: String, member: String },
    #[error("this kernel has no function `{name}`, or has it only as a part of others")]
    NoFunction { name: String },
    #[error("the kernel's BTF has {count} different functions `{name}`")]
    AmbiguousFunction { name: String, count: usize },
    #[error("function `{name}` of this kernel has no parameter `{parameter}`")]
    NoParameter { name: String, parameter: String },
    #[error("parameter `{parameter}` of function `{name}` is not {expected} in this kernel")]
    Parameter {
        name: String,
        parameter: String,
        expected: String,
    },
    #[error(
        "function `{name}` of this kernel has parameters that take more places than can be read"
    )]
    Places { name: String },
    #[error("function `{name}` of this kernel returns nothing that tells whether it succeeded")]
    Returns { name: String },
}

type Result<T> = std::result::Result<T, BtfError>;

#[derive(Debug)]
struct Type {
    /// Where its name begins among the strings.
    name: u32,
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
    functions: HashMap<&'a [u8], Vec<u32>>,
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

/// Of a BTF, whole or a module's.
struct Sections<'a> {
    types: &'a [u8],
    strings: &'a [u8],
}

impl<'a> Sections<'a> {
    fn of(bytes: &'a [u8]) -> Result<Self> {
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
        Ok(Sections {
            types: section(8, 12)?,
            strings: section(16, 20)?,
        })
    }
}

impl<'a> Btf<'a> {
    /// Reads little-endian BTF, as in `/sys/kernel/btf/vmlinux`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let Sections {
            types: type_section,
            strings,
        } = Sections::of(bytes)?;
        // Of a whole BTF the first string is the empty one; a module's continues that of the kernel.
        if strings.first().is_some_and(|first| *first != 0) {
            return Err(BtfError::Split);
        }
        let mut btf = Btf {
            types: Vec::new(),
            type_section,
            strings,
            structs: HashMap::new(),
            functions: HashMap::new(),
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
                name,
                kind,
                size_or_type,
                kind_flag: info >> 31 == 1,
                members,
                count,
            });
            let named = match kind {
                STRUCT => Some(&mut self.structs),
                FUNC => Some(&mut self.functions),
                _ => None,
            };
            if let Some(named) = named {
                let id = self.types.len() as u32;
                let name = string(self.strings, name)?;
                if !name.is_empty() {
                    named.entry(name).or_default().push(id);
                }
            }
            at = members + extra;
        }
        Ok(())
    }

    fn string(&self, offset: u32) -> Result<&'a [u8]> {
        string(self.strings, offset)
    }

    /// Ids start at 1; 0 is `void`.
    fn get(&self, id: u32) -> Result<&Type> {
        (id as usize)
            .checked_sub(1)
            .and_then(|index| self.types.get(index))
            .ok_or(BtfError::Mangled { at: id as usize })
    }

    /// Follows typedefs and qualifiers.
    fn plain(&self, id: u32) -> Result<&Type> {
        self.plain_with_id(id).map(|(_, found)| found)
    }

    fn plain_with_id(&self, mut id: u32) -> Result<(u32, &Type)> {
        for _ in 0..MAX_CHAIN {
            let found = self.get(id)?;
            match found.kind {
                TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG => id = found.size_or_type,
                _ => return Ok((id, found)),
            }
        }
        Err(BtfError::Mangled { at: id as usize })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk::<4>())
        .map(|four| u32::from_le_bytes(*four))
        .ok_or(BtfError::Mangled { at })
}

fn string(strings: &[u8], offset: u32) -> Result<&[u8]> {
    let mangled = BtfError::Mangled {
        at: offset as usize,
    };
    let Some(rest) = strings.get(offset as usize..) else {
        return Err(mangled);
    };
    match rest.iter().position(|byte| *byte == 0) {
        Some(end) => Ok(&rest[..end]),
        None => Err(mangled),
    }
}

#[cfg(test)]
mod tests;
