//! What must hold beside files.

use semver::VersionReq;

use super::{scalar, version::absolute};
use crate::{
    escape,
    policy::{
        decode::{Cursor, Decoder},
        requirement::{Dependency, Environment, Variable},
        shape,
        source::Spanned,
    },
};

pub(super) fn environment(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Environment> {
    let mut fields = decoder.shaped(cursor, &shape::ENVIRONMENT)?;
    let process = fields.required(decoder, "process", absolute);
    let variables = fields.required(decoder, "variables", |decoder, variables| {
        decoder.list(variables, variable)
    });
    fields.end(decoder);
    Some(Environment {
        process: process?,
        variables: variables?,
    })
}

fn variable(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Variable> {
    let mut fields = decoder.shaped(cursor, &shape::VARIABLE)?;
    let name = fields.required(decoder, "name", variable_name);
    let one = fields.one_of(decoder, &["value", "absent"]);
    let value = fields.optional(decoder, "value", |decoder, value| {
        decoder.text(value.private())
    });
    let absent = fields.optional(decoder, "absent", |decoder, absent| {
        if decoder.flag(absent)? {
            return Some(());
        }
        decoder.wrong(
            absent,
            "a variable that may be there or not need not be named",
            "write `absent: true`, or remove the variable",
        )
    });
    fields.end(decoder);
    if !one || (value.is_none() && absent.is_none()) {
        return None;
    }
    Some(Variable { name: name?, value })
}

fn variable_name(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Spanned<String>> {
    let text = decoder.text(cursor)?;
    if text.is_empty() || text.len() > 4096 || text.contains(['=', '\0']) {
        let message = format!("{} cannot be the name of a variable", escape::name(&text));
        return decoder.wrong(cursor, message, "write it as in `LANG`, without its value");
    }
    Some(decoder.spanned(cursor, text.to_string()))
}

pub(super) fn dependency(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Dependency> {
    let mut fields = decoder.shaped(cursor, &shape::DEPENDENCY)?;
    let policy = fields.required(decoder, "policy", scalar::name);
    let version = fields.required(decoder, "version", |decoder, version| {
        let text = scalar::raw(decoder, version, "a range of versions", RANGE)?;
        match text.parse::<VersionReq>() {
            Ok(range) => Some(range),
            Err(_) => decoder.wrong(
                version,
                format!("{} is not a range of versions", escape::name(&text)),
                RANGE,
            ),
        }
    });
    fields.end(decoder);
    Some(Dependency {
        policy: policy?,
        version: version?,
    })
}

const RANGE: &str = "write it as in `1.2.0` (and what is compatible), `=1.2.0`, `>=1.2.0, <2.0.0`";
