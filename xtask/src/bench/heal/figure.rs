//! Times, and what is said of them.

use std::time::Duration;

use serde_json::{Value, json};

/// What somebody took, many times.
#[derive(Debug)]
pub(super) struct Figure {
    name: &'static str,
    p50: Duration,
    p99: Duration,
    best: Duration,
    /// Times another one: of its middle, and of its 99th part.
    ratio: Option<(f64, f64)>,
}

impl Figure {
    pub(super) fn new(name: &'static str, mut times: Vec<Duration>) -> Figure {
        times.sort_unstable();
        let at = |part: usize| {
            // The smallest that so many of a hundred do not exceed.
            let index = (times.len() * part).div_ceil(100).saturating_sub(1);
            times.get(index).copied().unwrap_or_default()
        };
        Figure {
            name,
            p50: at(50),
            p99: at(99),
            best: times.first().copied().unwrap_or_default(),
            ratio: None,
        }
    }

    pub(super) fn beside(mut self, other: &Figure) -> Figure {
        let times = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
        self.ratio = Some((times(self.p50, other.p50), times(self.p99, other.p99)));
        self
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

pub(super) fn table(figures: &[Figure]) -> String {
    let mut table = format!(
        " {:<48} {:>10} {:>10} {:>10}  {}\n",
        "", "p50", "p99", "best", "times (p50, p99)"
    );
    for figure in figures {
        let ratio = figure
            .ratio
            .map(|(p50, p99)| format!("{p50:.1}, {p99:.1}"))
            .unwrap_or_default();
        let row = format!(
            " {:<48} {:>10} {:>10} {:>10}  {ratio}",
            figure.name,
            milliseconds(figure.p50),
            milliseconds(figure.p99),
            milliseconds(figure.best),
        );
        table.push_str(row.trim_end());
        table.push('\n');
    }
    if let Some(last) = figures.last() {
        table.push_str(&format!("\ntimes: of \"{}\"\n", last.name));
    }
    table
}

pub(super) fn as_json(figures: &[Figure]) -> Value {
    let rows = figures.iter().map(|figure| {
        json!({
            "name": figure.name,
            "p50_s": figure.p50.as_secs_f64(),
            "p99_s": figure.p99.as_secs_f64(),
            "best_s": figure.best.as_secs_f64(),
            "times_p50": figure.ratio.map(|ratio| ratio.0),
            "times_p99": figure.ratio.map(|ratio| ratio.1),
        })
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_hundred_are_those_of_the_sorted_times() {
        let times = (1..=100).rev().map(Duration::from_millis).collect();
        let figure = Figure::new("a", times);
        let expected = [50, 99, 1].map(Duration::from_millis);
        assert_eq!([figure.p50, figure.p99, figure.best], expected);
        let twice = Figure::new("b", vec![Duration::from_millis(100)]).beside(&figure);
        assert_eq!(twice.ratio, Some((2.0, 100.0 / 99.0)));
        let none = Figure::new("c", Vec::new());
        assert_eq!(none.p99, Duration::ZERO);
    }
}
