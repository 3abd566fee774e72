//! Where this machine gets Debian's packages from, said for another suite. No host is named in this project: the machine's own is asked.

/// One place packages come from, as far as it is needed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Source {
    uri: String,
    /// `signed-by=…`, or nothing.
    options: String,
}

impl Source {
    /// The line of a list file for this place and another suite.
    pub(super) fn line(&self, suite: &str) -> String {
        let options = if self.options.is_empty() {
            String::new()
        } else {
            format!("[{}] ", self.options)
        };
        format!("deb {options}{} {suite} main\n", self.uri)
    }

    /// From a list of one-line entries: the first one for `suite`.
    pub(super) fn in_list(text: &str, suite: &str) -> Option<Source> {
        text.lines().find_map(|line| {
            let rest = line.trim().strip_prefix("deb ")?.trim();
            let (options, rest) = match rest.strip_prefix('[') {
                Some(rest) => rest.split_once(']')?,
                None => ("", rest),
            };
            let mut words = rest.split_whitespace();
            let uri = words.next()?;
            (words.next()? == suite).then(|| Source {
                uri: uri.to_owned(),
                options: options
                    .split_whitespace()
                    .filter(|option| option.starts_with("signed-by="))
                    .collect::<Vec<_>>()
                    .join(" "),
            })
        })
    }

    /// From deb822 stanzas: the first one for `suite`.
    pub(super) fn in_stanzas(text: &str, suite: &str) -> Option<Source> {
        text.split("\n\n").find_map(|stanza| {
            let field = |name: &str| {
                stanza.lines().find_map(|line| {
                    let (found, value) = line.split_once(':')?;
                    found.eq_ignore_ascii_case(name).then(|| value.trim())
                })
            };
            let listed = |name: &str, word: &str| {
                field(name).is_some_and(|words| words.split_whitespace().any(|one| one == word))
            };
            if !listed("Types", "deb") || !listed("Suites", suite) || field("Enabled") == Some("no")
            {
                return None;
            }
            Some(Source {
                uri: field("URIs")?.split_whitespace().next()?.to_owned(),
                // A key that stands in the stanza itself is not a path: apt's own keys count then.
                options: field("Signed-By")
                    .filter(|path| path.starts_with('/'))
                    .map_or_else(String::new, |path| format!("signed-by={path}")),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_found_in_both_forms_and_said_for_another_suite() {
        let stanzas = "Types: deb\n# a comment\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\nComponents: main\n\
                       Signed-By: /k.gpg\n\nTypes: deb\nURIs: http://mirror.example/security\nSuites: bookworm-security\n";
        let source = Source::in_stanzas(stanzas, "bookworm").unwrap();
        assert_eq!(
            source.line("bullseye"),
            "deb [signed-by=/k.gpg] http://mirror.example/debian bullseye main\n"
        );
        assert_eq!(Source::in_stanzas(stanzas, "trixie"), None);

        let list = "# deb http://old.example/ bookworm main\ndeb-src http://mirror.example/ bookworm main\n\
                    deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/ bookworm main contrib\ndeb http://mirror.example/ sid main\n";
        let source = Source::in_list(list, "bookworm").unwrap();
        assert_eq!(
            source.line("x"),
            "deb [signed-by=/k.gpg] http://mirror.example/ x main\n"
        );
        assert_eq!(
            Source::in_list(list, "sid").unwrap().line("x"),
            "deb http://mirror.example/ x main\n"
        );
    }

    #[test]
    fn a_source_that_is_switched_off_is_none() {
        let stanza = "Types: deb\nURIs: http://m.example/\nSuites: bookworm\nEnabled: no\n";
        assert_eq!(Source::in_stanzas(stanza, "bookworm"), None);
    }
}
