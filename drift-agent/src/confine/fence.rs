//! Landlock: where a process may write, whoever it is.

use std::path::Path;

use landlock::{
    ABI, AccessFs, BitFlags, LandlockStatus, PathBeneath, PathFd, RestrictionStatus, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus,
};

/// What of Landlock is used: nothing newer changes what is written.
const KNOWN: ABI = ABI::V4;

/// The detector writes in the state folder, and executes nothing.
pub(super) fn detector(state: &Path) -> Result<String, String> {
    let write = AccessFs::from_write(KNOWN);
    let handled = write | AccessFs::Execute;
    enforce(handled, |rules| allow(rules, state, write))
}

fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, String> {
    let beneath = PathFd::new(path).map_err(|error| error.to_string())?;
    rules
        .add_rule(PathBeneath::new(beneath, access))
        .map_err(|error| error.to_string())
}

/// The version that this kernel has. `Err`: why there is none.
fn enforce(
    handled: BitFlags<AccessFs>,
    allow: impl FnOnce(RulesetCreated) -> Result<RulesetCreated, String>,
) -> Result<String, String> {
    let rules = Ruleset::default()
        .handle_access(handled)
        .and_then(Ruleset::create)
        .map_err(|error| error.to_string())?;
    let status = allow(rules)?
        .restrict_self()
        .map_err(|error| error.to_string())?;
    said(&status)
}

fn said(status: &RestrictionStatus) -> Result<String, String> {
    match status.landlock {
        LandlockStatus::Available {
            effective_abi,
            kernel_abi,
        } => match status.ruleset {
            RulesetStatus::NotEnforced => Err("this kernel's Landlock has none of it".to_owned()),
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(format!(
                "ABI {}",
                kernel_abi.unwrap_or(effective_abi as i32)
            )),
        },
        LandlockStatus::NotEnabled => Err(
            "this kernel has Landlock, and it is not among its security modules (lsm=landlock,…)"
                .to_owned(),
        ),
        LandlockStatus::NotImplemented => {
            Err("this kernel has no Landlock: it came with 5.13".to_owned())
        }
    }
}
