#![no_main]

use drift_agent::probe::layout;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((offsets, known)) = layout(bytes) {
        // What is understood is also plausible: a function is refused, or its places can be read.
        for (index, signature) in known.signatures.of.iter().enumerate() {
            assert!(signature.returned < 7, "{index}: {signature:?}");
            assert!(signature.parameters.iter().all(|place| *place < 7), "{index}: {signature:?}");
        }
        assert!(offsets.file_last_reference <= 1);
    }
});
