//! What a machine has, as a policy: for `snapshot`.
//!
//! [`walk()`] looks at everything beneath some paths and says of each what a declaration of it is, or in one sentence why there is none.
//! [`parts()`] makes policy files of that, each within the bounds of the language. A [`Stage`] holds them beside the place they are meant for until
//! they are known to be right.

mod attribute;
mod base;
mod content;
mod left;
mod parts;
mod stage;
mod walk;

pub use attribute::{Alone, Why};
pub use base::{Base, Compared};
pub use content::{Contents, Secret};
pub use left::Left;
pub use parts::{Part, Title, parts};
pub use stage::Stage;
pub use walk::{Asked, Captured, Entry, Wanted, walk};
