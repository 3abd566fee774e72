//! `drift-agent heal`: put back what is declared, now, because somebody says so.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Instant, SystemTime},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use drift_common::escape;

use super::{
    activate::who,
    format::Format,
    own_history::{WITHIN, own_history},
    root::HostRoot,
    run::lock,
    state::StateFolder,
    whole::whole,
};
use crate::{
    compare::{Drift, attribute::out_of_reach, differences},
    declare::{AfterHeal, Declared, Mode, Snapshot},
    heal::{self, Brake, healable, plan},
    observe::{Host, Observed, observe},
    pipeline::{declared_side, observed_side},
    reload::{self, Allowed},
    report::{Cause, Event, Outcome, Record, Reporter, complain},
    restore::{believe, hold},
    serve::{AskError, Body, HandOutcome, Healing, Request, Row, Rows, ask},
    stop::{BREAK_GLASS, Files, Stops},
    store::{DEFAULT_QUOTA, HeldBrake, Longest, PathForm, Store},
};

/// Put back now what is declared of these paths, or of all.
///
/// The running agent looks at each path afresh and heals it as it would by itself. What holds healing back is said, and passed over with --force
/// only; the kill switch and the break-glass file not even with that. Without an agent the command does it itself, and has to be told where the policies are.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Heal {
    /// These declared paths, and what is declared beneath them.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Only of this policy.
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// Only say what would happen.
    #[arg(long)]
    dry_run: bool,
    /// In spite of a pause, windows, back-off, budgets, fights and the like, and of policies that only observe.
    #[arg(long)]
    force: bool,
    /// Folder of policy files (*.yaml, *.yml), where no agent runs. One that runs knows its own.
    #[arg(long, value_name = "DIR")]
    policies: Option<PathBuf>,
    #[command(flatten)]
    state: StateFolder,
    #[command(flatten)]
    root: HostRoot,
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

const EXAMPLES: &str = "\
Status:
  0   all that was asked for is as declared, or would be (--dry-run)
  4   something is left that is not: it is held, or could not be put back
  1   something else went wrong

Examples:
  sudo drift-agent heal --dry-run
  sudo drift-agent heal /etc/ssh
  sudo drift-agent heal --policy web --force
  sudo drift-agent heal /etc/app/app.conf -o json";

impl Heal {
    /// Runs the command.
    ///
    /// # Errors
    /// It could not be tried.
    pub fn run(self) -> Result<ExitCode> {
        let Self {
            paths,
            policy,
            dry_run,
            force,
            policies,
            state,
            root,
            output,
        } = self;
        let mut absolute = Vec::new();
        for path in &paths {
            absolute.push(whole(path)?);
        }
        let healing = Healing {
            paths: absolute
                .iter()
                .map(|path| PathForm::from(&**path))
                .collect(),
            policy,
            dry_run,
            force,
            by: who(),
        };
        let state = state.path()?;
        let rows = match ask(&state, Request::Heal(Box::new(healing.clone()))) {
            Ok(Body::Healed(rows)) => *rows,
            Ok(_) => return Err(AskError::Unknown.into()),
            Err(AskError::NoAgent) => {
                let policies = policies.context(
                    "no agent runs with this state folder: say where the policies are, with --policies DIR, and it is done without one",
                )?;
                alone((&state, &policies, &root), &absolute, &healing)?
            }
            Err(error) => return Err(error.into()),
        };
        let values = rows.rows.iter().map(serde_json::to_value);
        let values = values.collect::<Result<_, _>>()?;
        super::policy::print(&output.print(values, || table(&rows, dry_run)))?;
        Ok(ExitCode::from(rows.status()))
    }
}

/// A path a line, and what there is to say of it beneath.
fn table(rows: &Rows, dry_run: bool) -> String {
    let mut text = String::new();
    for row in &rows.rows {
        let drift = row.drift.join(", ");
        let outcome = match row.outcome {
            HandOutcome::WouldHeal => "would heal",
            HandOutcome::NotOver => "not over",
            other => other.name(),
        };
        text += &format!(
            "{outcome:<12} {}  ({drift}; {} {})\n",
            row.path, row.policy, row.version
        );
        if let (HandOutcome::WouldHeal, Some(plan)) = (row.outcome, &row.plan) {
            text += &format!("             {plan}\n");
        }
        if row.outcome == HandOutcome::Reported {
            text += "             nothing of it is put back by healing\n";
        }
        if let (Some(reason), Some(message)) = (&row.reason, &row.message) {
            text += &format!("             {reason}: {message}\n");
        }
    }
    for after in &rows.after {
        text += &format!("{after}\n");
    }
    let s = if rows.as_declared == 1 { "" } else { "s" };
    text += &format!("{} path{s} as declared", rows.as_declared);
    if dry_run {
        text += "; nothing was changed";
    }
    let held = rows.rows.iter().any(|row| row.outcome == HandOutcome::Held);
    if held {
        text += "; what is held is healed with --force";
    }
    text + "\n"
}

/// Without an agent: this process holds the state folder, and does it.
fn alone(
    (state, policies, root): (&Path, &Path, &HostRoot),
    paths: &[PathBuf],
    asked: &Healing,
) -> Result<Rows> {
    let _lock = lock(state)?;
    // The restorer of an agent that was killed may be writing still.
    let _held = hold(state)?;
    let store = Store::open(state, DEFAULT_QUOTA)?.rooted(&root.host_root);
    for note in store.notes() {
        complain(format_args!("{note}."));
    }
    let host = root.host()?;
    if !asked.dry_run {
        // An agent's detector could write one, too.
        believe(&store, state, policies, None).map_err(anyhow::Error::msg)?;
        heal::recover(&host, &store)?;
    }
    let (outcome, _) = store.look(policies, store.host_root(), None);
    let snapshot = outcome.map_err(|rejected| anyhow::anyhow!("{}", rejected.plain()))?;
    let stops = Stops {
        files: Files::of(state, Path::new(BREAK_GLASS)).look(),
        pauses: store.pauses(),
    };
    let reporter = own_history((!asked.dry_run).then_some(state))?;
    let mut by_hand = Alone {
        host,
        store,
        stops,
        reporter,
        force: asked.force,
        dry_run: asked.dry_run,
        after: Vec::new(),
    };
    let mut rows = Rows::default();
    for declared in chosen(&snapshot, paths, asked.policy.as_deref())? {
        match by_hand.one(declared)? {
            Some(row) => rows.rows.push(row),
            None => rows.as_declared += 1,
        }
    }
    // Commands are the running agent's to allow.
    let came = reload::perform_all(&by_hand.after, &Allowed::default());
    rows.after = came.iter().map(reload::Came::sentence).collect();
    by_hand.reporter.flush(WITHIN)?;
    Ok(rows)
}

fn chosen<'s>(
    snapshot: &'s Snapshot,
    paths: &[PathBuf],
    policy: Option<&str>,
) -> Result<Vec<&'s Arc<Declared>>> {
    if let Some(policy) = policy
        && snapshot.policy(policy).is_none()
    {
        bail!("there is no policy {} here", escape::name(policy));
    }
    let files = snapshot.files.iter();
    let files: Vec<&Arc<Declared>> = files
        .filter(|file| policy.is_none_or(|policy| file.policy.name == policy))
        .collect();
    let is_beneath = |file: &&&Arc<Declared>| {
        paths.is_empty() || paths.iter().any(|path| file.path.starts_with(path))
    };
    for path in paths {
        if !files.iter().any(|file| file.path.starts_with(path)) {
            bail!(
                "{} is not declared, and nothing beneath it is: `drift-agent explain` says more",
                escape::path(path)
            );
        }
    }
    Ok(files.iter().filter(is_beneath).copied().collect())
}

struct Alone {
    host: Host,
    store: Store,
    stops: Stops,
    reporter: Reporter,
    force: bool,
    dry_run: bool,
    after: Vec<AfterHeal>,
}

impl Alone {
    /// `None`: it is as declared.
    fn one(&mut self, declared: &Arc<Declared>) -> Result<Option<Row>> {
        let detected = Instant::now();
        let (observed, drifts) = self.look(declared);
        if drifts.is_empty() {
            return Ok(None);
        }
        let mut row = Row {
            path: escape::path(&declared.path).to_string(),
            policy: declared.policy.name.clone(),
            version: declared.policy.version.clone(),
            drift: drifts.iter().map(|drift| drift.name().to_owned()).collect(),
            action: None,
            plan: None,
            outcome: HandOutcome::Reported,
            reason: None,
            message: None,
        };
        let wanted = healable(declared, &drifts, out_of_reach(declared, &observed));
        if wanted.is_empty() {
            return Ok(Some(row));
        }
        let action = plan(declared, &wanted, &observed.found);
        if let Ok(action) = &action {
            row.action = Some(action.name().to_owned());
            row.plan = Some(action.words(declared));
        }
        let held = self.held(declared);
        let held = held.or_else(|| {
            let impossible = action.as_ref().err()?;
            Some((impossible.reason(), impossible.sentence().to_owned()))
        });
        let (Ok(action), None) = (action, &held) else {
            row.outcome = HandOutcome::Held;
            (row.reason, row.message) = held
                .map(|(reason, message)| (reason.to_owned(), message))
                .unzip();
            return Ok(Some(row));
        };
        if self.dry_run {
            row.outcome = HandOutcome::WouldHeal;
            return Ok(Some(row));
        }
        let evidence = heal::doomed(&self.host, &self.store, declared, &action).keep(&self.store);
        let result = heal::put_back(&self.host, &self.store, declared, &action, &observed);
        let (now, left) = self.look(declared);
        let is_healed = healable(declared, &left, out_of_reach(declared, &now)).is_empty();
        self.brake(declared)?;
        let (event, outcome, reason, message) = match result {
            Ok(healed) if is_healed => {
                reload::add(&mut self.after, &declared.after_heal);
                let notes = healed.notes.join("; ");
                (
                    Event::DriftHealed,
                    Outcome::Healed,
                    None,
                    Some(notes).filter(|notes| !notes.is_empty()),
                )
            }
            Ok(_) if left.contains(&Drift::Unreadable) || left == [Drift::Unstable] => (
                Event::HealUnverifiable,
                Outcome::Unverifiable,
                Some("unreadable"),
                Some(
                    "it was written, and could not be read again through the declared path"
                        .to_owned(),
                ),
            ),
            Ok(_) => (
                Event::HealFailed,
                Outcome::Failed,
                Some("changed-meanwhile"),
                Some(
                    "it was written, and something else stood there when it was read again"
                        .to_owned(),
                ),
            ),
            Err(error) => (
                Event::HealFailed,
                Outcome::Failed,
                Some(error.reason()),
                Some(error.to_string()),
            ),
        };
        row.outcome = match outcome {
            Outcome::Healed => HandOutcome::Healed,
            Outcome::Unverifiable => HandOutcome::Unverifiable,
            Outcome::Failed | Outcome::Suppressed => HandOutcome::Failed,
        };
        row.reason = reason.map(str::to_owned);
        row.message.clone_from(&message);
        let mut record = Record::new(event);
        record.policy = Some(declared.policy.name.clone());
        record.version = Some(declared.policy.version.clone());
        record.path = Some(declared.path.clone());
        record.cause = Some(Cause::Scan);
        record.severity = Some(declared.severity);
        record.drift = drifts;
        record.declared = Some(declared_side(declared));
        record.observed = Some(observed_side(&now));
        record.outcome = Some(outcome);
        record.reason = reason;
        record.message = message;
        record.evidence = evidence;
        record.heal_ns = (event == Event::DriftHealed)
            .then(|| u64::try_from(detected.elapsed().as_nanos()).unwrap_or(u64::MAX));
        self.reporter.report(&record)?;
        Ok(Some(row))
    }

    fn look(&self, declared: &Declared) -> (Observed, Vec<Drift>) {
        let mut observed = observe(&self.host, declared, None, &mut |_| {});
        let drifts = differences(declared, &observed);
        observed.held = None;
        (observed, drifts)
    }

    /// What would hold an agent back, as far as it outlives one.
    fn held(&self, declared: &Declared) -> Option<(&'static str, String)> {
        let now = SystemTime::now();
        let stop = self.stops.of(&declared.policy, now);
        if let Some(stop) = stop.filter(|stop| !self.force || stop.kind.stops_people()) {
            return Some((stop.kind.reason(), stop.message));
        }
        if self.force {
            return None;
        }
        if declared.on_drift == Mode::Observe {
            let message = "the policy says that it is only watched";
            return Some(("observe", message.to_owned()));
        }
        let brake = self.stored(declared)?;
        if let Some(until) = brake.contested {
            let until = crate::serve::rfc3339(until);
            return Some((
                "contested",
                format!("another program keeps changing it: left alone until {until}"),
            ));
        }
        (brake.not_before > now).then(|| {
            let until = crate::serve::rfc3339(brake.not_before);
            (
                "backoff",
                format!("it was tried just before: not again before {until}"),
            )
        })
    }

    fn stored(&self, declared: &Declared) -> Option<HeldBrake> {
        let guard = &declared.policy.guard;
        let longest = Longest {
            backoff: guard.backoff.cap,
            contested: guard.fight.map(|fight| fight.hold).unwrap_or_default(),
        };
        // Only looked at: nothing of it is forgotten here.
        let brakes = self
            .store
            .state()
            .brakes(SystemTime::now(), longest, |_| true);
        brakes.ok()?.remove(&declared.path)
    }

    /// The next agent, and the next such command, wait as after any heal.
    fn brake(&self, declared: &Declared) -> Result<()> {
        let (now, wall) = (Instant::now(), SystemTime::now());
        let held = self.stored(declared);
        let mut brake = held.map_or_else(Brake::default, |held| {
            Brake::resumed(held.row, held.not_before, wall, now)
        });
        brake.tried(now, &declared.policy.guard.backoff);
        let held = HeldBrake {
            row: brake.row(),
            not_before: brake.not_before(wall, now),
            contested: held.and_then(|held| held.contested),
        };
        self.store
            .state()
            .set_brakes(&[(&declared.path, Some(held))])?;
        Ok(())
    }
}
