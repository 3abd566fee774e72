#![no_main]

use drift_agent::probe::layout;
use libfuzzer_sys::fuzz_target;

// The kernel's, and behind it a module's, of so many bytes as the last two say.
fuzz_target!(|bytes: &[u8]| {
    let (kernel, module) = match bytes.split_last_chunk::<2>() {
        Some((rest, length)) => {
            let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
            let (kernel, module) = rest.split_at(rest.len() - length);
            (kernel, (length > 0).then_some(module))
        }
        None => (bytes, None),
    };
    if let Ok((offsets, known)) = layout(kernel, module) {
        // What is understood is also plausible: a function is refused, or its places can be read.
        for (index, signature) in known.signatures.of.iter().enumerate() {
            assert!(signature.returned < 7, "{index}: {signature:?}");
            assert!(signature.parameters.iter().all(|place| *place < 7), "{index}: {signature:?}");
        }
        assert!(offsets.file_last_reference <= 1);
    }
});
