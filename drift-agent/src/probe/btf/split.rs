//! A module's BTF, which continues the kernel's: its types and its strings are counted from where those end.

use super::{BtfError, Result, Sections};

/// As `linux/btf.h` has had it since it is there; what comes later is about other sections.
const HEADER: u32 = 24;

/// Both as one BTF, which no longer needs the other.
pub fn joined(kernel: &[u8], module: &[u8]) -> Result<Vec<u8>> {
    let (kernel, module) = (Sections::of(kernel)?, Sections::of(module)?);
    // One that begins with the empty string counts from its own beginning.
    if module.strings.first().is_none_or(|first| *first == 0) {
        return Err(BtfError::NotSplit);
    }
    let (types, strings) = (
        length(&[kernel.types, module.types])?,
        length(&[kernel.strings, module.strings])?,
    );
    let mut bytes = vec![0x9f, 0xeb, 1, 0];
    for word in [HEADER, 0, types, types, strings] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    for part in [kernel.types, module.types, kernel.strings, module.strings] {
        bytes.extend_from_slice(part);
    }
    Ok(bytes)
}

fn length(parts: &[&[u8]; 2]) -> Result<u32> {
    let sum = parts[0].len() + parts[1].len();
    u32::try_from(sum).map_err(|_| BtfError::Mangled { at: 0 })
}

#[cfg(test)]
mod tests {
    use super::{super::tests::Builder, *};
    use crate::probe::btf::{Btf, PTR, STRUCT};

    /// The kernel: 1: int of 8 bytes; 2: struct inode {number: 1 at 8}. The module: 3: a pointer to it; 4: struct over {_: 1, inode: 2 at 16, upper: 3 at 80}.
    fn kernel_and_module() -> (Vec<u8>, Vec<u8>) {
        let mut kernel = Builder::new();
        kernel.int(8);
        kernel.composite(STRUCT, "inode", false, &[("number", 1, 64)]);
        let mut module = Builder::continues(&kernel);
        module.words(&[0, PTR << 24, 2]);
        module.composite(
            STRUCT,
            "over",
            false,
            &[("inode", 2, 16 * 8), ("upper", 3, 48 * 8)],
        );
        (kernel.bytes(24), module.bytes(32))
    }

    #[test]
    fn a_modules_types_are_found_with_those_of_the_kernel_that_they_hold() {
        let (kernel, module) = kernel_and_module();
        let bytes = joined(&kernel, &module).unwrap();
        let btf = Btf::parse(&bytes).unwrap();
        let at = |name: &str, path: &str| btf.member(name, path, 8).map(|member| member.offset);
        assert_eq!(at("over", "upper"), Ok(48));
        assert_eq!(at("over", "inode.number"), Ok(24));
        assert_eq!(at("inode", "number"), Ok(8));
    }

    #[test]
    fn what_continues_nothing_or_is_cut_off_is_refused() {
        let (kernel, module) = kernel_and_module();
        assert_eq!(joined(&kernel, &kernel), Err(BtfError::NotSplit));
        assert!(joined(&module, &kernel).is_err());
        for end in 0..module.len() {
            // What is left of it says less, or is refused; it never says something else.
            if let Ok(bytes) = joined(&kernel, &module[..end])
                && let Ok(btf) = Btf::parse(&bytes)
            {
                assert!(btf.member("over", "upper", 8).is_err(), "cut at {end}");
            }
        }
    }
}
