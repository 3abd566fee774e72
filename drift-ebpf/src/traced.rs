//! A call of one of the kernel's functions, as a program sees it that is attached to the function's begin (fentry) or end (fexit).
//!
//! Where a parameter stands differs from kernel to kernel: the agent reads it from the kernel's BTF, by the parameter's name, and leaves the place in
//! [`SIGNATURES`] before it loads the program. The verifier knows these numbers, and follows only the way that they choose.

use core::ffi::c_void;

use aya_ebpf::EbpfContext;
use drift_common::abi::{Function, Signatures};

use crate::{
    fault::Fault,
    kernel::{Address, Dentry, File},
};

/// Overwritten by the agent before the programs are loaded.
#[unsafe(no_mangle)]
static SIGNATURES: Signatures = Signatures::NONE;

/// Errors are the last 4095 numbers.
const FIRST_ERROR: u64 = (-4095_i64) as u64;

/// A number of a function's signature, read anew: the compiler has seen only zeros.
macro_rules! number {
    ($call:ident.$($field:tt)+) => {
        // SAFETY: a plain static of this object.
        unsafe { core::ptr::read_volatile(&raw const SIGNATURES.of[$call.function as usize].$($field)+) }
    };
}

/// A call that begins or ends.
#[derive(Clone, Copy)]
pub struct Traced {
    context: *const c_void,
    function: Function,
}

impl Traced {
    /// `function` must be a constant after inlining.
    #[inline(always)]
    pub fn new(context: &impl EbpfContext, function: Function) -> Traced {
        Traced {
            context: context.as_ptr(),
            function,
        }
    }

    /// The first parameter, as a file.
    #[inline(always)]
    pub fn file(self) -> File {
        File::new(self.first())
    }

    /// The first parameter, as an entry of a directory.
    #[inline(always)]
    pub fn dentry(self) -> Dentry {
        Dentry::new(self.first())
    }

    #[inline(always)]
    pub fn first(self) -> Address {
        Address::new(self.at(number!(self.parameters[0])))
    }

    #[inline(always)]
    pub fn second(self) -> u64 {
        self.at(number!(self.parameters[1]))
    }

    /// Both parameters, as addresses: from the list, or from the struct that holds them.
    #[inline(always)]
    pub fn pair(self) -> Result<(Address, Address), Fault> {
        if number!(self.in_struct) == 0 {
            return Ok((self.first(), Address::new(self.second())));
        }
        let holder = self.first();
        let member = |offset: u32| -> Result<Address, Fault> { holder.pointer(offset as usize) };
        Ok((
            member(number!(self.members[0]))?,
            member(number!(self.members[1]))?,
        ))
    }

    /// Whether the function, at its end, returns an error.
    #[inline(always)]
    pub fn has_failed(self) -> bool {
        let place = number!(self.returned);
        let returned = self.at(place);
        if number!(self.returns_wide) == 0 {
            is_negative_int(returned)
        } else {
            returned >= FIRST_ERROR
        }
    }

    /// What stands in one place of the list. The verifier reads a context at constant offsets only.
    #[inline(always)]
    fn at(self, place: u32) -> u64 {
        match place {
            0 => place_at::<0>(self.context),
            1 => place_at::<8>(self.context),
            2 => place_at::<16>(self.context),
            3 => place_at::<24>(self.context),
            4 => place_at::<32>(self.context),
            5 => place_at::<40>(self.context),
            _ => place_at::<48>(self.context),
        }
    }
}

/// In assembler: the compiler would make one load at a computed address of all of them.
#[cfg(target_arch = "bpf")]
#[inline(always)]
fn place_at<const OFFSET: usize>(context: *const c_void) -> u64 {
    let value: u64;
    // SAFETY: reads 8 bytes of the context; the verifier checks that the function has a parameter, or a result, there.
    unsafe {
        core::arch::asm!(
            "{value} = *(u64 *)({context} + {offset})",
            value = out(reg) value,
            context = in(reg) context,
            offset = const OFFSET,
        );
    }
    value
}

/// Whether the lower half, an int, is below zero. In assembler: the compiler would do this before it asks whether it is to be done, and what is returned may
/// be a pointer, which must not be made narrower, not even in vain.
#[cfg(target_arch = "bpf")]
#[inline(always)]
fn is_negative_int(value: u64) -> bool {
    let sign: u64;
    // SAFETY: two shifts.
    unsafe {
        core::arch::asm!("{value} <<= 32", "{value} >>= 63", value = inout(reg) value => sign);
    }
    sign != 0
}

#[cfg(not(target_arch = "bpf"))]
fn is_negative_int(value: u64) -> bool {
    (value as i32) < 0
}

#[cfg(not(target_arch = "bpf"))]
fn place_at<const OFFSET: usize>(_context: *const c_void) -> u64 {
    OFFSET as u64
}
