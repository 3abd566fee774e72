//! Cases from the field that are about no rule or format alone.

use super::{Format::*, *};

#[test]
fn a_file_that_does_not_parse_is_a_verdict_and_a_policy_that_does_not_is_another() {
    check(
        Json,
        "{}",
        "{",
        "observed 1:2: expected a key in double quotes",
    );
    check(
        Json,
        "{",
        "{}",
        "declared 1:2: expected a key in double quotes",
    );
    // It may be the same byte for byte, and nobody can say what it means.
    check(
        Json,
        "{",
        "{",
        "declared 1:2: expected a key in double quotes",
    );
}

#[test]
fn the_same_bytes_are_the_same() {
    for (_, format) in Format::ALL {
        let text = if matches!(format, Json | Json5 | Yaml) {
            "{\"a\": 1}"
        } else {
            "a = 1\n"
        };
        check(format, text, text, "");
    }
}

#[test]
fn digests_tell_values_apart_and_nothing_else() {
    let digest = |text: &str| {
        let Ok(Verdict::Differs(differences)) =
            verdict(Yaml, &Rules::default(), b"a: 0\n", text.as_bytes())
        else {
            panic!("they differ");
        };
        differences.list[0]
            .observed
            .as_ref()
            .expect("a value")
            .digest
    };
    assert_eq!(
        digest("a: {x: 1, y: [2]}\n"),
        digest("a:\n  y:\n  - 2\n  x: 1\n")
    );
    assert_ne!(
        digest("a: {x: 1, y: [2]}\n"),
        digest("a: {x: 1, y: ['2']}\n")
    );
    assert_ne!(digest("a: [b, c]\n"), digest("a: [bc]\n"));
    assert_ne!(digest("a: [[b], c]\n"), digest("a: [[b, c]]\n"));
}

#[test]
fn nothing_of_a_value_is_in_debug_output() {
    // B138
    let secret = "hunter2-sentinel";
    let Ok(Verdict::Differs(differences)) = verdict(
        Env,
        &Rules::default(),
        b"A=1\n",
        format!("A={secret}\n").as_bytes(),
    ) else {
        panic!("they differ");
    };
    let tree = parse(Env, format!("A={secret}\n").as_bytes()).expect("parses");
    assert!(!format!("{differences:?} {tree:?}").contains(secret));
    // Nor in what is said of a file that does not parse.
    for (_, format) in Format::ALL {
        let text = format!("[{secret}\n\"{secret}: [{secret} = \"{secret}");
        if let Err(error) = parse(format, text.as_bytes()) {
            assert!(!error.to_string().contains(secret), "{format:?} {error}");
        }
    }
}

#[test]
fn what_is_shown_is_masked_and_what_is_written_is_not() {
    // B134: a mask (`•••`, `*** (after)`) once got into the live object.
    let declared = b"user=app\nDB_PASSWORD='hunter2 sentinel'\n";
    let observed = b"user=app\nDB_PASSWORD=wrong\nother=1\n";
    let rules = Rules::default().manage("/DB_PASSWORD").expect("a pointer");
    let Ok(Verdict::Differs(differences)) = verdict(Env, &rules, declared, observed) else {
        panic!("they differ");
    };
    let shown = Redactor::default().listing(&differences);
    assert_eq!(
        shown[0].to_string(),
        "DB_PASSWORD  •••  ->  •••   (changed; redacted by key name)"
    );
    let tree = parse(Env, declared).expect("parses");
    let edited = edit(&tree, observed, &rules).expect("can be edited");
    assert_eq!(
        String::from_utf8_lossy(&edited),
        "user=app\nDB_PASSWORD=\"hunter2 sentinel\"\nother=1\n"
    );
}
