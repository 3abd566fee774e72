use super::*;
use std::{path::Path, sync::Arc};
#[test]
fn show() {
    let Ok(dir) = std::env::var("CASES") else {
        return;
    };
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    names.sort();
    for n in names {
        let mut problems = Problems::default();
        let src = Source::new(Path::new("p.yaml").into(), std::fs::read(&n).unwrap());
        let docs = match src {
            Ok(s) => parse(&s, &mut problems),
            Err(p) => {
                problems.push(p);
                vec![]
            }
        };
        validate(docs, &mut problems);
        println!(
            "##### {}\n{problems}\n{}",
            n.file_name().unwrap().display(),
            problems.one_line()
        );
    }
    let _: Option<Arc<u8>> = None;
}
