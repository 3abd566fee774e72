//! The links that the way to a declared path may go through.

use std::path::PathBuf;

use super::{target::link_target, version::declared_path};
use crate::{
    escape,
    policy::{
        decode::{Cursor, Decoder, Fields},
        shape,
        source::Spanned,
        through::{Link, MAX_LINKS, Through, turns_back},
    },
};

/// Of the declared `path`; `None` where no link may be on its way, or something is wrong.
pub(super) fn through(
    decoder: &mut Decoder<'_>,
    fields: &mut Fields<'_>,
    path: Option<&Spanned<PathBuf>>,
) -> Option<Through> {
    let before = decoder.problems();
    let links = fields.optional(decoder, "through", |decoder, cursor| {
        let links = decoder.list(cursor, link)?;
        if links.len() > MAX_LINKS {
            let message = format!("more than {MAX_LINKS} links");
            let help = "declare the path that they lead to";
            return decoder.wrong(cursor, message, help);
        }
        Some(links)
    })?;
    let mut twice = Vec::new();
    for (index, link) in links.iter().enumerate() {
        let same = |first: &&Link| first.path == link.path;
        if let Some(first) = links[..index].iter().find(same) {
            let message = format!("{} is named twice", escape::path_name(&link.path.value));
            let help = format!("first named at {}", first.path.at.position());
            twice.push(link.path.at.problem(message).help(help));
        }
    }
    for problem in twice {
        decoder.problem(problem);
    }
    // Where one of them is wrong, nobody can tell where the way leads.
    if links.is_empty() || decoder.problems() > before {
        return None;
    }
    match Through::resolve(&path?.value, links) {
        Ok(through) => Some(through),
        Err(problems) => {
            for problem in problems {
                decoder.problem(problem);
            }
            None
        }
    }
}

fn link(decoder: &mut Decoder<'_>, cursor: Cursor<'_>) -> Option<Link> {
    let mut fields = decoder.shaped(cursor, &shape::LINK)?;
    let path = declared_path(decoder, &mut fields);
    let target = fields.required(decoder, "target", |decoder, cursor| {
        let target = link_target(decoder, cursor)?;
        if turns_back(&target) {
            let message = format!("{} goes back by a `..`", escape::path_name(&target));
            let help = "where it leads depends on what else is a link: declare the path that it leads to, without `through`";
            return decoder.wrong(cursor, message, help);
        }
        Some(target)
    });
    fields.end(decoder);
    Some(Link {
        path: path?,
        target: target?,
    })
}
