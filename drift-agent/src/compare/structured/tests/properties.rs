//! What holds for every tree, however it is written, and for any bytes.

mod model;

use proptest::prelude::*;

use super::*;
use model::{Dice, Path};

const FORMATS: [Format; 7] = [
    Format::Yaml,
    Format::Json,
    Format::Json5,
    Format::Toml,
    Format::Ini,
    Format::Env,
    Format::KeyValue,
];

fn any_format() -> impl Strategy<Value = Format> {
    proptest::sample::select(FORMATS.to_vec())
}

fn differences(format: Format, one: &str, other: &str) -> Result<Vec<Difference>, TestCaseError> {
    match verdict(format, &Rules::default(), one.as_bytes(), other.as_bytes()) {
        Ok(Verdict::Same) => Ok(Vec::new()),
        Ok(Verdict::Differs(differences)) => Ok(differences.list),
        Err(error) => Err(TestCaseError::fail(format!("{error}\n{one}"))),
        Ok(Verdict::Unparsable(error)) => Err(TestCaseError::fail(format!("{error}\n{other}"))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    // B050, B052
    #[test]
    fn the_same_written_in_another_way_is_equivalent(
        (format, model) in any_format().prop_flat_map(|format| (Just(format), model::of(format))),
        one in any::<u64>(),
        other in any::<u64>(),
    ) {
        let (one, other) = (model.written(format, one), model.written(format, other));
        let found = differences(format, &one, &other)?;
        prop_assert!(
            found.iter().all(|difference| difference.kind == Kind::Equivalent),
            "{found:?}\n--- one\n{one}\n--- other\n{other}"
        );
        prop_assert_eq!(found.len(), usize::from(one != other));
    }

    #[test]
    fn one_changed_value_is_that_one_difference(
        (format, model) in any_format().prop_flat_map(|format| (Just(format), model::of(format))),
        one in any::<u64>(),
        other in any::<u64>(),
        pick in any::<usize>(),
    ) {
        let paths = model.leaves();
        prop_assume!(!paths.is_empty());
        let path = &paths[pick % paths.len()];
        let changed = model.changed(path);
        let (one, other) = (model.written(format, one), changed.written(format, other));
        let found = differences(format, &one, &other)?;
        let told: Vec<_> = found
            .iter()
            .map(|difference| (difference.kind, difference.pointer.to_string()))
            .collect();
        prop_assert_eq!(told, [(Kind::Changed, path.pointer())], "\n--- one\n{}\n--- other\n{}", one, other);
    }

    // B048, B119
    #[test]
    fn an_edit_makes_what_is_managed_right_and_keeps_the_rest(
        (format, declared, observed) in any_format()
            .prop_flat_map(|format| (Just(format), model::of(format), model::of(format))),
        one in any::<u64>(),
        other in any::<u64>(),
        pick in any::<usize>(),
    ) {
        let mut paths: Vec<Path> = [declared.keys(), observed.keys()].concat();
        paths.sort();
        prop_assume!(!paths.is_empty());
        let managed = paths[pick % paths.len()].pointer();
        let rules = Rules::default().manage(&managed).expect("a pointer");
        let declared_text = declared.written(format, one);
        let observed_text = observed.commented(format, other);
        let tree = parse(format, declared_text.as_bytes())
            .map_err(|error| TestCaseError::fail(format!("{error}\n{declared_text}")))?;
        match edit(&tree, observed_text.as_bytes(), &rules) {
            Ok(text) => {
                let text = String::from_utf8(text).expect("UTF-8");
                let left = verdict(format, &rules, declared_text.as_bytes(), text.as_bytes());
                prop_assert!(matches!(left, Ok(Verdict::Same)), "{left:?} {managed}\n{text}");
                let again = edit(&tree, text.as_bytes(), &rules);
                prop_assert_eq!(again.as_deref(), Ok(text.as_bytes()));
                // Every comment on a line of its own stays (and one behind what was removed may get a line), unless it stood within what was replaced.
                let is_comment = |line: &&str| line.contains("~keep") && line.trim_start().starts_with(['#', '/']);
                let kept = |text: &str| text.lines().filter(is_comment).count();
                if !observed.has_below(&managed) {
                    prop_assert!(
                        kept(&text) >= kept(&observed_text),
                        "{managed}\n--- was\n{observed_text}\n--- is\n{text}"
                    );
                }
            }
            Err(EditError::Unsupported { .. }) => {}
            Err(error) => {
                return Err(TestCaseError::fail(format!(
                    "{error} {managed}\n--- declared\n{declared_text}\n--- observed\n{observed_text}"
                )));
            }
        }
    }

    #[test]
    fn any_bytes_are_a_verdict(format in any_format(), bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _verdict = verdict(format, &Rules::default(), &bytes, &bytes);
    }

    #[test]
    fn any_text_is_a_verdict_and_an_edit_or_none(
        format in any_format(),
        declared in "[a-c]{0,2}[-:= {}\\[\\]\"'\n#,&*!|>0-9a-c\\\\~]{0,40}",
        observed in "[a-c]{0,2}[-:= {}\\[\\]\"'\n#,&*!|>0-9a-cé\\\\~\r\t]{0,60}",
        managed in "(/[ab*0]{1,2}){0,2}",
    ) {
        let rules = Rules::default().manage(&managed).expect("a pointer");
        let _verdict = verdict(format, &Rules::default(), declared.as_bytes(), observed.as_bytes());
        if let Ok(tree) = parse(format, declared.as_bytes())
            && let Ok(text) = edit(&tree, observed.as_bytes(), &rules)
        {
            let left = verdict(format, &rules, declared.as_bytes(), &text);
            prop_assert!(matches!(left, Ok(Verdict::Same)), "{:?}", left);
        }
    }

    #[test]
    fn json_is_read_as_serde_reads_it(model in model::of(Format::Json), seed in any::<u64>()) {
        let text = model.written(Format::Json, seed);
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let again = serde_json::to_string(&value).expect("JSON");
        let found = differences(Format::Json, &text, &again)?;
        prop_assert!(found.iter().all(|difference| difference.kind == Kind::Equivalent), "{found:?}\n{text}\n{again}");
    }
}

#[test]
fn dice_are_dice() {
    let mut dice = Dice::new(7);
    let thrown: Vec<usize> = (0..64).map(|_| dice.below(2)).collect();
    assert!(thrown.contains(&0) && thrown.contains(&1));
}
