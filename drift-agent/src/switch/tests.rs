//! Changes of versions, as a whole.
