//! Where this kernel's functions have the parameters that programs of the sensor `btf` read.

use std::collections::HashMap;

use drift_common::abi::{Function, MOST_PLACES, Signature, Signatures};

use super::btf::{Btf, BtfError, Place};

/// Of each function, or why no program may be attached to it.
#[derive(Debug)]
pub struct Known {
    pub signatures: Signatures,
    pub refused: HashMap<Function, BtfError>,
    /// Whether programs can get the running task with its type (5.11).
    pub has_typed_task: bool,
}

/// From the kernel's own type information: by name and by type. A parameter that is not found so is an error of its function alone.
pub fn resolve(btf: &Btf<'_>) -> Known {
    let mut known = Known {
        signatures: Signatures::NONE,
        refused: HashMap::new(),
        has_typed_task: btf.has_function("bpf_get_current_task_btf"),
    };
    for function in Function::ALL {
        match signature(btf, function) {
            Ok(signature) => known.signatures.of[function as usize] = signature,
            Err(error) => {
                known.refused.insert(function, error);
            }
        }
    }
    known
}

fn signature(btf: &Btf<'_>, function: Function) -> Result<Signature, BtfError> {
    let name = function.name();
    let prototype = btf.function(name)?;
    let count = prototype.count();
    if count >= MOST_PLACES {
        return Err(BtfError::Places {
            name: name.to_owned(),
        });
    }
    let mut signature = Signature {
        returned: count,
        returns_wide: u32::from(function.is_seen_at_its_end() && prototype.returns_wide()?),
        ..Signature::NONE
    };
    for (index, parameter) in function.parameters().iter().enumerate() {
        match prototype.parameter(parameter.name, parameter.points_to)? {
            Place::Listed(place) => signature.parameters[index] = place,
            Place::InStruct(member) => {
                signature.in_struct = 1;
                signature.members[index] = member.offset;
            }
        }
    }
    Ok(signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_has_the_functions_that_all_kernels_have() {
        let Ok(bytes) = std::fs::read("/sys/kernel/btf/vmlinux") else {
            // A kernel without BTF: what the agent says then is tested in tests/.
            return;
        };
        let btf = Btf::parse(&bytes).expect("this kernel's BTF");
        let known = resolve(&btf);
        assert!(known.refused.is_empty(), "{:?}", known.refused);
        let of = |function: Function| known.signatures.of[function as usize];
        assert_eq!(of(Function::VfsOpen).parameters[0], 1);
        assert_eq!(of(Function::VfsOpen).returned, 2);
        assert_eq!(of(Function::VfsCloneFileRange).returns_wide, 1);
        assert_eq!(of(Function::VfsRename).in_struct, 1);
    }
}
