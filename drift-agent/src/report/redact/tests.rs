//! What is seen of what.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::compare::structured::{Differences, Format, Meaning, Rules, Verdict};

fn keyed(keys: &[&str], text: &str) -> Redactable<'static> {
    let keys: Vec<Arc<str>> = keys.iter().map(|key| Arc::from(*key)).collect();
    let mut redactable = Redactable::default();
    redactable.value(&keys, text.to_owned());
    redactable
}

#[track_caller]
fn check(redactor: &Redactor, keys: &[&str], text: &str, shown: &str, why: Option<Why>) {
    let found = redactor.show(&keyed(keys, text));
    assert_eq!((found.to_string().as_str(), found.why()), (shown, why));
}

#[test]
fn each_level_hides_what_it_says() {
    let (none, keys, all) = (
        Redactor::new(Redact::None),
        Redactor::default(),
        Redactor::new(Redact::All),
    );
    check(&none, &["password"], "x", "x", None);
    check(&keys, &["password"], "x", "•••", Some(Why::Key));
    check(&keys, &["tls", "password"], "x", "•••", Some(Why::Key));
    check(&keys, &["credentials", "user"], "x", "•••", Some(Why::Key));
    check(&keys, &["listen"], "80", "80", None);
    check(
        &keys,
        &["url"],
        "db://u:pw@h",
        "db://u:•••@h",
        Some(Why::Look),
    );
    check(&all, &["listen"], "80", "•••", Some(Why::All));
    check(
        &keys,
        &["name"],
        "a\u{1b}[2J\u{202e}\n",
        "a\\x1b[2J\\xe2\\x80\\xae\\x0a",
        None,
    );
    let allowed = Redactor::default().with_allowed("Passwd");
    check(
        &allowed,
        &["passwd"],
        "files systemd",
        "files systemd",
        None,
    );
}

#[test]
fn declared_secrets_are_hidden_at_every_level_and_nothing_else_is() {
    // B138, B139
    for level in [Redact::None, Redact::Keys] {
        let redactor = Redactor::new(level)
            .with_secret("LIVE")
            .with_secret("hunter2!");
        check(&redactor, &["k"], "LIVE", "•••", Some(Why::Secret));
        check(&redactor, &["k"], "DELIVERY", "DELIVERY", None);
        check(&redactor, &["k"], "is LIVE now", "is LIVE now", None);
        check(
            &redactor,
            &["k"],
            "-p hunter2! -x",
            "-p ••• -x",
            Some(Why::Secret),
        );
        check(&redactor, &["k"], "xhunter2!", "xhunter2!", None);
    }
    let long = "correct-horse-battery";
    let redactor = Redactor::new(Redact::None).with_secret(long);
    check(
        &redactor,
        &["k"],
        &format!("x{long}y"),
        "x•••y",
        Some(Why::Secret),
    );
    let lines = Redactor::new(Redact::None).with_secret("first line\nsecond line\n");
    check(&lines, &["k"], "second line", "•••", Some(Why::Secret));
}

#[test]
fn nothing_of_a_secret_is_in_debug_output() {
    let redactor = Redactor::default().with_secret("sentinel-1");
    let text = format!("{redactor:?} {:?}", keyed(&["k"], "sentinel-2"));
    assert!(!text.contains("sentinel"), "{text}");
}

#[track_caller]
fn unified(redactor: &Redactor, declared: &str, observed: &str, expected: &[&str]) {
    let lines = redactor.unified(declared.as_bytes(), observed.as_bytes());
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    assert_eq!(lines, expected);
}

#[test]
fn lines_are_shown_as_people_know_it() {
    unified(
        &Redactor::default(),
        "a\nb\nc\n",
        "a\nx\nc\n",
        &["@@ -1,3 +1,3 @@", " a", "-b", "+x", " c"],
    );
    unified(&Redactor::default(), "a", "a", &[]);
    unified(
        &Redactor::default(),
        "a",
        "a\n",
        &["@@ -1,1 +1,1 @@", "-a", "+a"],
    );
    let long = "x".repeat(300);
    let cut = format!("+{}…", "x".repeat(98));
    unified(&Redactor::default(), "", &long, &["@@ -1,0 +1,1 @@", &cut]);
    let many: String = (0..1000).map(|n| format!("{n}\n")).collect();
    let lines = Redactor::default().unified(b"", many.as_bytes());
    assert_eq!(lines.len(), 201);
    assert_eq!(lines[200].to_string(), "… and 801 more lines");
}

#[test]
fn lines_of_secrets_are_hidden() {
    #[track_caller]
    fn added(text: &str, expected: &[&str]) {
        let lines = Redactor::default().unified(b"", text.as_bytes());
        let lines: Vec<String> = lines.iter().skip(1).map(ToString::to_string).collect();
        assert_eq!(lines, expected, "{text}");
    }
    added("password = x y\n", &["+password = •••"]);
    added("requirepass x\n", &["+requirepass •••"]);
    added("  \"password\": \"x\",\n", &["+  \"password\": •••"]);
    added(
        "ExecStart=/bin/x --token=abc --port 1\n",
        &["+ExecStart=/bin/x --token=•••"],
    );
    added(
        "ExecStart=/bin/x --token abc\n",
        &["+ExecStart=/bin/x --token •••"],
    );
    added("export DB_PASSWORD=x\n", &["+export DB_PASSWORD=•••"]);
    added(
        "password: |\n  l1\n\n  l2\nport: 1\n",
        &["+password: |", "+  •••", "+", "+  •••", "+port: 1"],
    );
    added(
        "tokens:\n- a\n- b\nport: 1\n",
        &["+tokens:", "+•••", "+•••", "+port: 1"],
    );
    added("key = \"\"\"\n", &["+key = \"\"\""]);
    added(
        "secret = \"\"\"\nx\ny\"\"\"\nport = 1\n",
        &["+secret = •••", "+•••", "+•••", "+port = 1"],
    );
    added(
        "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nx\n",
        &[
            "+-----BEGIN RSA PRIVATE KEY-----",
            "+•••",
            "+-----END RSA PRIVATE KEY-----",
            "+x",
        ],
    );
    added(
        "PasswordAuthentication no\n",
        &["+PasswordAuthentication no"],
    );
    added("DELIVERY=on\n", &["+DELIVERY=on"]);
    // B138: keys as other languages have them.
    added("<password>x</password>\n", &["+<password>•••"]);
    added(
        "define('DB_PASSWORD', 'x');\n",
        &["+define('DB_PASSWORD', •••"],
    );
    added("$cfg['password'] = 'x';\n", &["+$cfg['password'] = •••"]);
    added(
        "machine h login u password x\n",
        &["+machine h login u password •••"],
    );
    added(
        "proxy_set_header X-Api-Key x;\n",
        &["+proxy_set_header X-Api-Key •••"],
    );
    // B139
    added(
        "# The password has to be changed.\n",
        &["+# The password has to be changed."],
    );
    added(
        "keys = ['password', 'port']\n",
        &["+keys = ['password', 'port']"],
    );
    added("<token-ttl>5</token-ttl>\n", &["+<token-ttl>5</token-ttl>"]);
}

#[test]
fn a_secret_is_hidden_also_where_its_block_begins_far_above() {
    let block = |last: &str| {
        let lines: String = (0..20).map(|n| format!("  line{n}\n")).collect();
        format!("secret: |\n{lines}  {last}\n")
    };
    let lines = Redactor::default().unified(block("old").as_bytes(), block("new").as_bytes());
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines[1..],
        ["   •••", "   •••", "   •••", "-  •••", "+  •••"]
    );
}

#[track_caller]
fn differences(format: Format, declared: &str, observed: &str) -> Differences {
    let meaning = Meaning::of(format, Rules::default(), declared.as_bytes()).expect("it parses");
    match meaning.verdict(observed.as_bytes()) {
        Verdict::Differs(differences) => differences,
        other => panic!("they differ: {other:?}"),
    }
}

#[track_caller]
fn listed(format: Format, declared: &str, observed: &str, expected: &[&str]) {
    let differences = differences(format, declared, observed);
    let lines = Redactor::default().listing(&differences);
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    assert_eq!(lines, expected, "\n{}", lines.join("\n"));
}

#[test]
fn differences_are_listed_as_explain_shows_them() {
    listed(
        Format::Yaml,
        "listen: 80\ntls: {password: a}\nold: 1\n",
        "listen: 8080\ntls: {password: b}\nnew: {user: x, token: y}\n",
        &[
            "listen        80  ->  8080",
            "tls.password  •••  ->  •••   (changed; redacted by key name)",
            "old           1  ->  -   (removed)",
            "new           -  ->  {user: x, token: •••}   (added; redacted by key name)",
        ],
    );
    listed(
        Format::Yaml,
        "a: 1\n",
        "a:  1\n",
        &["written in another way; the values are the same"],
    );
    listed(Format::Env, "A=\n", "A=$(x)\n", &["A  \"\"  ->  $(x)"]);
    listed(
        Format::Ini,
        "[s t]\nk=a\u{1b}\n",
        "[s t]\nk=b\n",
        &["/s t/k  a\\x1b  ->  b"],
    );
    // The root itself, and what is long.
    listed(Format::Json, "1", "2", &["(all of it)  1  ->  2"]);
    let long = format!("{}/tail", "p".repeat(200));
    listed(
        Format::Env,
        &format!("A={long}1\n"),
        &format!("A={long}2\n"),
        &["A  …tail1  ->  …tail2"],
    );
}

#[test]
fn nothing_is_wider_than_a_terminal() {
    let deep = "k".repeat(90);
    let wide = "配".repeat(90);
    let (one, other) = (
        format!("{deep}: {wide}\npassword: x\n"),
        format!("{deep}: {deep}\npassword: y\n"),
    );
    let differences = differences(Format::Yaml, &one, &other);
    for line in Redactor::default().listing(&differences) {
        assert!(
            unicode_width::UnicodeWidthStr::width(line.to_string().as_str()) <= 100,
            "{line}"
        );
    }
}

#[test]
fn a_digest_is_told_only_where_the_value_is() {
    let differences = differences(Format::Env, "A=1\nPIN_TOKEN=1\n", "A=2\nPIN_TOKEN=2\n");
    let digests: Vec<_> = differences
        .list
        .iter()
        .map(|difference| {
            Redactor::default().digest(difference.observed.as_ref().expect("a value"))
        })
        .collect();
    assert_eq!(digests[0].as_ref().map(String::len), Some(16));
    assert_eq!(digests[1], None);
}

proptest! {
    // B138: a sentinel under a secret key, or declared as a secret, is nowhere in what is shown.
    #[test]
    fn a_sentinel_never_shows(
        before in "[a-z =:\"'\n\t]{0,30}",
        after in "[a-z =:\"'\n\t]{0,30}",
        key in "(db_|)(password|token|SECRET|apiKey)(_2|)",
    ) {
        let sentinel = "S3ntinel-9f8e7d";
        let text = format!("{before}\n{key}={sentinel}\n{after}");
        for line in Redactor::default().unified(after.as_bytes(), text.as_bytes()) {
            prop_assert!(!line.to_string().contains(sentinel), "{}", line);
        }
        let declared = Redactor::new(Redact::None).with_secret(sentinel);
        for line in declared.unified(text.as_bytes(), format!("{before}{sentinel} {after}").as_bytes()) {
            let line = line.to_string();
            let joined = line.find(sentinel).is_some_and(|at| line[..at].ends_with(char::is_alphanumeric));
            prop_assert!(joined || !line.contains(sentinel), "{}", line);
        }
    }

    #[test]
    fn whatever_is_shown_is_one_line_and_no_wider_than_a_terminal(
        one in proptest::collection::vec(any::<u8>(), 0..300),
        other in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        for line in Redactor::default().unified(&one, &other) {
            let line = line.to_string();
            prop_assert!(!line.chars().any(escape::is_deceptive), "{line:?}");
            prop_assert!(unicode_width::UnicodeWidthStr::width(line.as_str()) <= 100, "{}", line);
        }
    }
}
