//! Programs in Go, built from the module proxy: what every such build needs.

use crate::{machine, step::Step};

/// Whether this machine can build any.
pub(crate) fn is_here() -> bool {
    machine::which("go").is_some()
}

/// `go`, for programs that need no C library of the host.
pub(crate) fn step(name: impl Into<String>) -> Step {
    Step::new(name, "go")
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", flags(std::env::var("GOFLAGS").ok().as_deref()))
}

/// The person's own flags; and no question to a version control system, for the cache folder may lie in somebody's repository.
fn flags(own: Option<&str>) -> String {
    const NO_VCS: &str = "-buildvcs=false";
    match own {
        Some(own) if own.contains(NO_VCS) => own.to_owned(),
        Some(own) => format!("{own} {NO_VCS}").trim().to_owned(),
        None => NO_VCS.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_persons_own_flags_stay() {
        assert_eq!(flags(None), "-buildvcs=false");
        assert_eq!(flags(Some("-mod=mod")), "-mod=mod -buildvcs=false");
        assert_eq!(flags(Some("-buildvcs=false -v")), "-buildvcs=false -v");
    }
}
