//! The YAML parser's complaints, in words for people who do not know how it works.

/// Said of the first line of a text without quotes that has a tab in the indentation of a later line.
pub const TAB_IN_TEXT: &str = "while scanning a plain scalar, found a tab";

const NO_BRACE: &str = "while parsing a flow mapping, did not find expected ',' or '}'";
const NO_BRACKET: &str = "while parsing a flow sequence, expected ',' or ']'";

/// Whether `said` may be of a bracket that is not closed.
#[must_use]
pub fn is_unclosed(said: &str) -> bool {
    matches!(said, NO_BRACE | NO_BRACKET)
}

/// `said` by the parser, as a message and, where there is one, a remedy.
#[must_use]
pub fn explain(said: &str) -> (String, Option<&'static str>) {
    const INDENT: &str =
        "indent with spaces, all fields of a mapping and all items of a list by the same number";
    const QUOTE: &str = "put the text in quotes";
    let (message, help) = match said {
        "mapping values are not allowed in this context" => (
            "no field can begin here",
            "put a text that holds `: ` in quotes; look whether the indentation is what it should be",
        ),
        "simple key expect ':'" | "simple key expected" => (
            "a field's name without `:` before this",
            "write `name: value`; put a text of several lines in quotes, or begin it with `|`",
        ),
        "while parsing a block mapping, did not find expected key" => {
            ("expected another field of the mapping here", INDENT)
        }
        "while parsing a block collection, did not find expected '-' indicator" => (
            "expected another item of the list here, beginning with `- `",
            INDENT,
        ),
        "block sequence entries are not allowed in this context" => (
            "no list can begin here",
            "begin it on a line of its own, or write it as `[…, …]`",
        ),
        "invalid indentation"
        | "wrongly indented line in block scalar"
        | "invalid indentation in flow construct"
        | "invalid indentation for anchor" => {
            ("this is indented less than what it belongs to", INDENT)
        }
        "tab cannot be used as indentation"
        | "tabs disallowed in this context"
        | "tabs disallowed within this context (block indentation)"
        | "a block scalar content cannot start with a tab"
        | TAB_IN_TEXT => ("a tab in the indentation", "indent with spaces"),
        "while scanning a quoted scalar, found unexpected end of stream"
        | "while scanning a quoted scalar, found unexpected document indicator" => (
            "this quote is never closed",
            "a `'` within single quotes is written `''`, a `\"` within double quotes `\\\"`",
        ),
        "invalid indentation in quoted scalar" => (
            "this quote is not closed, or its text goes on without indentation",
            "a `'` within single quotes is written `''`, a `\"` within double quotes `\\\"`",
        ),
        "':' may not precede any of `[{` in flow mapping" => {
            ("no space after this `:`", "write a space there")
        }
        "':' must be followed by a valid YAML whitespace"
        | "'-' must be followed by a valid YAML whitespace" => {
            ("a tab before this value", "write a space instead")
        }
        "invalid trailing content after double-quoted scalar" => (
            "something stands after the closing quote",
            "a `'` within single quotes is written `''`, a `\"` within double quotes `\\\"`",
        ),
        "while parsing a quoted scalar, found unknown escape character"
        | "while parsing a quoted scalar, did not find expected hexadecimal number" => (
            "an escape that YAML does not know, in this text",
            "write `\\\\` for a backslash, or use single quotes, where a backslash is a backslash",
        ),
        "while parsing a quoted scalar, found invalid Unicode character escape code" => (
            "an escape that is no character, in this text",
            "YAML knows no surrogate pairs: write the character itself, or all of it as in `\\U0001F600`",
        ),
        NO_BRACE => (
            "expected `,` or `}` here",
            "put a text that holds `,`, `{`, `}`, `[` or `]` in quotes",
        ),
        NO_BRACKET => (
            "expected `,` or `]` here",
            "put a text that holds `,`, `{`, `}`, `[` or `]` in quotes",
        ),
        "misplaced bracket" => ("a closing bracket that nothing opened", QUOTE),
        "did not find expected <document start>" => (
            "something stands after the end of the document",
            "begin another document with `---`",
        ),
        "while parsing node, found unknown anchor" => (
            "an alias without an anchor",
            "a text that begins with `*` needs quotes; an anchor stands before its aliases, in the same document",
        ),
        "recursion limit exceeded" => (
            "lists and mappings too deep within each other",
            "a policy needs 10 levels at most",
        ),
        "a byte order mark must not appear inside a document" => (
            "a byte order mark (U+FEFF) in the middle of a document",
            "remove this invisible character",
        ),
        "while parsing a node, did not find expected node content" => {
            ("expected a value here", QUOTE)
        }
        "comment intercepting the multiline text" => (
            "a comment in the middle of a text",
            "put the text in quotes, or the comment on a line before it",
        ),
        said if said.starts_with("unexpected character") => {
            ("a text without quotes cannot begin like this", QUOTE)
        }
        said => return (format!("not valid YAML: {said}"), None),
    };
    (message.to_owned(), Some(help))
}

/// Control characters that YAML allows nowhere but as escapes.
pub(super) fn is_forbidden(c: char) -> bool {
    c < ' ' && !matches!(c, '\t' | '\n' | '\r')
}
