//! Files that say nothing: a verdict each, and soon.

use super::{Format::*, *};

#[track_caller]
fn check(format: Format, bytes: &[u8], reason: &str, at: (u32, u32), part: &str) {
    let error = parse(format, bytes).expect_err("not of its format");
    assert_eq!(
        (error.reason(), (error.line, error.column)),
        (reason, at),
        "{error}"
    );
    assert!(error.message.contains(part), "{error}");
}

#[test]
fn what_is_not_of_its_format_is_told_with_its_place() {
    check(Yaml, b"a: 1\nb: [\n", "syntax", (3, 1), "expected");
    check(Yaml, b"a: 1\na: 2\n", "syntax", (2, 1), "twice");
    check(Yaml, b"a: *x\n", "syntax", (1, 4), "alias");
    check(Yaml, b"? [a]\n: 1\n", "syntax", (1, 3), "for a key");
    check(Yaml, b"<<: 1\n", "syntax", (1, 5), "merge key");
    check(Yaml, b"a: \x01\n", "syntax", (1, 4), "control character");
    check(Json, b"{\"a\": 1,}", "syntax", (1, 9), "key");
    check(Json, b"// c\n1", "syntax", (1, 1), "expected a value");
    check(Json, b"{\"a\": 01}", "syntax", (1, 7), "expected a value");
    check(Json, b"{\"a\":1,\n\"a\":2}", "syntax", (2, 1), "twice");
    check(Json, b"\"\\ud800\"", "syntax", (1, 2), "escape");
    check(Json, b"", "syntax", (1, 1), "ends");
    check(Json, b"1 2", "syntax", (1, 3), "after the end");
    check(Json5, b"/* x", "syntax", (1, 1), "never closed");
    check(Toml, b"a = \n", "syntax", (1, 5), "");
    check(Toml, b"a = 1\na = 2\n", "syntax", (2, 1), "duplicate key");
    check(Ini, b"k=v\n[x\n", "syntax", (2, 1), "[name]");
    check(Env, b"=x\n", "syntax", (1, 1), "name");
    check(Env, b"A=1\nB=\"x\n", "syntax", (2, 3), "never closed");
}

#[test]
fn what_is_no_text_is_told_with_its_place() {
    for (_, format) in Format::ALL {
        check(format, b"a=1\nb\xff", "not-utf8", (2, 2), "not UTF-8");
        check(format, b"\xff\xfea\0", "not-utf8", (1, 1), "UTF-16");
        let large = vec![b'\n'; MAX_SIZE + 1];
        check(format, &large, "too-large", (1, 1), "8 MiB");
    }
}

#[test]
fn what_is_too_deep_or_too_much_is_refused_soon() {
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(5000), close.repeat(5000));
    for (format, text) in [
        (Yaml, deep("[", "]")),
        (
            Yaml,
            (0..5000)
                .map(|depth| " ".repeat(depth) + "- \n")
                .take(300)
                .collect(),
        ),
        (Json, deep("[", "]")),
        (Json, deep("{\"a\":", "}")),
        (Json5, deep("[", "]")),
        (Toml, format!("a = {}", deep("[", "]"))),
        (Toml, format!("{}a = 1", "a.".repeat(5000))),
    ] {
        let error = parse(format, text.as_bytes()).expect_err("too deep");
        assert_eq!(error.reason(), "too-deep", "{format:?} {error}");
    }
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..20 {
        let before = n - 1;
        let many = vec![format!("*a{before}"); 10].join(", ");
        laughs += &format!("a{n}: &a{n} [{many}]\n");
    }
    check(
        Yaml,
        laughs.as_bytes(),
        "too-many-values",
        (6, 20),
        "500000",
    );
    check(
        Yaml,
        b"a: &x [*x]\n",
        "syntax",
        (1, 8),
        "within what it stands for",
    );
    let long = format!(
        "a: &x \"{}\"\nb: [{}]\n",
        "y".repeat(1 << 20),
        "*x, ".repeat(1000)
    );
    let error = parse(Yaml, long.as_bytes()).expect_err("too much");
    assert_eq!(error.reason(), "too-many-values");
    let marks = format!("[{}", "{a: 1}, ".repeat(100_000));
    let error = parse(Yaml, marks.as_bytes()).expect_err("too much");
    assert_eq!(error.reason(), "too-many-values");
    let many = format!("[{}1]", "1,".repeat(600_000));
    let error = parse(Json, many.as_bytes()).expect_err("too much");
    assert_eq!(error.reason(), "too-many-values");
}

#[test]
fn a_file_of_many_differences_is_told_in_part() {
    let lines = |value: u32| -> String { (0..3000).map(|n| format!("k{n}={value}\n")).collect() };
    let Ok(Verdict::Differs(differences)) = verdict(
        Env,
        &Rules::default(),
        lines(1).as_bytes(),
        lines(2).as_bytes(),
    ) else {
        panic!("they differ");
    };
    assert_eq!((differences.list.len(), differences.omitted), (1000, 2000));
}
