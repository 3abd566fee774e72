//! What looks the same to people and is not to the programs that read it.

use super::{Format::*, *};

/// A text of each format that is made of lines, whose first value is 22.
const LINES: [(Format, &str); 3] = [
    (KeyValue, "Port 22\n"),
    (Env, "A=22\n"),
    (Ini, "[a]\nb=22\n"),
];

#[track_caller]
fn differs(format: Format, declared: &str, observed: &str) {
    match verdict(
        format,
        &Rules::default(),
        declared.as_bytes(),
        observed.as_bytes(),
    ) {
        Ok(Verdict::Unparsable(_)) => {}
        Ok(Verdict::Differs(differences)) if !differences.is_equivalent() => {}
        other => panic!("{format:?} {declared:?} {observed:?}: {other:?}"),
    }
}

#[test]
fn only_blanks_and_tabs_are_white_space_in_lines() {
    for (format, text) in LINES {
        let end = text.len() - 1;
        for odd in [
            "\u{a0}", "\u{b}", "\u{c}", "\u{85}", "\u{2028}", "\u{3000}", "\u{200b}",
        ] {
            differs(format, text, &format!("{}{odd}\n", &text[..end]));
            differs(format, text, &format!("{odd}{text}"));
            differs(format, text, &format!("{text}{odd}\n"));
        }
        let padded = format!(" \t{} \t\n \t\n", &text[..end]);
        check(format, text, &padded, "equivalent");
    }
    differs(KeyValue, "Port 22\n", "Port\u{a0}22\n");
    differs(KeyValue, "Port = 22\n", "Port\u{a0}=\u{a0}22\n");
    differs(Env, "A=22 # c\n", "A=22\u{a0}# c\n");
    differs(Ini, "[a]\nb = 22\n", "[a]\nb\u{a0}= 22\n");
    check(KeyValue, "Port 22\n", "Port\t22\r\n", "equivalent");
}

#[test]
fn a_byte_order_mark_is_a_change_where_programs_stumble_over_it() {
    for (format, text) in LINES
        .into_iter()
        .chain([(Json, "{\"a\": 1}\n"), (Toml, "a = 1\n")])
    {
        let marked = format!("\u{feff}{text}");
        check(format, text, &marked, "added  - -> a byte order mark");
        check(format, &marked, text, "removed  a byte order mark -> -");
        check(format, &marked, &marked, "");
    }
    for (format, text) in [(Yaml, "a: 1\n"), (Json5, "{a: 1}\n")] {
        check(format, text, &format!("\u{feff}{text}"), "equivalent");
    }
    // Who manages a key has no say in how the file begins.
    let rules = Rules::default().manage("/Port").expect("a pointer");
    check_with(KeyValue, &rules, "Port 22\n", "\u{feff}Port 22\n", "");
}

#[test]
fn blanks_in_the_brackets_of_a_section_belong_to_its_name() {
    check(
        Ini,
        "[Unit]\nA=1\n",
        "[ Unit ]\nA=1\n",
        "removed /Unit {A: 1} -> -\nadded / Unit  - -> {A: 1}",
    );
}

#[test]
fn a_tab_in_the_indentation_is_no_yaml() {
    for observed in [
        "\ta: 1\n",
        " \ta: 1\n",
        "\t- a\n",
        "# c\n\ta:\n    b: 1\n",
        "a:\n\tb: 1\n",
    ] {
        match verdict(Yaml, &Rules::default(), b"a: 1\n", observed.as_bytes()) {
            Ok(Verdict::Unparsable(error)) => assert!(error.message.contains("tab"), "{error}"),
            other => panic!("{observed:?}: {other:?}"),
        }
    }
    check(Yaml, "a: [1, 2]\n", "a: [1,\n\t2]\n\t# c\n", "equivalent");
}

#[test]
fn json5_knows_no_next_line_character() {
    differs(Json5, "{a: 1}\n", "{a:\u{85}1}\n");
    check(Json5, "{a: 1}\n", "{a:\u{a0}1}\u{2028}\n", "equivalent");
}

#[test]
fn json5_keys_may_have_escapes() {
    check(Json5, "{key: 1}\n", "{k\\u0065y: 1}\n", "equivalent");
    check(Json5, "{a: 1}\n", "{\\u0061: 2}\n", "changed /a 1 -> 2");
    for odd in [
        "{\\u0020: 1}\n",
        "{\\u006: 1}\n",
        "{\\u0031a: 1}\n",
        "{a\\n: 1}\n",
    ] {
        differs(Json5, "{a: 1}\n", odd);
    }
}
