//! The language as a JSON schema, for editors and for other programs' checks.

use serde_json::{Map, Value as Json, json};

use super::{
    parse::API_VERSION,
    shape::{self, Field, Shape, Value},
};

/// The JSON schema (draft 2020-12) of one document. What it accepts may still be wrong in ways that a schema cannot say.
#[must_use]
pub fn schema() -> Json {
    let document = |kind: &str, spec: &'static Shape| {
        json!({
            "type": "object",
            "properties": {
                "apiVersion": {"const": API_VERSION},
                "kind": {"const": kind},
                "metadata": {
                    "type": "object",
                    "properties": {"name": {"type": "string", "maxLength": 253}},
                    "required": ["name"],
                },
                "spec": map(spec),
                "status": {},
            },
            "required": ["apiVersion", "kind", "metadata", "spec"],
            "additionalProperties": false,
        })
    };
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("A document of a drift policy file ({API_VERSION})"),
        "oneOf": [
            document("Policy", &shape::POLICY),
            document("PolicyVersion", &shape::VERSION_SPEC),
            document("PolicyVersionRef", &shape::REFERENCE),
        ],
    })
}

fn map(shape: &Shape) -> Json {
    let properties: Map<String, Json> = shape
        .fields
        .iter()
        .map(|field| (field.name.to_owned(), property(field)))
        .collect();
    let required: Vec<&str> = shape
        .fields
        .iter()
        .filter(|field| field.required)
        .map(|field| field.name)
        .collect();
    let groups: Vec<Json> = shape.one_of.iter().map(|group| one_of(group)).collect();
    let mut map = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    if let Some(map) = map.as_object_mut()
        && !groups.is_empty()
    {
        map.insert("allOf".to_owned(), Json::from(groups));
    }
    map
}

/// Exactly one of these fields is there.
fn one_of(fields: &[&str]) -> Json {
    let each: Vec<Json> = fields
        .iter()
        .map(|field| json!({"required": [field]}))
        .collect();
    json!({"oneOf": each})
}

fn property(field: &Field) -> Json {
    let mut property = value(&field.value);
    if let Some(map) = property.as_object_mut() {
        map.insert("description".to_owned(), Json::from(field.about));
    }
    property
}

fn value(value: &Value) -> Json {
    match value {
        Value::Text(pattern, most) => text(pattern, *most),
        // A pattern and a length bind texts only.
        Value::Digits(pattern, most) => {
            let mut text = text(pattern, *most);
            text["type"] = json!(["string", "number", "boolean"]);
            text
        }
        Value::Scalar(pattern, longest, least, most) => {
            let mut text = text(pattern, *longest);
            text["type"] = json!(["string", "integer"]);
            text["minimum"] = json!(least);
            text["maximum"] = json!(most);
            text
        }
        Value::Duration => text(DURATION, MAX_DURATION),
        Value::Number(least, most) => {
            json!({"type": "integer", "minimum": least, "maximum": most})
        }
        Value::Flag => json!({"type": "boolean"}),
        Value::True => json!({"const": true}),
        Value::Words(words) => json!({"enum": words()}),
        Value::List(item, least, most) => {
            json!({"type": "array", "items": self::value(item), "minItems": least, "maxItems": most})
        }
        Value::OneOrList(item, most) => {
            let item = self::value(item);
            json!({"oneOf": [item, {"type": "array", "items": item, "maxItems": most}]})
        }
        Value::Map(shape) => map(shape),
        Value::Entries(value, most) => {
            json!({"type": "object", "additionalProperties": self::value(value), "maxProperties": most})
        }
        Value::TextOr(shape, most) => json!({"oneOf": [text("", *most), map(shape)]}),
        Value::WordOr(word, shape) => json!({"oneOf": [{"const": word}, map(shape)]}),
    }
}

/// Numbers with units in the order they may come in; at least one.
pub(super) const DURATION: &str =
    r"^(\d+h(\d+m)?(\d+s)?(\d+ms)?|\d+m(\d+s)?(\d+ms)?|\d+s(\d+ms)?|\d+ms)$";
pub(super) const MAX_DURATION: u32 = 24;

pub(super) fn text(pattern: &str, most: u32) -> Json {
    if pattern.is_empty() {
        return json!({"type": "string", "maxLength": most});
    }
    json!({"type": "string", "pattern": pattern, "maxLength": most})
}
