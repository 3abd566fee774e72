//! "Did you mean …?"

use std::fmt;

use crate::escape;

/// Longer words are not looked at: nobody mistypes a name of more, and the comparison costs the product of the lengths.
const LONGEST: usize = 64;

/// The one of `among` that a person who typed `word` most likely meant: the same but for upper and lower case, or at most a third of the
/// characters wrong, missing, too many or swapped.
pub fn closest<'a>(word: &str, among: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    if length > LONGEST {
        return None;
    }
    let word = word.to_lowercase();
    let bound = (length / 3).max(1);
    among
        .into_iter()
        .filter(|candidate| candidate.chars().count() <= LONGEST)
        .map(|candidate| {
            (
                strsim::osa_distance(&word, &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, candidate)| *distance <= bound && *distance < candidate.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The words of `among`, in their order, the end left out where there are many.
pub(crate) fn list<T: fmt::Display>(among: impl IntoIterator<Item = T>) -> String {
    const SHOWN: usize = 20;
    let mut text = String::new();
    for (index, word) in among.into_iter().enumerate() {
        if index == SHOWN {
            text.push_str(", …");
            break;
        }
        if index > 0 {
            text.push_str(", ");
        }
        text.push_str(&escape::text(&word.to_string()).to_string());
    }
    text
}

/// `, did you mean …?`, or nothing.
pub(crate) fn did_you_mean<'a>(word: &str, among: impl IntoIterator<Item = &'a str>) -> String {
    closest(word, among).map_or_else(String::new, |meant| {
        format!(", did you mean {}?", escape::name(meant))
    })
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn finds_what_was_meant() {
        let fields = ["activeVersion", "mode", "guard", "path", "pathBytes"];
        #[track_caller]
        fn check(fields: &[&str], word: &str, meant: Option<&str>) {
            assert_eq!(closest(word, fields.iter().copied()), meant, "{word}");
        }
        check(&fields, "modde", Some("mode"));
        check(&fields, "MODE", Some("mode"));
        check(&fields, "active_version", Some("activeVersion"));
        check(&fields, "activeversion", Some("activeVersion"));
        check(&fields, "gaurd", Some("guard"));
        check(&fields, "paht", Some("path"));
        check(&fields, "x", None);
        check(&fields, "rollout", None);
        check(&fields, "", None);
        check(&fields, &"mode".repeat(1000), None);
    }
}
