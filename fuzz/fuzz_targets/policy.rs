#![no_main]

use std::path::Path;

use drift_common::policy::{Holds, Problems, Source, parse, validate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(source) = Source::new(Path::new("policy.yaml").into(), bytes.to_vec()) {
        let mut problems = Problems::default();
        let documents = parse(&source, &mut problems);
        let lineages = validate(documents, &Holds::new(), &mut problems);
        assert_eq!(lineages.is_none(), !problems.is_empty());
        assert!(!problems.to_string().contains('\u{1b}'));
    }
});
