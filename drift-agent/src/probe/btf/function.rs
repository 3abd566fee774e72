//! Where a function has a parameter, and what it returns.

use super::{Btf, BtfError, FUNC_PROTO, INT, Member, PTR, Result, STRUCT, Type, u32_at};

/// What a function takes and gives.
#[derive(Debug)]
pub struct Prototype<'b, 'a> {
    btf: &'b Btf<'a>,
    name: String,
    parameters: Vec<(&'a [u8], u32)>,
    returns: u32,
}

/// Where a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the list, counted from zero.
    Listed(u32),
    /// In the struct that the first in the list points to.
    InStruct(Member),
}

impl<'a> Btf<'a> {
    /// Whether there is a function of that name.
    #[must_use]
    pub fn has_function(&self, name: &str) -> bool {
        self.functions.contains_key(name.as_bytes())
    }

    /// The prototype of the only function of that name.
    pub fn function<'b>(&'b self, name: &str) -> Result<Prototype<'b, 'a>> {
        let ids = self
            .functions
            .get(name.as_bytes())
            .map_or(&[][..], Vec::as_slice);
        let name = name.to_owned();
        let [id] = ids else {
            return Err(if ids.is_empty() {
                BtfError::NoFunction { name }
            } else {
                BtfError::AmbiguousFunction {
                    name,
                    count: ids.len(),
                }
            });
        };
        let id = self.get(*id)?.size_or_type;
        let prototype = self.get(id)?;
        if prototype.kind != FUNC_PROTO {
            return Err(BtfError::Mangled { at: id as usize });
        }
        let mut parameters = Vec::with_capacity(prototype.count);
        for index in 0..prototype.count {
            let at = prototype.members + 8 * index;
            let of = u32_at(self.type_section, at + 4)?;
            // One that is passed by value may take two places, and the places of those behind it are others.
            if of == 0 || !matches!(self.size(of)?, 1..=8) || self.plain(of)?.kind == STRUCT {
                return Err(BtfError::Places { name });
            }
            parameters.push((self.string(u32_at(self.type_section, at)?)?, of));
        }
        Ok(Prototype {
            btf: self,
            name,
            parameters,
            returns: prototype.size_or_type,
        })
    }
}

impl Prototype<'_, '_> {
    /// How many parameters there are: what is returned stands behind them.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.parameters.len() as u32
    }

    /// The place of the parameter `name`, which points to the struct `to`, or is an int.
    pub fn parameter(&self, name: &str, to: Option<&str>) -> Result<Place> {
        let listed = self
            .parameters
            .iter()
            .position(|(found, _)| *found == name.as_bytes());
        let Some(index) = listed else {
            return self.in_struct(name, to);
        };
        let found = self.btf.plain(self.parameters[index].1)?;
        let expected = match to {
            Some(to)
                if self
                    .pointee(found)?
                    .is_some_and(|(_, name)| name == to.as_bytes()) =>
            {
                None
            }
            Some(to) => Some(format!("a pointer to struct `{to}`")),
            None if found.kind == INT && found.size_or_type == 4 => None,
            None => Some("an int".to_owned()),
        };
        match expected {
            None => Ok(Place::Listed(index as u32)),
            Some(expected) => Err(BtfError::Parameter {
                name: self.name.clone(),
                parameter: name.to_owned(),
                expected,
            }),
        }
    }

    /// Kernels put parameters together into a struct when they become many.
    fn in_struct(&self, name: &str, to: Option<&str>) -> Result<Place> {
        let missing = || BtfError::NoParameter {
            name: self.name.clone(),
            parameter: name.to_owned(),
        };
        let [(_, only)] = self.parameters[..] else {
            return Err(missing());
        };
        let (Some((id, holder)), Some(to)) = (self.pointee(self.btf.plain(only)?)?, to) else {
            return Err(missing());
        };
        let holder = String::from_utf8_lossy(holder);
        let member = match self.btf.member_of(id, &holder, name, 8) {
            Err(BtfError::NoMember { .. }) => return Err(missing()),
            other => other?,
        };
        let points = self.pointee(self.btf.plain(member.id())?)?;
        if points.is_some_and(|(_, name)| name == to.as_bytes()) {
            Ok(Place::InStruct(member))
        } else {
            Err(BtfError::Parameter {
                name: self.name.clone(),
                parameter: name.to_owned(),
                expected: format!("a pointer to struct `{to}`"),
            })
        }
    }

    /// Whether what is returned has 64 bits (a pointer, a length) or is an int.
    pub fn returns_wide(&self) -> Result<bool> {
        let returns = || BtfError::Returns {
            name: self.name.clone(),
        };
        if self.returns == 0 {
            return Err(returns());
        }
        let found = self.btf.plain(self.returns)?;
        match (found.kind, found.size_or_type) {
            (PTR, _) | (INT, 8) => Ok(true),
            (INT, 4) => Ok(false),
            _ => Err(returns()),
        }
    }

    /// Id and name of the struct that a pointer leads to.
    fn pointee(&self, pointer: &Type) -> Result<Option<(u32, &[u8])>> {
        if pointer.kind != PTR || pointer.size_or_type == 0 {
            return Ok(None);
        }
        let (id, target) = self.btf.plain_with_id(pointer.size_or_type)?;
        if target.kind != STRUCT {
            return Ok(None);
        }
        Ok(Some((id, self.btf.string(target.name)?)))
    }
}
