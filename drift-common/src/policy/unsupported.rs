//! What the language has and the agent does not act on yet. It is refused: a policy must never promise what nobody does.

use super::{PolicyVersion, Problems, source::Place};

/// A field, and where a version uses it.
type NotYet = (&'static str, fn(&PolicyVersion) -> Vec<&Place>);

/// Whoever makes the agent act on one of these takes its line away.
const NOT_YET: [NotYet; 1] = [("environment", |version| {
    let all = version.environment.iter();
    all.map(|environment| &environment.process.at).collect()
})];

/// Says what of `version` nobody would act on.
pub(super) fn refuse(version: &PolicyVersion, problems: &mut Problems) {
    for (field, uses) in NOT_YET {
        for at in uses(version) {
            let problem = at.problem(format!("`{field}` is not supported yet"));
            problems.push(
                problem
                    .help("this drift-agent would not act on it: remove it, or use one that does"),
            );
        }
    }
}
