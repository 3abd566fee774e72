//! Versions that need versions of other policies.

use proptest::prelude::*;
use semver::Version;

use super::*;

/// Policies with their active version and their versions, each with what it needs, on a line of its own.
///
/// `web = 1.0.0: 1.0.0 [lib ^1], 2.0.0 [lib ^2, base 1]`
fn text(policies: &str) -> String {
    let mut text = String::new();
    for line in policies
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let (head, versions) = line.split_once(':').expect("a colon");
        let (name, active) = head.split_once(" = ").expect("an active version");
        text += &format!(
            "---\napiVersion: configdrift.io/v1alpha1\nkind: Policy\nmetadata: {{name: {name}}}\nspec: {{activeVersion: {active}}}\n"
        );
        for version in versions.split(';').map(str::trim) {
            let (number, needs) = version.split_once(' ').unwrap_or((version, "[]"));
            let needs = needs.trim_matches(['[', ']']);
            let needs: String = needs
                .split(',')
                .filter(|need| !need.is_empty())
                .map(|need| {
                    let (policy, range) = need.trim().split_once(' ').expect("a range");
                    format!("    - {{policy: {policy}, version: \"{range}\"}}\n")
                })
                .collect();
            let field = if needs.is_empty() {
                ""
            } else {
                "  dependencies:\n"
            };
            text += &format!(
                "---\napiVersion: configdrift.io/v1alpha1\nkind: PolicyVersion\nmetadata: {{name: {name}-{number}}}\nspec:\n  policy: {name}\n  version: {number}\n{field}{needs}"
            );
        }
    }
    text
}

fn gathered(policies: &str) -> Vec<Lineage> {
    let mut problems = Problems::default();
    let documents = parse(&source(&text(policies)), &mut problems);
    let lineages = lineages(documents, &Holds::new(), &mut problems);
    lineages.unwrap_or_else(|| panic!("{problems}"))
}

fn usual(_: &str, _: &Version) -> Preference {
    Preference::Usual
}

/// The moves as `name from -> to`, in their order, or why there are none.
fn moved(lineages: &[Lineage], policy: &str, version: &str) -> Result<Vec<String>, Refused> {
    let version = version.parse().expect("a version");
    let moves = moves(lineages, policy, &version, &usual)?;
    let shown = |step: Move| {
        let lineage = &lineages[step.policy];
        let number = |index: usize| &lineage.versions[index].version.value;
        let name = &lineage.policy.name.value;
        format!("{name} {} -> {}", number(step.from), number(step.to))
    };
    Ok(moves.into_iter().map(shown).collect())
}

#[test]
fn active_versions_that_do_not_fit_are_refused_with_who_needs_what() {
    check(
        &text(
            "app = 1.0.0: 1.0.0 [lib ^1]
             lib = 1.0.0: 1.0.0; 2.0.0; 2.1.0
             web = 1.0.0: 1.0.0 [lib >=2]",
        ),
        r#"error: `web` 1.0.0 needs `lib` >=2, and 1.0.0 is active
   --> p.yaml:54:16
    |
 54 |     - {policy: lib, version: ">=2"}
    |                ^^^
    = its version is said at p.yaml:19:23
    = versions that would do: 2.0.0, 2.1.0
    = `app` 1.0.0 needs `lib` ^1 (p.yaml:14:16)"#,
    );
}

#[test]
fn what_is_wrong_with_the_closure_alone_is_told_apart_from_all_else() {
    let found = |text: &str| {
        let mut problems = Problems::default();
        let documents = parse(&source(text), &mut problems);
        assert!(validate(documents, &Holds::new(), &mut problems).is_none());
        problems
    };
    let unfit = text("web = 1.0.0: 1.0.0 [lib ^2]\nlib = 1.0.0: 1.0.0");
    assert!(found(&unfit).is_of_closure());
    assert!(found(&text("web = 1.0.0: 1.0.0 [lib ^2]")).is_of_closure());
    assert!(!found(&unfit.replace("activeVersion: 1.0.0", "activeVersion: 3.0.0")).is_of_closure());
    let mut both = found(&unfit);
    both.append(found(&text("web = 2.0.0: 1.0.0")));
    assert!(!both.is_of_closure());
}

#[test]
fn a_policy_that_is_missing_and_one_that_needs_itself_are_said() {
    let (lineages, problems) = read(&text(
        "app = 1.0.0: 1.0.0 [app ^1, libs ^1]
         lib = 1.0.0: 1.0.0",
    ));
    assert!(lineages.is_none());
    let lines = problems.lines().to_string();
    assert!(
        lines.contains("p.yaml:14:16: `app` 1.0.0 needs itself\n  = remove it\n"),
        "{lines}"
    );
    assert!(
        lines.contains("p.yaml:15:16: `app` 1.0.0 needs `libs`, and there is no such policy, did you mean `lib`?"),
        "{lines}"
    );
}

#[test]
fn a_circle_is_shown_from_its_beginning_to_its_end() {
    let (lineages, problems) = read(&text(
        "a = 1.0.0: 1.0.0 [b 1]
         b = 1.0.0: 1.0.0 [c 1, d 1]
         c = 1.0.0: 1.0.0 [a 1]
         d = 1.0.0: 1.0.0",
    ));
    assert!(lineages.is_none());
    let said = problems.to_string();
    assert_eq!(problems.len(), 1, "{said}");
    assert!(
        said.contains(
            "versions need each other in a circle: `a` 1.0.0 -> `b` 1.0.0 -> `c` 1.0.0 -> `a` 1.0.0"
        ),
        "{said}"
    );
    assert!(said.contains("`c` 1.0.0 needs `a` ^1 (p.yaml:"), "{said}");
    assert!(!said.contains("`d`"), "{said}");
}

const FOUR: &str = "
    app = 1.0.0: 1.0.0 [web ^1]; 2.0.0 [web ^2]
    base = 1.0.0: 1.0.0; 1.1.0; 2.0.0
    lib = 1.0.0: 1.0.0 [base ^1]; 2.0.0 [base ^2]
    other = 1.0.0: 1.0.0; 2.0.0
    web = 1.0.0: 1.0.0 [lib ^1, base ^1]; 2.0.0 [lib ^2]";

#[test]
fn what_is_needed_and_what_needs_it_moves_along_and_what_fits_stays() {
    let lineages = gathered(FOUR);
    let all = [
        "base 1.0.0 -> 2.0.0",
        "lib 1.0.0 -> 2.0.0",
        "web 1.0.0 -> 2.0.0",
        "app 1.0.0 -> 2.0.0",
    ];
    for (policy, version, expected) in [
        ("app", "2.0.0", &all[..]),
        ("web", "2.0.0", &all),
        // What needs it has to follow.
        ("base", "2.0.0", &all),
        ("base", "1.1.0", &["base 1.0.0 -> 1.1.0"]),
        ("other", "2.0.0", &["other 1.0.0 -> 2.0.0"]),
        ("app", "1.0.0", &[]),
    ] {
        let moved = moved(&lineages, policy, version).expect("moves");
        assert_eq!(moved, expected, "{policy} {version}");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_the_way_to_it() {
    let lineages = gathered(
        "app = 1.0.0: 1.0.0; 2.0.0 [web ^2, lib ^1]
         lib = 1.0.0: 1.0.0; 2.0.0
         web = 1.0.0: 1.0.0; 2.0.0 [lib ^2]",
    );
    let refused = moved(&lineages, "app", "2.0.0").expect_err("a conflict");
    assert_eq!(refused.reason(), "conflict");
    assert_eq!(
        refused.to_string(),
        "`app` 2.0.0 is asked for
  `app` 2.0.0 needs `web` ^2 (p.yaml:21:16)
  `web` 2.0.0 needs `lib` ^2 (p.yaml:62:16)
  no version of `lib` fits: 1.0.0, 2.0.0"
    );
    for (policy, version, reason) in [("ap", "1.0.0", "no-policy"), ("app", "3.0.0", "no-version")]
    {
        let refused = moved(&lineages, policy, version).expect_err("refused");
        assert_eq!(refused.reason(), reason, "{refused}");
    }
    let circle = gathered(
        "a = 1.0.0: 1.0.0; 2.0.0 [b ^1]
         b = 1.0.0: 1.0.0 [a *]",
    );
    let refused = moved(&circle, "a", "2.0.0").expect_err("a circle");
    assert_eq!(refused.reason(), "cycle", "{refused}");
}

#[test]
fn a_version_that_has_failed_is_the_last_choice_and_one_that_was_healthy_the_first() {
    let lineages = gathered(
        "app = 1.0.0: 1.0.0; 2.0.0 [lib ^2]
         lib = 1.0.0: 1.0.0; 2.0.0; 2.1.0; 2.2.0",
    );
    let lib = |failed: &str, healthy: &str| {
        let prefer = |_: &str, version: &Version| match version.to_string() {
            number if number == failed => Preference::Last,
            number if number == healthy => Preference::First,
            _ => Preference::Usual,
        };
        let moves = moves(&lineages, "app", &Version::new(2, 0, 0), &prefer).expect("moves");
        let to = &lineages[moves[0].policy].versions[moves[0].to];
        to.version.value.to_string()
    };
    assert_eq!(lib("", ""), "2.2.0");
    assert_eq!(lib("2.2.0", ""), "2.1.0");
    assert_eq!(lib("2.2.0", "2.0.0"), "2.0.0");
}

#[test]
fn a_hold_takes_the_place_of_the_active_version_until_that_is_another_one() {
    let hold = |version: &str, instead_of: &str| {
        Holds::from([(
            "lib".to_owned(),
            Hold {
                version: version.parse().expect("a version"),
                instead_of: instead_of.parse().expect("a version"),
            },
        )])
    };
    let text = text("lib = 2.0.0: 1.0.0; 2.0.0");
    for (holds, expected) in [
        (hold("1.0.0", "2.0.0"), "1.0.0"),
        (hold("1.0.0", "1.5.0"), "2.0.0"),
    ] {
        let mut problems = Problems::default();
        let documents = parse(&source(&text), &mut problems);
        let lineages = validate(documents, &holds, &mut problems).expect("valid");
        assert_eq!(lineages[0].active().version.value.to_string(), expected);
    }
    // What was rolled back must not come back because its replacement is gone.
    let mut problems = Problems::default();
    let documents = parse(&source(&text), &mut problems);
    assert!(validate(documents, &hold("0.9.0", "2.0.0"), &mut problems).is_none());
    let said = problems.to_string();
    assert!(said.contains("`lib` has no version 0.9.0"), "{said}");
    assert!(
        said.contains("this node holds `lib` there instead of 2.0.0"),
        "{said}"
    );
}

/// Four policies in three versions each, each of which needs any versions of any policies after it.
fn any_policies() -> impl Strategy<Value = Vec<Lineage>> {
    let ranges = vec!["^1", "^2", "^3", ">=2", "<3", "*"];
    let need = (0_usize..4, prop::sample::select(ranges));
    let needs = prop::collection::vec(need, 0..3);
    prop::collection::vec(needs, 12).prop_map(|all| {
        let mut lines = String::new();
        for (policy, versions) in all.chunks(3).enumerate() {
            let versions: Vec<String> = versions
                .iter()
                .enumerate()
                .map(|(number, needs)| {
                    let needs = needs.iter().filter(|(other, _)| *other > policy);
                    let needs: Vec<String> = needs
                        .map(|(other, range)| format!("p{other} {range}"))
                        .collect();
                    format!("{}.0.0 [{}]", number + 1, needs.join(", "))
                })
                .collect();
            lines += &format!("p{policy} = 1.0.0: {}\n", versions.join("; "));
        }
        gathered(&lines)
    })
}

fn fits(lineages: &[Lineage], selected: &[usize]) -> bool {
    let version = |index: usize| &lineages[index].versions[selected[index]];
    (0..lineages.len()).all(|index| {
        version(index).dependencies.iter().all(|dependency| {
            let named = |lineage: &Lineage| lineage.policy.name.value == dependency.policy.value;
            let other = lineages.iter().position(named).expect("a policy");
            dependency.version.matches(&version(other).version.value)
        })
    })
}

/// Whether there is a selection that fits, in which a policy has a version.
fn can_fit(lineages: &[Lineage], policy: usize, version: usize) -> bool {
    (0..81_usize)
        .map(|all| [all % 3, all / 3 % 3, all / 9 % 3, all / 27])
        .any(|selected| selected[policy] == version && fits(lineages, &selected))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Against trying everything: what comes out fits, and comes out whenever there is something.
    #[test]
    fn moves_come_out_exactly_where_something_fits(lineages in any_policies(), policy in 0_usize..4, version in 0_usize..3) {
        let number = Version::new(version as u64 + 1, 0, 0);
        match moves(&lineages, &format!("p{policy}"), &number, &usual) {
            Ok(moves) => {
                let mut selected = [0; 4];
                for step in &moves {
                    prop_assert_eq!(selected[step.policy], step.from);
                    selected[step.policy] = step.to;
                }
                prop_assert_eq!(selected[policy], version);
                prop_assert!(fits(&lineages, &selected));
                // What is needed comes first.
                for (at, step) in moves.iter().enumerate() {
                    let needs = &lineages[step.policy].versions[step.to].dependencies;
                    for later in &moves[at + 1..] {
                        let name = &lineages[later.policy].policy.name.value;
                        prop_assert!(needs.iter().all(|need| need.policy.value != *name));
                    }
                }
            }
            Err(refused) => prop_assert!(!can_fit(&lineages, policy, version), "{}", refused),
        }
    }
}
