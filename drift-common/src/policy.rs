//! The language of policies (being built).
