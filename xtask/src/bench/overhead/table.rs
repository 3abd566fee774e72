//! The figures as a table, as JSON, and held against the goals.

use serde_json::json;

use super::{COMPILE, Figures, LOOPS, Who};

fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

pub(super) fn table(figures: &Figures, here: &[Who], rounds: u32, load: &str) -> String {
    let mut table = format!(
        "ns a call: what it takes when nobody watches, and what each adds; medians of {rounds} rounds,\nload {load}\n\n {:<26}",
        ""
    );
    for who in here {
        table += &format!(" {:>11}", who.name());
    }
    table.push('\n');
    for name in LOOPS.into_iter().chain([COMPILE]) {
        let Some(bare) = figures.get(&(Who::Nobody, name)).map(|all| median(all)) else {
            continue;
        };
        table += &format!(" {name:<26}");
        for who in here {
            let cell = match figures.get(&(*who, name)).map(|all| median(all)) {
                Some(time) if name == COMPILE && *who == Who::Nobody => {
                    format!("{:.3} s", time / 1e9)
                }
                Some(time) if name == COMPILE => format!("x {:.3}", time / bare),
                Some(time) if *who == Who::Nobody => format!("{time:.0}"),
                Some(time) => format!("{:+.0}", time - bare),
                None => "-".to_owned(),
            };
            table += &format!(" {cell:>11}");
        }
        table.push('\n');
    }
    table
}

/// What drift's figures are held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Against {
    /// The time of a call with this watcher.
    Time(Who),
    /// What this watcher adds to a call's time.
    Added(Who),
}

impl Against {
    fn ratio(self, figures: &Figures, call: &'static str) -> Option<f64> {
        let time = |who| figures.get(&(who, call)).map(|all| median(all));
        let drift = time(Who::Drift)?;
        Some(match self {
            Against::Time(who) => drift / time(who)?,
            Against::Added(who) => {
                let bare = time(Who::Nobody)?;
                (drift - bare) / (time(who)? - bare)
            }
        })
    }
}

/// Issue 5's goals: a call, what it is held against, the most that the ratio may be.
const GOALS: [(&str, Against, f64); 5] = [
    (LOOPS[0], Against::Time(Who::Empty), 1.05),
    (LOOPS[0], Against::Added(Who::Audit), 0.25),
    (LOOPS[2], Against::Time(Who::Empty), 1.1),
    (LOOPS[4], Against::Added(Who::Inotify), 1.0),
    (COMPILE, Against::Time(Who::Nobody), 1.02),
];

pub(super) fn goals(figures: &Figures) -> String {
    let mut lines = String::new();
    for (call, against, most) in GOALS {
        let Some(ratio) = against.ratio(figures, call) else {
            continue;
        };
        let of = match against {
            Against::Time(Who::Empty) => "the time with empty programs".to_owned(),
            Against::Time(who) => format!("the time with {}", who.name()),
            Against::Added(who) => format!("what {} adds", who.name()),
        };
        lines += &format!(" {call:<26} x {ratio:.2} of {of}, goal x {most:.2}\n");
    }
    lines
}

pub(super) fn as_json(figures: &Figures, here: &[Who], load: &str) -> serde_json::Value {
    let rows: Vec<_> = figures
        .iter()
        .filter(|((who, _), _)| here.contains(who))
        .map(|((who, name), all)| json!({"watcher": who.name(), "call": name, "median_ns": median(all), "all_ns": all}))
        .collect();
    json!({"load": load, "results": rows})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_what_each_adds_to_nobodys_time() {
        let mut figures = Figures::new();
        for (who, times) in [
            (Who::Nobody, vec![100.0, 110.0, 90.0]),
            (Who::Drift, vec![150.0, 130.0, 900.0]),
        ] {
            figures.insert((who, LOOPS[0]), times.clone());
            figures.insert((who, COMPILE), times);
        }
        let table = table(&figures, &[Who::Nobody, Who::Drift], 3, "0.5");
        let rows: Vec<Vec<&str>> = table
            .lines()
            .skip(3)
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(rows[0], [LOOPS[0], "100", "+50"]);
        assert_eq!(rows[1].last(), Some(&"1.500"));
        assert!(table.lines().all(|line| line.chars().count() <= 100));
    }

    #[test]
    fn a_goal_is_a_ratio_of_times_or_of_what_is_added_and_is_left_out_where_nothing_was_measured() {
        let mut figures = Figures::new();
        for (who, time) in [
            (Who::Nobody, 100.0),
            (Who::Drift, 150.0),
            (Who::Empty, 120.0),
        ] {
            figures.insert((who, LOOPS[0]), vec![time]);
        }
        figures.insert((Who::Nobody, LOOPS[4]), vec![1000.0]);
        figures.insert((Who::Drift, LOOPS[4]), vec![1500.0]);
        figures.insert((Who::Inotify, LOOPS[4]), vec![2000.0]);
        assert_eq!(
            goals(&figures),
            format!(
                " {:<26} x 1.25 of the time with empty programs, goal x 1.05\n {:<26} x 0.50 of what inotify adds, goal x 1.00\n",
                LOOPS[0], LOOPS[4]
            )
        );
    }
}
