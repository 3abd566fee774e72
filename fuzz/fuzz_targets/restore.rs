#![no_main]

use drift_agent::restore::request;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _request = request(bytes);
});
