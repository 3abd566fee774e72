//! Whole or not at all.
