//! Which nodes a policy is for, and the shares of a rollout.

use crate::{
    escape,
    policy::{
        NodeSelector, Rollout, Share,
        decode::{Cursor, Decoder},
        rollout::{MAX_ARMS, MAX_LABELS, WHOLE},
        shape,
    },
};

use super::scalar;

/// `role: web`: labels as Kubernetes has them.
pub(super) fn node_selector(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<NodeSelector> {
    let before = decoder.problems();
    let mut selector = NodeSelector::new();
    decoder.map(cursor, "a mapping from labels to values", |decoder, label, at, value| {
        if !is_label(label) {
            let message = format!("{} cannot be a label", escape::name(label));
            decoder.problem(at.problem(message).help(
                "write it as `kubectl get nodes --show-labels` does, as in `topology.kubernetes.io/zone`",
            ));
            return;
        }
        let Some(text) = decoder.text(value) else { return };
        if !is_value(&text) {
            let message = format!("{} cannot be the value of a label", escape::name(&text));
            let help = "a value has letters, digits, `-`, `_` and `.`, a letter or digit at both ends, and at most 63 of them";
            let _said: Option<()> = decoder.wrong(value, message, help);
            return;
        }
        selector.insert(label.to_owned(), text.to_string());
    })?;
    if selector.len() > MAX_LABELS {
        return decoder.wrong(
            cursor,
            format!("more than {MAX_LABELS} labels"),
            "give the nodes a label of their own for this",
        );
    }
    (decoder.problems() == before).then_some(selector)
}

fn is_value(text: &str) -> bool {
    text.is_empty() || is_word(text)
}

/// What a label's name, and its value, are made of.
fn is_word(text: &str) -> bool {
    let end = |c: char| c.is_ascii_alphanumeric();
    text.len() <= 63
        && text.starts_with(end)
        && text.ends_with(end)
        && text.chars().all(|c| end(c) || matches!(c, '-' | '_' | '.'))
}

fn is_label(text: &str) -> bool {
    match text.split_once('/') {
        Some((domain, name)) => scalar::is_name(domain) && is_word(name),
        None => is_word(text),
    }
}

pub(super) fn rollout(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Rollout> {
    let mut fields = decoder.shaped(cursor, &shape::ROLLOUT)?;
    let one = fields.one_of(decoder, &["canary", "arms"]);
    let canary = fields.optional(decoder, "canary", canary);
    let arms = fields.optional(decoder, "arms", arms);
    fields.end(decoder);
    if !one {
        return None;
    }
    canary.map(Rollout::Canary).or(arms.map(Rollout::Arms))
}

fn canary(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Share> {
    let mut fields = decoder.shaped(cursor, &shape::CANARY)?;
    let version = fields.required(decoder, "version", scalar::version);
    let weight = fields.required(decoder, "weight", weight);
    fields.end(decoder);
    Some(Share {
        version: version?,
        weight: weight?,
    })
}

fn weight(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<u32> {
    scalar::whole_number(decoder, cursor, 0, WHOLE)
}

fn arms(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Vec<(String, Share)>> {
    let before = decoder.problems();
    let mut names: Vec<String> = Vec::new();
    let arms = decoder.list(cursor, |decoder, item| {
        let mut fields = decoder.shaped(item, &shape::ARM)?;
        let name = fields.required(decoder, "name", |decoder, name| {
            let text = scalar::name(decoder, name)?.value;
            if names.contains(&text) {
                let message = format!("two arms are called {}", escape::name(&text));
                return decoder.wrong(name, message, "give each a name of its own");
            }
            names.push(text.clone());
            Some(text)
        });
        let version = fields.required(decoder, "version", scalar::version);
        let weight = fields.required(decoder, "weight", weight);
        fields.end(decoder);
        Some((
            name?,
            Share {
                version: version?,
                weight: weight?,
            },
        ))
    })?;
    let sum: u32 = arms.iter().map(|(_, share)| share.weight).sum();
    if arms.is_empty() || arms.len() > MAX_ARMS {
        return decoder.wrong(
            cursor,
            format!("{} arms", arms.len()),
            format!("there can be 1 to {MAX_ARMS}; without any, remove `rollout`"),
        );
    }
    if sum > WHOLE {
        return decoder.wrong(
            cursor,
            format!("the weights of the arms come to {sum}"),
            "they are parts of a hundred: lower some",
        );
    }
    (decoder.problems() == before).then_some(arms)
}
