//! Observed text + declared text + managed pointers -> edited text.

mod yaml;

use super::{Format::*, *};

fn managing(pointers: &[&str]) -> Rules {
    pointers.iter().fold(Rules::default(), |rules, pointer| {
        rules.manage(pointer).expect("a pointer")
    })
}

#[track_caller]
fn edited(
    format: Format,
    managed: &[&str],
    declared: &str,
    observed: &str,
) -> Result<String, EditError> {
    let rules = managing(managed);
    let declared = parse(format, declared.as_bytes()).expect("declared parses");
    let text = edit(&declared, observed.as_bytes(), &rules)?;
    // A second time changes nothing.
    assert_eq!(edit(&declared, &text, &rules).as_ref(), Ok(&text));
    Ok(String::from_utf8(text).expect("UTF-8"))
}

#[track_caller]
fn check(format: Format, managed: &[&str], declared: &str, observed: &str, expected: &str) {
    match edited(format, managed, declared, observed) {
        Ok(text) => assert_eq!(
            text, expected,
            "\n--- is\n{text}\n--- should be\n{expected}"
        ),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn json_keeps_what_is_not_managed() {
    // B119
    let observed = "{\n\t\"b\" : 1,\n\t\"a\": 1,\n\n\t\"c\": {\"x\": [1,2]}\n}\n";
    check(
        Json,
        &["/a"],
        r#"{"a": "x"}"#,
        observed,
        &observed.replace("\"a\": 1", "\"a\": \"x\""),
    );
    check(
        Json,
        &["/a"],
        "{}",
        observed,
        &observed.replace("\t\"a\": 1,\n", ""),
    );
    check(
        Json,
        &["/c"],
        "{}",
        observed,
        "{\n\t\"b\" : 1,\n\t\"a\": 1\n\n}\n",
    );
    check(
        Json,
        &["/d"],
        r#"{"d": {"k": 1}}"#,
        observed,
        &observed.replace("[1,2]}", "[1,2]},\n\t\"d\": {\n\t\t\"k\": 1\n\t}"),
    );
    check(
        Json,
        &["/c/y"],
        r#"{"c": {"y": null}}"#,
        observed,
        &observed.replace("[1,2]", "[1,2], \"y\": null"),
    );
    check(
        Json,
        &["/c/x"],
        r#"{"c": {"x": [1, 3]}}"#,
        observed,
        &observed.replace("2]", "3]"),
    );
    check(
        Json,
        &["/a", "/b", "/c"],
        "{}",
        r#"{"a": 1, "b": 2, "c": 3, "d": 4}"#,
        r#"{"d": 4}"#,
    );
    check(
        Json,
        &["/b", "/d"],
        "{}",
        r#"{"a": 1, "b": 2, "c": 3, "d": 4}"#,
        r#"{"a": 1, "c": 3}"#,
    );
    check(Json, &["/a"], r#"{"a": 1}"#, "{}", r#"{"a": 1}"#);
    check(Json, &["/a"], r#"{"a": 1}"#, "{\n}\n", "{\n  \"a\": 1\n}\n");
    check(
        Json,
        &["/a/b"],
        r#"{"a": {"b": "ü\n"}}"#,
        r#"{"c": 1}"#,
        r#"{"c": 1, "a": {"b": "ü\n"}}"#,
    );
}

#[test]
fn json5_keeps_comments() {
    let observed = "// head\n{\n  a: 1, // one\n  /* b */ 'b': 2, // two\n}\n";
    check(
        Json5,
        &["/a"],
        "{a: 2}",
        observed,
        &observed.replace("a: 1", "a: 2"),
    );
    check(
        Json5,
        &["/c"],
        "{c: 3}",
        observed,
        &observed.replace("// two\n", "// two\n  \"c\": 3,\n"),
    );
    check(
        Json5,
        &["/b"],
        "{}",
        observed,
        &observed.replace("'b': 2, ", ""),
    );
    check(
        Json5,
        &["/c"],
        "{c: 3}",
        "{\n  a: 1 // one\n}\n",
        "{\n  a: 1, // one\n  \"c\": 3\n}\n",
    );
}

#[test]
fn toml_keeps_what_is_not_managed() {
    let observed =
        "# head\na = 1 # one\n\n[s]   # s\nx = 'y'  # y\nl = [ 1, 2 ]\n\n[s.t]\nk = { m = 1 }\n";
    check(
        Toml,
        &["/a"],
        "a = 2\n",
        observed,
        &observed.replace("a = 1", "a = 2"),
    );
    check(
        Toml,
        &["/s/x"],
        "s.x = \"z\"\n",
        observed,
        &observed.replace("'y'", "\"z\""),
    );
    check(
        Toml,
        &["/s/n"],
        "s.n = 1.5\n",
        observed,
        &observed.replace("2 ]\n", "2 ]\nn = 1.5\n"),
    );
    check(
        Toml,
        &["/s/x"],
        "",
        observed,
        &observed.replace("x = 'y'  # y\n", ""),
    );
    check(
        Toml,
        &["/s/t/k/o"],
        "s.t.k.o = 'p'\n",
        observed,
        &observed.replace("m = 1 }", "m = 1, o = \"p\" }"),
    );
    check(
        Toml,
        &["/b"],
        "b = true\n",
        observed,
        &observed.replace("# one\n", "# one\nb = true\n"),
    );
    check(
        Toml,
        &["/n"],
        "[n]\nk = 1\n[n.o]\np = 1979-05-27\n",
        observed,
        &format!("{observed}\n[n]\nk = 1\n\n[n.o]\np = 1979-05-27\n"),
    );
    check(
        Toml,
        &["/s/t"],
        "",
        observed,
        &observed.replace("[s.t]\nk = { m = 1 }\n", ""),
    );
    check(
        Toml,
        &["/b"],
        "b = 1\n",
        "# c\n[s]\n",
        "b = 1\n\n# c\n[s]\n",
    );
    check(
        Toml,
        &["/s/x"],
        "s.x = 1\n",
        "a = 1\r\n[s]\r\nx = 2\r\n",
        "a = 1\r\n[s]\r\nx = 1\r\n",
    );
    check(
        Toml,
        &["/s/u"],
        "s.u = 1\n",
        "s.x = 1\n",
        "s.x = 1\ns.u = 1\n",
    );
    check(
        Toml,
        &["/p/*/k"],
        "[[p]]\nk = 1\n[[p]]\nk = 2\n",
        "[[p]]\nk = 0 # c\n[[p]]\nk = 2\n",
        "[[p]]\nk = 1 # c\n[[p]]\nk = 2\n",
    );
}

#[test]
fn ini_keeps_what_is_not_managed() {
    let observed = "; head\n[a]\nk = v\n; c\nl = w\n\n[b]\nE=1\nE=2\n";
    check(
        Ini,
        &["/a/k"],
        "[a]\nk=x\n",
        observed,
        &observed.replace("k = v", "k = x"),
    );
    check(
        Ini,
        &["/a/m"],
        "[a]\nm=x\n",
        observed,
        &observed.replace("l = w\n", "l = w\nm = x\n"),
    );
    check(
        Ini,
        &["/a/k"],
        "",
        observed,
        &observed.replace("k = v\n", ""),
    );
    check(
        Ini,
        &["/b/E"],
        "[b]\nE=1\nE=3\nE=4\n",
        observed,
        &observed.replace("E=2\n", "E=3\nE=4\n"),
    );
    check(
        Ini,
        &["/b/E"],
        "[b]\nE=1\n",
        observed,
        &observed.replace("E=2\n", ""),
    );
    check(
        Ini,
        &["/c"],
        "[c]\nk=1\n",
        observed,
        &format!("{observed}\n[c]\nk = 1\n"),
    );
    check(
        Ini,
        &["/g"],
        "g=1\n",
        observed,
        &observed.replace("[a]\n", "g = 1\n\n[a]\n"),
    );
    check(Ini, &["/a"], "", observed, "; head\n\n[b]\nE=1\nE=2\n");
    check(
        Ini,
        &["/a/k"],
        "[a]\nk\n",
        observed,
        &observed.replace("k = v", "k"),
    );
}

#[test]
fn env_keeps_what_is_not_managed() {
    let observed = "# head\nexport A=1 # one\nB=\"x y\"\n\nC='z'\n";
    check(
        Env,
        &["/A"],
        "export A=2\n",
        observed,
        &observed.replace("A=1", "A=2"),
    );
    check(
        Env,
        &["/B"],
        "B=\"a \\\"b\\\" $$\"\n",
        observed,
        &observed.replace("\"x y\"", "\"a \\\"b\\\" $$\""),
    );
    check(
        Env,
        &["/C"],
        "C='$x'\n",
        observed,
        &observed.replace("'z'", "'$x'"),
    );
    check(
        Env,
        &["/D"],
        "D='a b'\n",
        observed,
        &format!("{observed}D=\"a b\"\n"),
    );
    check(
        Env,
        &["/B"],
        "",
        observed,
        &observed.replace("B=\"x y\"\n", ""),
    );
    check(
        Env,
        &["/A"],
        "A=1\n",
        observed,
        &observed.replace("export A=1", "A=1"),
    );
    check(
        Env,
        &["/a.c"],
        "a.c = 1 2\n",
        "a.b = x\n",
        "a.b = x\na.c = 1 2\n",
    );
}

#[test]
fn keyvalue_keeps_what_is_not_managed() {
    let observed = "# head\nPort 22\n#UseDNS no\nAcceptEnv A\nAcceptEnv B\nMatch User a\n\tX 1\n";
    check(
        KeyValue,
        &["/Port"],
        "Port 2222\n",
        observed,
        &observed.replace("22\n", "2222\n"),
    );
    check(
        KeyValue,
        &["/UseDNS"],
        "UseDNS no\n",
        observed,
        &observed.replace("B\n", "B\nUseDNS no\n"),
    );
    check(
        KeyValue,
        &["/AcceptEnv"],
        "AcceptEnv A\nAcceptEnv B\nAcceptEnv C\n",
        observed,
        &observed.replace("B\n", "B\nAcceptEnv C\n"),
    );
    check(
        KeyValue,
        &["/Match/X"],
        "Match User a\nX 2\n",
        observed,
        &observed.replace("X 1", "X 2"),
    );
    check(
        KeyValue,
        &["/Match/Y"],
        "Match User a\nY 2\n",
        observed,
        &format!("{observed}\tY 2\n"),
    );
    check(
        KeyValue,
        &["/Port"],
        "",
        observed,
        &observed.replace("Port 22\n", ""),
    );
    check(
        KeyValue,
        &["/net.b"],
        "net.b=1\n",
        "net.a = 1\n",
        "net.a = 1\nnet.b = 1\n",
    );
    check(
        KeyValue,
        &["/Port"],
        "Port 1\n",
        "Match User a\n",
        "Port 1\n\nMatch User a\n",
    );
}

#[test]
fn what_cannot_be_done_with_certainty_is_refused() {
    let reason = |format, managed: &[&str], declared: &str, observed: &str| {
        edited(format, managed, declared, observed).map_err(|error| error.reason())
    };
    assert_eq!(reason(Json, &[], "{}", "{}"), Err("nothing-managed"));
    assert_eq!(reason(Json, &["/a"], "{}", "{"), Err("unparsable"));
    assert_eq!(
        reason(Json, &["/a/b"], r#"{"a": {"b": 1}}"#, r#"{"a": 1}"#),
        Err("unsupported-edit")
    );
    assert_eq!(
        reason(KeyValue, &["/a"], "a 1\n", "Match x\n"),
        Ok("a 1\n\nMatch x\n".to_owned())
    );
    assert_eq!(
        reason(Ini, &["/a/k"], "[a]\nk=v\n", "a = 1\n"),
        Err("unsupported-edit")
    );
}

#[test]
fn what_is_equal_under_the_rules_is_left_as_it_is() {
    let rules = managing(&["/a", "/b"])
        .equal("/a", Equal::Quantity)
        .expect("a pointer");
    let declared = parse(Yaml, b"a: 1\nb: 2\n").expect("parses");
    let edited = edit(&declared, b"a: 1000m\nb: 1\n", &rules).expect("can be edited");
    assert_eq!(edited, b"a: 1000m\nb: 2\n");
}
