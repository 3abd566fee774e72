//! Whether a whole text holds something that nobody should see: for what keeps contents of the host, as `snapshot` does.

use super::{Redactor, Why, line::Lines};

/// What a PEM block is called that holds nothing secret.
const PUBLIC: [&str; 5] = ["CERTIFICATE", "PUBLIC KEY", "CRL", "PARAMETERS", "PKCS7"];

impl Redactor {
    /// Why the first secret of `text` would be hidden, if there is one. Certificates and public keys look like secrets and are none.
    #[must_use]
    pub fn secret_in(&self, text: &str) -> Option<Why> {
        let mut lines = Lines::new(self);
        let mut within_public = false;
        for line in text.lines() {
            if let Some(label) = label(line, "-----BEGIN ") {
                within_public = PUBLIC.iter().any(|public| label.contains(public))
                    && !label.contains("PRIVATE");
            }
            if within_public {
                within_public = label(line, "-----END ").is_none();
                continue;
            }
            let line = without_public_key(line);
            if let (_, Some(why)) = lines.next(&line) {
                return Some(why);
            }
        }
        None
    }
}

/// `X` of `-----BEGIN X-----`.
fn label<'l>(line: &'l str, begin: &str) -> Option<&'l str> {
    line.trim().strip_prefix(begin)?.strip_suffix("-----")
}

/// A line of `authorized_keys` or `known_hosts` without the key itself: `ssh-ed25519 AAAA… comment`.
fn without_public_key(line: &str) -> std::borrow::Cow<'_, str> {
    let is_kind = |word: &str| {
        ["ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"]
            .iter()
            .any(|kind| word.starts_with(kind))
    };
    let mut words = line.split(' ').peekable();
    while let Some(word) = words.next() {
        if is_kind(word)
            && let Some(key) = words.peek()
            && key.starts_with("AAAA")
        {
            return line.replacen(&format!("{word} {key}"), "", 1).into();
        }
    }
    line.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_hold_a_secret() {
        #[track_caller]
        fn check(text: &str, why: Option<Why>) {
            assert_eq!(Redactor::default().secret_in(text), why, "{text}");
        }
        check("", None);
        check("listen = 80\n# nothing\n", None);
        check("listen = 80\npassword = hunter2\n", Some(Why::Key));
        check("password:\n  hunter2\n", Some(Why::Key));
        check("db: postgres://app:hunter2@db/x\n", Some(Why::Look));
        let pem = |label: &str| format!("-----BEGIN {label}-----\nMIIB\n-----END {label}-----\n");
        check(&pem("PRIVATE KEY"), Some(Why::Look));
        check(&pem("OPENSSH PRIVATE KEY"), Some(Why::Look));
        check(&pem("CERTIFICATE"), None);
        check(&pem("PUBLIC KEY"), None);
        check(
            &(pem("CERTIFICATE") + &pem("RSA PRIVATE KEY")),
            Some(Why::Look),
        );
        // One that is not closed hides nothing behind it.
        check(
            &format!("-----BEGIN CERTIFICATE-----\nMIIB\n{}", pem("PRIVATE KEY")),
            Some(Why::Look),
        );
        let key = "AAAAC3NzaC1lZDI1NTE5AAAAIGq83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJ";
        check(&format!("ssh-ed25519 {key} me@here\n"), None);
        check(
            &format!("ssh-ed25519 {key} ghp_0123456789abcdefghijABCDEFGHIJ012345\n"),
            Some(Why::Look),
        );
    }
}
