//! Text that asks for more than a policy file may.

use super::*;

/// The only problem of `bytes`, on one line.
#[track_caller]
fn refused(bytes: Vec<u8>, expected: &str) {
    let mut problems = Problems::default();
    match Source::new(Path::new("p.yaml").into(), bytes) {
        Ok(source) => drop(parse(&source, &mut problems)),
        Err(problem) => problems.push(problem),
    }
    assert_eq!(problems.one_line().to_string(), expected);
}

#[test]
fn a_file_that_is_too_large() {
    refused(
        vec![b' '; MAX_FILE + 1],
        "p.yaml:1:1: this file is larger than the 4 MiB a policy file may have",
    );
}

#[test]
fn bytes_that_are_no_text() {
    refused(
        b"a: b\r\n\xc3\xa9: \xff".to_vec(),
        "p.yaml:2:4: not UTF-8: the byte \\xff",
    );
    refused(
        vec![0xff, 0xfe, b'a', 0],
        "p.yaml:1:1: this file is UTF-16, not UTF-8",
    );
    refused(
        b"a\0b".to_vec(),
        "p.yaml:1:2: YAML does not allow the control character \\x00",
    );
}

#[test]
fn aliases_that_stand_for_billions() {
    let mut text = "a: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for level in 1..30 {
        let alias = format!("*a{}", level - 1);
        let aliases = [alias.as_str(); 9].join(", ");
        text += &format!("b{level}: &a{level} [{aliases}]\n");
    }
    refused(
        text.into(),
        "p.yaml:6:20: more than 300000 fields and values in one file, what aliases stand for included",
    );
}

#[test]
fn aliases_that_stand_for_much_text() {
    let text = format!(
        "a: &a {}\nb: [{}]\n",
        "x".repeat(1 << 20),
        "*a, ".repeat(30)
    );
    refused(
        text.into(),
        "p.yaml:2:57: more than 16 MiB of text in one file, what aliases stand for included",
    );
}

#[test]
fn aliases_that_nest() {
    let mut text = "- &a0 x\n".to_owned();
    for level in 1..100 {
        text += &format!("- &a{level} [*a{}]\n", level - 1);
    }
    refused(
        text.into(),
        "p.yaml:65:9: lists and mappings too deep within each other",
    );
}

#[test]
fn deep_nesting() {
    for open in ["[", "{a: ", "- ", "? "] {
        let (lineages, problems) = read(&open.repeat(100_000));
        assert!(lineages.is_none());
        let said = problems.one_line().to_string();
        assert!(
            said.ends_with("lists and mappings too deep within each other"),
            "{said}"
        );
    }
}

#[test]
fn a_huge_text() {
    refused(
        format!("a: {}\n", "x".repeat((1 << 20) + 1)).into(),
        "p.yaml:1:4: a text of 1048577 bytes; at most 1048576 are allowed",
    );
}

#[test]
fn too_many_documents() {
    let mut problems = Problems::default();
    parse(&source(&"---\na\n".repeat(1002)), &mut problems);
    // One for each that is no policy, and one for the rest.
    assert_eq!(problems.len(), 1001);
    assert_eq!(problems.sorted().len(), 100);
    assert!(problems.to_string().ends_with("\n\nand 901 more"));
}

#[test]
fn too_many_items() {
    refused(
        "- a\n".repeat(300_001).into(),
        "p.yaml:300000:3: more than 300000 fields and values in one file, what aliases stand for included",
    );
}

#[test]
fn brackets_with_too_much_in_them() {
    refused(
        format!("[{}]", "a,".repeat(300_000)).into(),
        "p.yaml:1:1: more than 200000 marks of punctuation in one `{…}`, `[…]` or text",
    );
}

#[test]
fn a_large_file_that_is_right() {
    let files: String = (0..10_000)
        .map(|n| format!("    - path: /etc/file-{n}\n      content: {{inline: \"{n}\"}}\n      mode: \"0644\"\n"))
        .collect();
    let (lineages, problems) = read(&(version(&files) + "---\n" + &policy("")));
    assert!(problems.is_empty(), "{problems}");
    assert_eq!(
        lineages.expect("no problems")[0].active().files.len(),
        10_000
    );
}

#[test]
fn many_problems_on_one_long_line() {
    let fields = "a: 1, ".repeat(60_000);
    let (_, problems) = read(&format!("- {{{fields}}}\n"));
    assert_eq!(problems.len(), 60_000);
    let unknown: String = (0..60_000).map(|n| format!("a{n}: 1, ")).collect();
    let (_, problems) = read(&format!("{{{unknown}}}\n"));
    assert_eq!(problems.len(), 60_002);
}

#[test]
fn one_path_very_often() {
    let item = "    - {path: /etc/a, content: {inline: a}}\n";
    let (_, problems) = read(&(version(&item.repeat(20_000)) + "---\n" + &policy("")));
    assert_eq!(problems.len(), 19_999);
}
