//! The page about the chart: a table of its values, from the comments above them.

/// A value: its path, what it is unless somebody says otherwise, and what is said of it.
#[derive(Debug, PartialEq, Eq)]
struct Value {
    path: String,
    default: String,
    about: String,
}

const HEAD: &str = "\
<!-- Made by `cargo xtask generate` from values.yaml. -->
# The chart

The agent on every node of a cluster, and what it needs there. [docs/install.md](../../docs/install.md) says how it is installed, tested, upgraded
and removed.

| value | unless said otherwise | |
|---|---|---|
";

/// Of the text of a `values.yaml`.
pub(super) fn page(values: &str) -> String {
    let rows = read(values).into_iter().map(|value| {
        let Value {
            path,
            default,
            about,
        } = value;
        let cell = |text: &str| text.replace('|', "\\|");
        format!(
            "| `{path}` | {} | {} |\n",
            quoted(&cell(&default)),
            cell(&about)
        )
    });
    format!("{HEAD}{}", rows.collect::<String>())
}

fn quoted(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("`{text}`")
    }
}

/// Each line with a value, with the comment right above it; keys of keys by their path. Lists of several lines are one value.
fn read(values: &str) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    let mut above: Vec<(usize, &str)> = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    for line in values.lines() {
        let text = line.trim();
        let depth = line.len() - line.trim_start().len();
        if let Some(said) = text.strip_prefix('#') {
            comment.push(said.trim());
        } else if text.is_empty() {
            comment.clear();
        } else if let Some((key, value)) = text.split_once(':')
            && !text.starts_with('-')
        {
            above.retain(|(of, _)| *of < depth);
            let keys = above.iter().map(|(_, key)| *key).chain([key]);
            found.push(Value {
                path: keys.collect::<Vec<_>>().join("."),
                default: value.trim().to_owned(),
                about: comment.join(" "),
            });
            comment.clear();
            above.push((depth, key));
        } else if let Some(of) = found.last_mut() {
            let item = text.trim_start_matches("- ");
            of.default = if of.default.is_empty() {
                format!("[{item}]")
            } else {
                format!("{}, {item}]", of.default.trim_end_matches(']'))
            };
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_paths_defaults_and_comments() {
        let values = "# About a.\n# More.\na: 1\n\nb:\n  # About c.\n  c: {x: 1}\n  d: \"\"\n# A list.\ne:\n  - p: q\n  - r\n";
        let value = |path: &str, default: &str, about: &str| Value {
            path: path.to_owned(),
            default: default.to_owned(),
            about: about.to_owned(),
        };
        assert_eq!(
            read(values),
            [
                value("a", "1", "About a. More."),
                value("b", "", ""),
                value("b.c", "{x: 1}", "About c."),
                value("b.d", "\"\"", ""),
                value("e", "[p: q, r]", "A list."),
            ]
        );
        let page = page("# a|b\na: 1\n");
        assert!(page.ends_with("| `a` | `1` | a\\|b |\n"), "{page}");
    }
}
