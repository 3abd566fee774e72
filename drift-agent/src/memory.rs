//! What reading policies has taken goes back to the kernel.

/// Gives back free memory that the allocator keeps for later: after policies were read, as much as they take and more.
///
/// Without an effect where the C library is not glibc.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) takes a number of bytes to keep and no memory of ours; it locks the allocator's own lists, so any thread may call it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use std::fs;

    use super::*;

    /// Bytes of this process that are in memory and of no file.
    fn anonymous() -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon:"));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        number.unwrap().parse::<u64>().unwrap() << 10
    }

    #[test]
    fn what_was_freed_is_not_kept() {
        const EACH: usize = 16 << 10;
        let held: Vec<Vec<u8>> = (0..4096).map(|_| vec![1; EACH]).collect();
        // What stands above it keeps the allocator from giving it back by itself.
        let above = vec![1u8; EACH];
        drop(held);
        let before = anonymous();
        give_back();
        let after = anonymous();
        assert!(after + (48 << 20) < before, "{before} {after}");
        drop(above);
    }
}
