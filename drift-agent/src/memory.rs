//! What a start and reading policies have taken goes back to the kernel.

/// Gives back free memory that the allocator keeps for later, and the pages of the program itself that were used so far: what reads policies and loads kernel
/// programs is most of it, and does not run again soon. What does run comes back from the page cache, 16 pages at a time.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) takes a number of bytes to keep and no memory of ours; it locks the allocator's own lists, so any thread may call it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
    program::give_back();
}

/// This program's own file in memory.
mod program {
    use std::{
        ffi::{c_int, c_void},
        ptr,
    };

    pub(super) fn give_back() {
        // SAFETY: `own` is called for the program and its libraries while this call lasts, with what `dl_iterate_phdr(3)` says it gives.
        unsafe {
            libc::dl_iterate_phdr(Some(own), ptr::null_mut());
        }
    }

    /// The first that is named is the program; what is not 0 ends the list.
    ///
    /// # Safety
    /// `info` is what dl_iterate_phdr(3) gives.
    unsafe extern "C" fn own(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        _data: *mut c_void,
    ) -> c_int {
        // SAFETY: the caller's: `info` stands for an object that is loaded, and its headers are as many as it says.
        let (base, headers) = unsafe {
            let info = &*info;
            let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
            (info.dlpi_addr as usize, headers)
        };
        let page = rustix::param::page_size();
        for header in headers {
            // What was ever writable may differ from the file.
            if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
                continue;
            }
            let begin = base + header.p_vaddr as usize;
            let end = (begin + header.p_memsz as usize) / page * page;
            let begin = begin.next_multiple_of(page);
            if begin < end {
                // SAFETY: whole pages of a mapping of the program's file that nobody could write to: each is read from there again when it is used.
                let _advice = unsafe {
                    libc::madvise(begin as *mut c_void, end - begin, libc::MADV_DONTNEED)
                };
            }
        }
        1
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Bytes of this process that are in memory, of one kind.
    fn resident(kind: &str) -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with(kind));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        number.unwrap().parse::<u64>().unwrap() << 10
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn what_was_freed_is_not_kept() {
        const EACH: usize = 16 << 10;
        let held: Vec<Vec<u8>> = (0..4096).map(|_| vec![1; EACH]).collect();
        // What stands above it keeps the allocator from giving it back by itself.
        let above = vec![1u8; EACH];
        drop(held);
        let before = resident("RssAnon:");
        give_back();
        let after = resident("RssAnon:");
        assert!(after + (48 << 20) < before, "{before} {after}");
        drop(above);
    }

    #[test]
    fn the_programs_own_pages_are_given_back_and_come_again() {
        let bytes = [7; 4096];
        let digest = blake3::hash(&bytes);
        // Threads of other tests use other parts of it meanwhile.
        let gave_back = (0..8).any(|_| {
            let before = resident("RssFile:");
            give_back();
            let after = resident("RssFile:");
            assert_eq!(blake3::hash(&bytes), digest);
            after < before
        });
        assert!(gave_back);
    }
}
