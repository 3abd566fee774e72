//! Waiting for something to become so, with a deadline and without guessing how long it takes.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Looks until there is an answer. `Err`: what was seen last when the time was up.
///
/// # Errors
/// The time was up.
pub fn until<T, S>(within: Duration, mut look: impl FnMut() -> Result<T, S>) -> Result<T, S> {
    let end = Instant::now() + within;
    loop {
        match look() {
            Ok(answer) => return Ok(answer),
            Err(seen) if Instant::now() >= end => return Err(seen),
            Err(_) => thread::sleep(PAUSE),
        }
    }
}
