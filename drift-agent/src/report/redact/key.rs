//! Whether a key says that its value is a secret.

/// Words that say it alone.
const SECRET: [&str; 30] = [
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "pass",
    "pwd",
    "pw",
    "secret",
    "secrets",
    "token",
    "tokens",
    "apikey",
    "apikeys",
    "credential",
    "credentials",
    "creds",
    "authorization",
    "cookie",
    "cookies",
    "bearer",
    "privatekey",
    "psk",
    "jwt",
    "htpasswd",
    "userpass",
    "presharedkey",
    "bindpw",
    "rootpw",
    "rocommunity",
    "rwcommunity",
];

/// Words that say it in front of `key` or `keys`: `api_key`, `PrivateKey`, `secret-key`.
const KEYS: [&str; 13] = [
    "api",
    "private",
    "access",
    "secret",
    "encryption",
    "signing",
    "master",
    "shared",
    "service",
    "account",
    "preshared",
    "session",
    "license",
];

/// Last words that say what of a secret it is, and not the secret: `passwordFile`, `token_ttl`, `PasswordAuthentication`.
const ABOUT: [&str; 45] = [
    "file",
    "files",
    "path",
    "dir",
    "directory",
    "name",
    "names",
    "ref",
    "refs",
    "ttl",
    "timeout",
    "length",
    "len",
    "policy",
    "enabled",
    "disabled",
    "required",
    "authentication",
    "expiry",
    "expires",
    "expiration",
    "lifetime",
    "age",
    "url",
    "uri",
    "endpoint",
    "type",
    "algorithm",
    "algorithms",
    "alg",
    "method",
    "count",
    "min",
    "max",
    "size",
    "rotation",
    "interval",
    "provider",
    "prompt",
    "prompts",
    "retries",
    "limit",
    "version",
    "domain",
    "checks",
];

/// What a word without a break may end or begin with: `requirepass`, `dbpassword`, `authtoken`.
const PARTS: [&str; 7] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "requirepass",
];

/// Nothing shorter is split off a word.
const SHORTEST: usize = 5;

pub(super) fn is_secret(key: &str) -> bool {
    let words = words(key);
    let Some(last) = words.last() else {
        return false;
    };
    if words.len() > 1 && (ABOUT.contains(&last.as_str()) || counts(&words)) {
        return false;
    }
    let alone = |word: &String| {
        SECRET.contains(&word.as_str())
            || PARTS.iter().any(|part| {
                part.len() >= SHORTEST
                    && (word.ends_with(part) || word.starts_with(part) && is_numbered(word, part))
            })
    };
    let pair = |pair: &[String]| {
        KEYS.contains(&pair[0].as_str()) && matches!(pair[1].as_str(), "key" | "keys")
    };
    words.iter().any(alone) || words.windows(2).any(pair)
}

/// `max_tokens` are a number of other tokens.
fn counts(words: &[String]) -> bool {
    let number = |word: &String| matches!(word.as_str(), "max" | "min" | "num" | "count" | "total");
    words.iter().any(|word| word == "tokens") && words.iter().any(number)
}

fn is_numbered(word: &str, part: &str) -> bool {
    word[part.len()..].bytes().all(|c| c.is_ascii_digit())
}

/// The words of a key in lower case: `dbPassword`, `DB_PASSWORD` and `db-password` are `db` and `password`.
fn words(key: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut chars = key.chars().peekable();
    let mut before = None;
    while let Some(c) = chars.next() {
        let is_start = c.is_uppercase()
            && before.is_some_and(|before: char| {
                before.is_lowercase()
                    || before.is_ascii_digit()
                    || before.is_uppercase() && chars.peek().is_some_and(|next| next.is_lowercase())
            });
        if (is_start || !c.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        before = Some(c);
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::is_secret;

    #[test]
    fn keys_that_name_a_secret() {
        // B139: COOKIE and AUTHORIZATION too.
        for key in [
            "password",
            "DB_PASSWORD",
            "dbPassword",
            "db-passwd",
            "userPass",
            "PGPASSWORD",
            "requirepass",
            "dbpassword",
            "apikey",
            "api_key",
            "API-KEY",
            "apiKey",
            "X-Api-Key",
            "private key",
            "PrivateKey",
            "PresharedKey",
            "client_secret",
            "SECRET_KEY_BASE",
            "AWS_SECRET_ACCESS_KEY",
            "authtoken",
            "AUTH_TOKEN",
            "HTTP_COOKIE",
            "Authorization",
            "credentials",
            "password2",
            "token",
            "session.key",
            "smtpPassphrase",
            "password_hash",
            "GITHUB_TOKEN",
            "aws_access_key_id",
            "olcRootPW",
            "bindpw",
        ] {
            assert!(is_secret(key), "{key}");
        }
    }

    #[test]
    fn keys_that_only_sound_like_it() {
        for key in [
            "",
            "DELIVERY",
            "keyboard",
            "monkey",
            "key",
            "primary_key",
            "compass",
            "bypass",
            "passthrough",
            "author",
            "PasswordAuthentication",
            "password_file",
            "secretName",
            "token_ttl",
            "max_tokens",
            "tokenizer",
            "AuthorizedKeysFile",
            "passwordMinLength",
            "HostKey",
            "cookie_domain",
            "host",
            "listen",
            "HostKeyAlgorithms",
            "pwm",
        ] {
            assert!(!is_secret(key), "{key}");
        }
    }
}
