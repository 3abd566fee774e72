//! Tags: those of the core schema, which say what a value is. Others would need a program that knows them.

use super::Value;
use crate::{
    escape,
    yaml::{self, ScalarStyle, Tag, tag_name},
};

/// A tag that cannot be, and what to do.
pub(super) struct Wrong {
    pub(super) message: String,
    pub(super) help: &'static str,
}

/// What a scalar is.
pub(super) fn value(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, Wrong> {
    let Some(tag) = tag.map(tag_name) else {
        return Ok(match style {
            ScalarStyle::Plain => yaml::resolve(text),
            ScalarStyle::SingleQuoted
            | ScalarStyle::DoubleQuoted
            | ScalarStyle::Literal
            | ScalarStyle::Folded => Value::Text,
        });
    };
    let meant = yaml::resolve(text);
    let fits = match tag.as_str() {
        "!!str" | "!" => return Ok(Value::Text),
        "!!null" => meant == Value::Null,
        "!!bool" => matches!(meant, Value::Bool(_)),
        "!!int" => meant == Value::Integer,
        "!!float" => matches!(meant, Value::Float | Value::Integer),
        _ => return Err(unknown(&tag)),
    };
    if fits {
        return Ok(meant);
    }
    Err(Wrong {
        message: format!("this is not what its tag {} says", escape::name(&tag)),
        help: "remove the tag",
    })
}

/// Whether a list or a mapping can have this tag.
pub(super) fn collection(tag: &Tag, is_list: bool) -> Result<(), Wrong> {
    match (tag_name(tag).as_str(), is_list) {
        ("!!seq", true) | ("!!map", false) | ("!", _) => Ok(()),
        (tag, _) => Err(unknown(tag)),
    }
}

fn unknown(tag: &str) -> Wrong {
    // Another one may be the beginning of a secret that has no quotes.
    if !tag.starts_with("!!") {
        return Wrong {
            message: "this tag is not known here".to_owned(),
            help: "remove the tag; a text that begins with `!` needs quotes",
        };
    }
    Wrong {
        message: format!("the tag {} is not known here", escape::name(tag)),
        help: match tag {
            "!!binary" => "write such a content as `content: {base64: …}`",
            _ => "remove the tag",
        },
    }
}
