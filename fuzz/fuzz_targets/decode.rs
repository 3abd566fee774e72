#![no_main]

use drift_agent::observe::decode;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _decoded = decode(bytes);
});
