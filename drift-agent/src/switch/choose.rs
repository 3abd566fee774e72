//! Which versions, and why.

use std::{collections::BTreeMap, path::Path, time::SystemTime};

use drift_common::{
    escape,
    policy::{Lineage, Preference, moves},
};
use semver::Version;
use serde::{Deserialize, Serialize};

use super::SwitchError;
use crate::{
    declare::{self, Basis, Mode, Snapshot},
    store::{Held, Holding, Moved, Store},
};

/// What somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demand {
    pub policy: String,
    pub wish: Wish,
    pub by: String,
    pub reason: String,
}

/// Which version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wish {
    /// This one.
    Activate(String),
    /// This one, which was there before.
    Return(String),
    /// The last good one, or else the one that was active before.
    Back,
}

/// What is to be done for it.
#[derive(Debug)]
pub struct Decision {
    /// Empty: it is so already.
    pub moves: Vec<Moved>,
    pub holding: Holding,
    pub snapshot: Snapshot,
    pub basis: Basis,
}

/// What has to move for what is asked. Reads the policy folder.
///
/// # Errors
/// There is no such version, or none that fits, or the folder is not valid then.
pub fn choose(
    store: &Store,
    folder: &Path,
    mode: Option<Mode>,
    demand: &Demand,
    now: SystemTime,
) -> Result<Decision, SwitchError> {
    let mut holding = store.holding_now()?;
    let lineages = declare::lineages(folder, &holding.holds()).map_err(SwitchError::Rejected)?;
    let good = store.state().last_good()?;
    let active_before = store.state().active_before()?;
    let back = !matches!(demand.wish, Wish::Activate(_));
    let wanted: Version = match &demand.wish {
        Wish::Activate(version) | Wish::Return(version) => version.parse().map_err(|_| {
            SwitchError::NoEarlier(format!("{} is not a version", escape::name(version)))
        })?,
        Wish::Back => earlier(&lineages, &demand.policy, &holding, &good, &active_before)?,
    };
    let prefer = |policy: &str, version: &Version| {
        let number = version.to_string();
        let was_active = active_before.contains_key(&(policy.to_owned(), number.clone()));
        if holding.failure(policy, &number).is_some() {
            Preference::Last
        } else if good.get(policy) == Some(&number) || (back && was_active) {
            Preference::First
        } else {
            Preference::Usual
        }
    };
    let moves = moves(&lineages, &demand.policy, &wanted, &prefer)?;
    let moves: Vec<Moved> = moves
        .into_iter()
        .map(|step| {
            let lineage = &lineages[step.policy];
            let number = |index: usize| lineage.versions[index].version.value.to_string();
            let said = lineage.policy.active_version.value.to_string();
            let (policy, to) = (lineage.policy.name.value.clone(), number(step.to));
            if to == said {
                holding.held.remove(&policy);
            } else {
                let held = Held {
                    version: to.clone(),
                    instead_of: said,
                    since: now,
                    by: demand.by.clone(),
                    reason: demand.reason.clone(),
                };
                holding.held.insert(policy.clone(), held);
            }
            Moved {
                policy,
                from: number(step.from),
                to,
            }
        })
        .collect();
    let (outcome, basis) = store.look_with(folder, store.host_root(), mode, &holding.holds());
    Ok(Decision {
        moves,
        holding,
        snapshot: outcome.map_err(SwitchError::Rejected)?,
        basis,
    })
}

/// The version to go back to: the last good one, or else the one that was active most recently; older than the active one, in the folder, and
/// not failed.
fn earlier(
    lineages: &[Lineage],
    policy: &str,
    holding: &Holding,
    good: &BTreeMap<String, String>,
    active_before: &BTreeMap<(String, String), u64>,
) -> Result<Version, SwitchError> {
    let Some(lineage) = lineages
        .iter()
        .find(|lineage| lineage.policy.name.value == policy)
    else {
        let there = lineages
            .iter()
            .map(|lineage| lineage.policy.name.value.as_str());
        return Err(SwitchError::NoEarlier(format!(
            "there is no policy named {}; policies here: {}",
            escape::name(policy),
            there
                .map(|name| escape::text(name).to_string())
                .collect::<Vec<_>>()
                .join(", ")
        )));
    };
    let active = &lineage.active().version.value;
    let candidates = lineage.versions.iter().filter(|version| {
        let number = &version.version.value;
        number < active && holding.failure(policy, &number.to_string()).is_none()
    });
    let best = candidates
        .filter_map(|version| {
            let number = version.version.value.to_string();
            let is_good = good.get(policy) == Some(&number);
            let last = active_before.get(&(policy.to_owned(), number)).copied();
            let rank = (is_good, last.unwrap_or(0));
            (is_good || last.is_some()).then_some((rank, &version.version.value))
        })
        .max_by_key(|(rank, _)| *rank);
    best.map(|(_, version)| version.clone()).ok_or_else(|| {
        SwitchError::NoEarlier(format!(
            "no version of {} in the policy folder that is older than {active} was active on this node: name one with --to",
            escape::name(policy)
        ))
    })
}
