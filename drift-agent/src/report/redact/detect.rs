//! What looks like a secret, whatever it is called.

use std::ops::Range;

/// How tokens of well-known services begin, and how many characters follow at least.
const TOKENS: [(&str, usize); 24] = [
    ("AKIA", 16),
    ("ASIA", 16),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxa-", 10),
    ("xoxr-", 10),
    ("xoxs-", 10),
    ("AIza", 30),
    ("sk_live_", 10),
    ("rk_live_", 10),
    ("sk-", 20),
    ("npm_", 30),
    ("pypi-", 20),
    ("dop_v1_", 30),
    ("hvs.", 20),
    ("SG.", 30),
    ("ya29.", 20),
];

/// What says what kind of digest follows: a digest is no secret.
const DIGESTS: [&str; 7] = [
    "sha1", "sha256", "sha384", "sha512", "blake3", "md5", "digest",
];

/// Nothing shorter is taken for a key in hexadecimal or base64.
const HEX: usize = 32;
const BASE64: usize = 40;
/// Bits a character: random base64 of [`BASE64`] characters has about 4.7, a sentence or path less than 4.2.
const ENTROPY: f64 = 4.2;

/// Where something in `text` looks like a secret. In order; they may touch.
pub(super) fn spans(text: &str) -> Vec<Range<usize>> {
    let mut found = pem(text);
    found.extend(logins(text));
    found.extend(users(text));
    found.extend(schemes(text));
    found.extend(identified(text));
    found.extend(hashes(text));
    for (start, word) in words(text) {
        if let Some(inside) = token(word)
            .or_else(|| jwt(word))
            .or_else(|| random(text, start, word))
        {
            found.push(start + inside.start..start + inside.end);
        }
    }
    found.sort_by_key(|span| span.start);
    found
}

/// Runs of the characters keys and tokens are made of.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '_' | '-' | '=' | '.');
    let mut rest = 0;
    std::iter::from_fn(move || {
        let start = rest + text[rest..].find(is_part)?;
        let end = text[start..]
            .find(|c| !is_part(c))
            .map_or(text.len(), |length| start + length);
        rest = end;
        Some((start, &text[start..end]))
    })
}

fn token(word: &str) -> Option<Range<usize>> {
    TOKENS.iter().find_map(|(prefix, length)| {
        word.match_indices(prefix).find_map(|(at, _)| {
            let is_start = !word[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
            let rest = &word[at + prefix.len()..];
            let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            (is_start && end >= *length).then(|| at..at + prefix.len() + end)
        })
    })
}

/// Three parts of base64 between points, the first an object: `{"` is `eyJ`.
fn jwt(word: &str) -> Option<Range<usize>> {
    let at = word.find("eyJ")?;
    let mut parts = word[at..].splitn(4, '.');
    let long = |part: Option<&str>, least| part.is_some_and(|part| part.len() >= least);
    (long(parts.next(), 10) && long(parts.next(), 4) && parts.next().is_some())
        .then_some(at..word.len())
}

/// A long run of hexadecimals or base64 with nothing readable in it.
fn random(text: &str, start: usize, word: &str) -> Option<Range<usize>> {
    let after = text[..start].trim_end_matches([':', '=', '-', ' ', '"']);
    let is_digest = DIGESTS.iter().any(|digest| {
        let tail = after
            .len()
            .checked_sub(digest.len())
            .and_then(|at| after.get(at..));
        tail.is_some_and(|tail| tail.eq_ignore_ascii_case(digest))
    });
    if is_digest && !word.contains('/') {
        return None;
    }
    // `KEY=` in front of it is no part of it; the `=`s behind it are.
    let bare = word.trim_end_matches('=');
    let begin = bare.rfind('=').map_or(0, |at| at + 1);
    let run = &bare[begin..];
    let is_hex = run.len() >= HEX && run.bytes().all(|c| c.is_ascii_hexdigit());
    let has = |is: fn(&u8) -> bool| run.as_bytes().iter().any(is);
    let is_base64 = run.len() >= BASE64
        && !run.contains('.')
        && !run.starts_with('/')
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_digit)
        && entropy(run) > ENTROPY;
    (is_hex && has(u8::is_ascii_digit) || is_base64).then_some(begin..word.len())
}

/// Bits a character, as far as their frequency says.
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let length = text.len() as f64;
    let bits = |count: &u32| {
        let share = f64::from(*count) / length;
        -share * share.log2()
    };
    counts.iter().filter(|count| **count > 0).map(bits).sum()
}

/// The password in `scheme://user:password@host`.
fn logins(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (at, separator) in text.match_indices("://") {
        let start = at + separator.len();
        let ends = |c: char| c.is_whitespace() || matches!(c, '/' | '"' | '\'' | '?' | '#');
        let end = text[start..]
            .find(ends)
            .map_or(text.len(), |length| start + length);
        let authority = &text[start..end];
        if let Some((login, _)) = authority.rsplit_once('@')
            && let Some((user, password)) = login.split_once(':')
            && !password.is_empty()
        {
            let begin = start + user.len() + 1;
            found.push(begin..begin + password.len());
        }
    }
    found
}

/// The password in `-u user:password`. Two numbers are a user and a group.
fn users(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for option in [" -u ", " --user ", " --user="] {
        for (at, _) in text.match_indices(option) {
            let start = at + option.len();
            let word = text[start..].split_whitespace().next().unwrap_or_default();
            let is_number = |text: &str| text.bytes().all(|c| c.is_ascii_digit());
            if let Some((user, password)) = word.split_once(':')
                && !(is_number(user) && is_number(password))
            {
                let begin = start + text[start..].find(':').unwrap_or_default() + 1;
                found.push(begin..begin + password.len());
            }
        }
    }
    found
}

/// What stands in quotes behind SQL's `IDENTIFIED BY`.
fn identified(text: &str) -> Vec<Range<usize>> {
    const WORDS: &str = "identified by ";
    let lower = text.to_ascii_lowercase();
    let inside = lower.match_indices(WORDS).filter_map(|(at, _)| {
        let start = at + WORDS.len();
        let quote = text[start..]
            .chars()
            .next()
            .filter(|c| matches!(c, '\'' | '"'))?;
        let length = text[start + 1..]
            .find(quote)
            .unwrap_or(text.len() - start - 1);
        Some(start + 1..start + 1 + length)
    });
    inside.collect()
}

/// Hashes of passwords, as `crypt` (`$6$…`) and LDAP (`{SSHA}…`) write them: short passwords can be guessed from them.
fn hashes(text: &str) -> Vec<Range<usize>> {
    const CRYPT: [&str; 16] = [
        "$1$",
        "$2a$",
        "$2b$",
        "$2y$",
        "$5$",
        "$6$",
        "$7$",
        "$y$",
        "$gy$",
        "$apr1$",
        "$sha1$",
        "$argon2i$",
        "$argon2d$",
        "$argon2id$",
        "$scrypt$",
        "$pbkdf2-",
    ];
    const LDAP: [&str; 9] = [
        "{SSHA}",
        "{SHA}",
        "{SSHA256}",
        "{SSHA512}",
        "{SHA256}",
        "{SHA512}",
        "{SMD5}",
        "{MD5}",
        "{CRYPT}",
    ];
    /// What the shortest of them is made of.
    const SHORTEST: usize = 13;
    let is_part = |c: char| c.is_ascii_alphanumeric() || "./$=,+-".contains(c);
    let mut found = Vec::new();
    for prefix in CRYPT.into_iter().chain(LDAP) {
        for (at, _) in text.match_indices(prefix) {
            let start = at + prefix.len();
            let length = text[start..]
                .find(|c| !is_part(c))
                .unwrap_or(text.len() - start);
            if length >= SHORTEST {
                found.push(start..start + length);
            }
        }
    }
    found
}

/// What follows `Bearer` and `Basic`.
fn schemes(text: &str) -> Vec<Range<usize>> {
    const SHORTEST: usize = 8;
    let lower = text.to_ascii_lowercase();
    let mut found = Vec::new();
    for scheme in ["bearer ", "basic "] {
        for (at, _) in lower.match_indices(scheme) {
            let start = at + scheme.len();
            let is_word = |c: char| {
                c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '_' | '-' | '=' | '.' | '~')
            };
            let end = text[start..]
                .find(|c| !is_word(c))
                .map_or(text.len(), |length| start + length);
            let word = &text[start..end];
            // "basic authentication" is prose.
            if word.len() >= SHORTEST && word.bytes().any(|c| !c.is_ascii_lowercase()) {
                found.push(start..end);
            }
        }
    }
    found
}

/// What stands between the lines of a PEM block; to the end, where its last line is missing.
fn pem(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(begin) = text[at..].find("-----BEGIN ").map(|begin| at + begin) {
        let label = begin + "-----BEGIN ".len();
        let Some(open) = text[label..].find("-----").map(|end| label + end + 5) else {
            break;
        };
        let close = text[open..]
            .find("-----END ")
            .map_or(text.len(), |end| open + end);
        if open < close {
            found.push(open..close);
        }
        at = close;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::spans;

    #[track_caller]
    fn check(text: &str, secrets: &[&str]) {
        let found: Vec<_> = spans(text).into_iter().map(|span| &text[span]).collect();
        assert_eq!(found, secrets, "{text}");
    }

    #[test]
    fn what_looks_like_a_secret() {
        check("id = AKIAIOSFODNN7EXAMPLE", &["AKIAIOSFODNN7EXAMPLE"]);
        check(
            "x=ghp_0123456789abcdefghijABCDEFGHIJ012345",
            &["ghp_0123456789abcdefghijABCDEFGHIJ012345"],
        );
        let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln";
        check(&format!("h: {jwt}"), &[jwt]);
        check("Authorization: Bearer abc.DEF-12345", &["abc.DEF-12345"]);
        check("url=postgres://app:hunter2@db:5432/x", &["hunter2"]);
        let hex = "9f86d081884c7d659a2feaa0c55ad015";
        check(&format!("k = {hex}"), &[hex]);
        let base64 = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=";
        check(&format!("k={base64}"), &[base64]);
        check("-----BEGIN KEY-----\nabc\n-----END KEY-----", &["\nabc\n"]);
        check("-----BEGIN KEY-----\nabc", &["\nabc"]);
        check("curl -u app:hunter2 https://h/", &["hunter2"]);
        check("create user x identified by 'hunter2';", &["hunter2"]);
        check(
            "root:$6$salt$abcdefghij./K:19000:0",
            &["salt$abcdefghij./K"],
        );
        check("u:$2y$10$abcdefghijklmno", &["10$abcdefghijklmno"]);
        check(
            "userPassword: {SSHA}abcdefghijklmn==",
            &["abcdefghijklmn=="],
        );
    }

    #[test]
    fn what_does_not() {
        for text in [
            "image: registry/app@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "/usr/lib/x86_64-linux-gnu/gstreamer-1.0/libgstreamer.so.0.2200",
            "id: 123e4567-e89b-12d3-a456-426614174000",
            "the basic authentication module",
            "http://example.org:8080/a@b",
            "0000000000000000000000",
            "com.example.some.LongJavaPackageName.AndAClassName2WithNumbers",
            "docker run -u 1000:1000 image",
            "echo $1$2 $6$x",
        ] {
            check(text, &[]);
        }
    }
}
