//! Putting the declared state back: decide (pure), hold back (pure), write (the only writer of the host).

mod action;
mod attribute;
mod edit;
mod evidence;
mod execute;
mod guard;
mod in_place;
mod other;
mod plan;
mod replace;
mod sparse;
mod transaction;

#[cfg(test)]
mod tests;

pub use action::Action;
pub use edit::{Text, edited, kept};
pub use evidence::{Doomed, doomed};
pub use execute::{HealError, Healed, execute, has_leftovers, sweep_leftovers};
pub use guard::{Brake, Budget, Contested, Fights, Mass, MassVerdict, Rival, Verdict};
pub use in_place::{is_in_place, put_back};
pub use plan::{Impossible, healable, plan};
pub use replace::temporary_name;
pub use transaction::{
    ABORTED, Finished, Source, Step, Transaction, TransactionError, recover, run as transact,
};
