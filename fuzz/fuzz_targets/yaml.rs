#![no_main]

use drift_agent::compare::structured::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| drift_fuzz::structured(Format::Yaml, bytes));
