//! What makes programs take in a file that was healed.

use std::{path::PathBuf, time::Duration};

use super::{scalar, version::absolute};
use crate::{
    escape,
    policy::{
        decode::{Cursor, Decoder},
        reload::{AfterHeal, Endpoint, MAX_TIMEOUT, Method, Signal, Whom},
        shape,
        source::Spanned,
    },
};

/// What a command may take where nothing is said.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn after_heal(
    decoder: &mut Decoder<'_>,
    cursor: Cursor<'_>,
) -> Option<Vec<Spanned<AfterHeal>>> {
    decoder.list(cursor, action)
}

fn action(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Spanned<AfterHeal>> {
    let mut fields = decoder.shaped(cursor, &shape::AFTER_HEAL)?;
    let one = fields.one_of(decoder, &["signal", "reload", "restart", "command", "http"]);
    let signal = fields.optional(decoder, "signal", |decoder, signal| {
        decoder.word(signal, "signal", &Signal::ALL)
    });
    let mut action = None;
    if fields.has("signal") {
        let whom = fields.one_of(decoder, &["unit", "pidFile", "process"]);
        let to_unit = fields.optional(decoder, "unit", unit).map(Whom::Unit);
        let to_process = fields.optional(decoder, "process", absolute);
        let to_file = fields.optional(decoder, "pidFile", absolute);
        let to = to_unit
            .or(to_file.map(|file| Whom::PidFile(file.value)))
            .or(to_process.map(|process| Whom::Process(process.value)));
        if let (true, Some(signal), Some(to)) = (whom, signal, to) {
            action = Some(AfterHeal::Signal { signal, to });
        }
    }
    let reload = fields.optional(decoder, "reload", unit);
    let restart = fields.optional(decoder, "restart", unit);
    let command = fields.optional(decoder, "command", command);
    if fields.has("command") {
        let timeout = fields.optional(decoder, "timeout", timeout);
        action = command.map(|(program, arguments)| AfterHeal::Command {
            program,
            arguments,
            timeout: timeout.unwrap_or(TIMEOUT),
        });
    }
    let endpoint = fields.optional(decoder, "http", endpoint);
    if fields.has("http") {
        let method = fields.optional(decoder, "method", |decoder, method| {
            decoder.word(method, "method", &Method::ALL)
        });
        let status = fields.optional(decoder, "status", |decoder, status| {
            scalar::whole_number(decoder, status, 100, 599)
        });
        let timeout = fields.optional(decoder, "timeout", timeout);
        action = endpoint.map(|endpoint| AfterHeal::Http {
            method: method.unwrap_or_default(),
            endpoint,
            status: status.and_then(|status| u16::try_from(status).ok()),
            timeout: timeout.unwrap_or(TIMEOUT),
        });
    }
    fields.end(decoder);
    let action = action
        .or(reload.map(AfterHeal::Reload))
        .or(restart.map(AfterHeal::Restart));
    if one {
        action.map(|action| decoder.spanned(cursor, action))
    } else {
        None
    }
}

fn timeout(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Duration> {
    let timeout = scalar::duration(decoder, cursor)?;
    if timeout.is_zero() || timeout > MAX_TIMEOUT {
        let help = format!("write more than 0s, and at most {}s", MAX_TIMEOUT.as_secs());
        return decoder.wrong(cursor, "nothing can be waited for so long", help);
    }
    Some(timeout)
}

fn endpoint(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Endpoint> {
    let text = decoder.text(cursor)?;
    let endpoint = Endpoint::parse(&text);
    if endpoint.is_none() {
        let message = format!("{} is no address on this machine", escape::name(&text));
        return decoder.wrong(
            cursor,
            message,
            "write it as in `http://127.0.0.1:8080/reload` or `http://[::1]:8080/reload`: only the machine itself is asked",
        );
    }
    endpoint
}

/// The name of a systemd unit.
fn unit(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<String> {
    const KINDS: [&str; 5] = ["service", "socket", "timer", "path", "target"];
    let text = decoder.text(cursor)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    let is_unit = text.len() <= 255
        && text
            .rsplit_once('.')
            .is_some_and(|(name, kind)| !name.is_empty() && KINDS.contains(&kind))
        && text.chars().all(allowed);
    if is_unit {
        return Some(text.to_string());
    }
    let message = format!("{} is not the name of a unit", escape::name(&text));
    decoder.wrong(cursor, message, "write it whole, as in `nginx.service`")
}

fn command(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<(PathBuf, Vec<String>)> {
    let mut words = Vec::new();
    let mut program = None;
    let mut first = true;
    let list = decoder.list(cursor, |decoder, word| {
        if std::mem::take(&mut first) {
            program = absolute(decoder, word).map(|program| program.value);
        } else {
            words.extend(decoder.text(word).map(|word| word.to_string()));
        }
        Some(())
    })?;
    if list.is_empty() {
        return decoder.wrong(
            cursor,
            "a command needs a program",
            "write a list, as in `[/usr/sbin/nginx, -s, reload]`; there is no shell",
        );
    }
    Some((program?, words))
}
