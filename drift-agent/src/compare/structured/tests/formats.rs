//! What each format takes for the same, and what not.

use super::{Format::*, check};

#[test]
fn yaml_written_in_another_way_is_equivalent() {
    // B050, B052
    check(Yaml, "a: 1\nb: 2\n", "# new\nb: 2\na:   1\n", "equivalent");
    check(
        Yaml,
        "a: [1, {b: c}]",
        "a:\n  - 1\n  -   b: c\n",
        "equivalent",
    );
    check(Yaml, "a: x y\n", "a: 'x y'\n", "equivalent");
    check(
        Yaml,
        "a: \"l1\\nl2\\n\"\n",
        "a: |\n  l1\n  l2\n",
        "equivalent",
    );
    check(
        Yaml,
        "a: 16\nb: 1e3\n",
        "a: 0x10\nb: 1000.0\n",
        "equivalent",
    );
    check(Yaml, "a: 1\n", "---\na: 1\n...\n", "equivalent");
    check(
        Yaml,
        "a: 1\n---\nb: 1\n",
        "---\n# nothing\n---\na: 1\n---\nb: 1\n---\n",
        "equivalent",
    );
    check(Yaml, "a: ~\n", "a:\n", "equivalent");
    check(Yaml, "a: 1\n", "\u{feff}a: 1\n", "equivalent");
    check(
        Yaml,
        "a: 1.2.3\nb: 10.0.0.1\nc: 8080:80\n",
        "a: '1.2.3'\nb: \"10.0.0.1\"\nc: '8080:80'\n",
        "equivalent",
    );
    check(Yaml, "{\"a\": 1}", "a: 1\n", "equivalent");
}

#[test]
fn yaml_aliases_and_merge_keys_are_what_they_stand_for() {
    check(
        Yaml,
        "a: &x {k: 1}\nb: *x\n",
        "a: {k: 1}\nb: {k: 1}\n",
        "equivalent",
    );
    check(
        Yaml,
        "a: &x {k: 1}\nb: *x\n",
        "a: {k: 2}\nb: {k: 1}\n",
        "changed /a/k 1 -> 2",
    );
    let merged = "x: &x {k: 1, l: 1}\ny: &y {l: 2, m: 2}\na:\n  k: 0\n  <<: [*x, *y]\n";
    check(
        Yaml,
        merged,
        "x: {k: 1, l: 1}\ny: {l: 2, m: 2}\na: {k: 0, l: 1, m: 2}\n",
        "equivalent",
    );
    check(
        Yaml,
        merged,
        "x: {k: 1, l: 1}\ny: {l: 2, m: 2}\na: {k: 0, l: 2, m: 2}\n",
        "changed /a/l 1 -> 2",
    );
    check(
        Yaml,
        "x: &x {k: 1}\na:\n  <<: *x\n",
        "x: {k: 1}\na: {k: 1}\n",
        "equivalent",
    );
    check(
        Yaml,
        "a: {'<<': 1}\n",
        "a: {'<<': 2}\n",
        "changed /a/<< 1 -> 2",
    );
}

#[test]
fn yaml_kinds_are_kept_apart() {
    check(Yaml, "a: 1\n", "a: '1'\n", "changed /a 1 -> \"1\"");
    check(Yaml, "a: 1\n", "a: 1.0\n", "changed /a 1 -> 1.0");
    check(
        Yaml,
        "a: true\n",
        "a: 'true'\n",
        "changed /a true -> \"true\"",
    );
    check(Yaml, "a: no\n", "a: 'no'\n", "changed /a no -> \"no\"");
    check(Yaml, "a: 0644\n", "a: 644\n", "changed /a 0644 -> 644");
    check(
        Yaml,
        "a: 12:30:00\n",
        "a: '12:30:00'\n",
        "changed /a 12:30:00 -> \"12:30:00\"",
    );
    check(
        Yaml,
        "a: 2001-12-14\n",
        "a: '2001-12-14'\n",
        "changed /a 2001-12-14 -> \"2001-12-14\"",
    );
    check(Yaml, "a: !vault x\n", "a: x\n", "changed /a !vault x -> x");
    check(Yaml, "a: !!str 1\n", "a: '1'\n", "equivalent");
    check(
        Yaml,
        "a: [1, 2]\n",
        "a: [2, 1]\n",
        "changed /a/0 1 -> 2\nchanged /a/1 2 -> 1",
    );
    check(Yaml, "a: []\n", "a: {}\n", "changed /a [] -> {}");
}

#[test]
fn yaml_documents_are_told_by_number() {
    check(
        Yaml,
        "a: 1\n---\nb: 1\n",
        "a: 1\n---\nb: 2\n",
        "changed #1/b 1 -> 2",
    );
    check(
        Yaml,
        "a: 1\n---\nb: 1\n",
        "a: 1\n",
        "removed #1 {b: 1} -> -",
    );
    check(Yaml, "", "a: 1\n", "added  - -> {a: 1}");
    check(Yaml, "# nothing\n", "", "equivalent");
}

#[test]
fn json_is_json() {
    check(
        Json,
        r#"{"a": 1, "b": [1, 2]}"#,
        "{\n  \"b\": [1,2],\n  \"a\": 1\n}\n",
        "equivalent",
    );
    check(
        Json,
        r#"{"a": "é/\u0041😀"}"#,
        r#"{"a": "\u00e9\/A\ud83d\ude00"}"#,
        "equivalent",
    );
    check(Json, r#"{"a": 1e2}"#, r#"{"a": 100.0}"#, "equivalent");
    check(
        Json,
        r#"{"a": 1}"#,
        r#"{"a": "1"}"#,
        "changed /a 1 -> \"1\"",
    );
    check(
        Json,
        r#"{"a": 9007199254740992}"#,
        r#"{"a": 9007199254740993}"#,
        "changed /a 9007199254740992 -> 9007199254740993",
    );
    check(
        Json,
        r#"{"a": {"b": null}}"#,
        r#"{"a": {}}"#,
        "removed /a/b null -> -",
    );
    check(Json, "[1]", "[1, 2]", "added /1 - -> 2");
    check(
        Json,
        r#"{"a/b": {"c~d": 1}}"#,
        r#"{"a/b": {"c~d": 2}}"#,
        "changed /a~1b/c~0d 1 -> 2",
    );
}

#[test]
fn json5_is_what_people_write() {
    let json5 = "// c\n{a: 'x', /* c */ \"b\": [1, 2,], c: +.5, d: 0xFF, e: Infinity,}\n";
    check(
        Json5,
        r#"{"a": "x", "b": [1, 2], "c": 0.5, "d": 255, "e": Infinity}"#,
        json5,
        "equivalent",
    );
    check(
        Json5,
        "{a: 'it\\'s\\\n one'}",
        r#"{"a": "it's one"}"#,
        "equivalent",
    );
    check(Json5, "{a: 1}", "{a: 2}", "changed /a 1 -> 2");
}

#[test]
fn toml_is_tables() {
    check(
        Toml,
        "[a]\nb = 1\n[a.c]\nd = 'x'\n",
        "a.b = 0x1 # c\na.c = { d = \"x\" }\n",
        "equivalent",
    );
    check(
        Toml,
        "[[a]]\nb = 1\n[[a]]\nb = 2\n",
        "a = [{b = 1}, {b = 2}]\n",
        "equivalent",
    );
    check(
        Toml,
        "a = 1_000\nb = 1.50\n",
        "b = 1.5\na = 1000\n",
        "equivalent",
    );
    check(
        Toml,
        "a = 1979-05-27\n",
        "a = '1979-05-27'\n",
        "changed /a 1979-05-27 -> \"1979-05-27\"",
    );
    check(Toml, "a = 1\n", "a = 1.0\n", "changed /a 1 -> 1.0");
    check(
        Toml,
        "[[a]]\nb = 1\n",
        "[[a]]\nb = 1\n[[a]]\nb = 2\n",
        "added /a/1 - -> {b: 2}",
    );
}

#[test]
fn ini_is_sections() {
    check(
        Ini,
        "[a]\nk=v\nl=w\n[b]\n",
        "; c\n[b]\n\n[a]\n  l = w\n  k : v\n",
        "equivalent",
    );
    check(Ini, "[a]\nk=v\n", "[a]\nk=w\n", "changed /a/k v -> w");
    check(
        Ini,
        "[a]\nk=v\n",
        "[a]\nk=\"v\"\n",
        "changed /a/k v -> \"v\"",
    );
    check(
        Ini,
        "[a]\nk=v ; c\n",
        "[a]\nk=v\n",
        "changed /a/k v ; c -> v",
    );
    check(
        Ini,
        "[S]\nE=a\nE=b\n",
        "[S]\nE=b\nE=a\n",
        "changed /S/E/0 a -> b\nchanged /S/E/1 b -> a",
    );
    check(Ini, "[S]\nE=a\n", "[S]\nE=a\nE=b\n", "added /S/E/1 - -> b");
    check(
        Ini,
        "[P]\nK=1\n[P]\nK=2\nA=x\n",
        "[P]\nK=1\nA=x\n[P]\nK=2\n",
        "added /P/0/A - -> x\nremoved /P/1/A x -> -",
    );
    check(Ini, "[S]\nE=a \\\n  b\n", "[S]\nE=a b\n", "equivalent");
    check(
        Ini,
        "[S]\nE=a\n  b\nF=1\n",
        "[S]\nE=a\nF=1\n",
        "changed /S/E a\\x0ab -> a",
    );
    check(
        Ini,
        "[core]\n\tbare\n\tx = 1\n",
        "[core]\n\tx = 1\n",
        "removed /core/bare null -> -",
    );
    check(
        Ini,
        "[remote \"o\"] ; c\nurl=x\n",
        "[remote \"o\"]\nurl=y\n",
        "changed /remote \"o\"/url x -> y",
    );
    check(Ini, "k=1\n[a]\n", "k=2\n[a]\n", "changed /k 1 -> 2");
}

#[test]
fn env_is_names_and_values() {
    check(
        Env,
        "A=1\nB=x y\n",
        "# c\nB=\"x y\"\n\nA='1'   # c\n",
        "equivalent",
    );
    check(Env, "A=\"l1\\nl2\"\n", "A='l1\nl2'\n", "equivalent");
    check(Env, "A=1 # c\n", "A=1\n", "equivalent");
    check(Env, "A=1#c\n", "A=1\n", "changed /A 1#c -> 1");
    check(
        Env,
        "A=$HOME\n",
        "A='$HOME'\n",
        "changed /A $HOME -> \"$HOME\"",
    );
    check(Env, "A=$HOME\n", "A=\"$HOME\"\n", "equivalent");
    check(Env, "export A=1\n", "A=1\n", "changed /A export 1 -> 1");
    check(Env, "export A=1\n", "export   A=\"1\"\n", "equivalent");
    check(
        Env,
        "A=1\nA=2\n",
        "A=2\nA=1\n",
        "changed /A/0 1 -> 2\nchanged /A/1 2 -> 1",
    );
    check(Env, "a.b: c d # e\n! c\n", "a.b = c d # e\n", "equivalent");
    check(Env, "a = b \\\n   c\n", "a = b c\n", "equivalent");
    check(Env, "A=a\"b\"\n", "A=ab\n", "changed /A a\"b\" -> ab");
}

#[test]
fn keyvalue_is_lines() {
    check(
        KeyValue,
        "Port 22\nUseDNS no\n",
        "# c\nUseDNS no\nPort   22\n",
        "equivalent",
    );
    check(
        KeyValue,
        "net.ipv4.ip_forward = 1\n",
        "net.ipv4.ip_forward=1\n",
        "equivalent",
    );
    check(
        KeyValue,
        "Port 22\n",
        "Port 22\nPort 2222\n",
        "added /Port/1 - -> 2222",
    );
    check(
        KeyValue,
        "AcceptEnv A\nAcceptEnv B\n",
        "AcceptEnv B\nAcceptEnv A\n",
        "changed /AcceptEnv/0 A -> B\nchanged /AcceptEnv/1 B -> A",
    );
    check(
        KeyValue,
        "X11Forwarding no\nMatch User a\nPasswordAuthentication yes\n",
        "X11Forwarding no\nPasswordAuthentication yes\nMatch User a\n",
        "removed /Match/PasswordAuthentication yes -> -\nadded /PasswordAuthentication - -> yes",
    );
    check(
        KeyValue,
        "Match User a\n  A 1\nMatch User b\n  A 2\n",
        "Match User b\n  A 2\nMatch User a\n  A 1\n",
        "changed /Match/0/Match User a -> User b\nchanged /Match/0/A 1 -> 2\nchanged /Match/1/Match User b -> User a\nchanged /Match/1/A 2 -> 1",
    );
    check(
        KeyValue,
        "Host = x\nPort = 1\n",
        "Port = 1\nHost = x\n",
        "equivalent",
    );
}
