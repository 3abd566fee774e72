//! `cargo xtask bench memory`: what the agent's processes hold, with many declared files.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};

use super::observer::{Observer, Ready, load};
use crate::{
    build,
    interrupt::Interrupt,
    machine,
    workspace::{Profile, Workspace},
};

/// Measure what the agent's processes hold while it watches many declared files, and would heal them.
///
/// The files are 1 KiB each, and hold what is declared. It is measured when everything was looked at and nothing more is given back.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How many files.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    files: u32,
    /// In how many policies.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=4096))]
    policies: u32,
    /// The agent to measure [default: built here, optimised].
    #[arg(long, value_name = "FILE")]
    agent: Option<PathBuf>,
}

/// Nothing was given back for this long.
const QUIET: Duration = Duration::from_secs(2);
/// Not longer.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn run(args: &Args) -> Result<()> {
    ensure!(
        machine::is_root(),
        "loading kernel programs needs root: sudo -E cargo xtask bench memory"
    );
    let interrupt = Interrupt::listen()?;
    let program = match &args.agent {
        Some(agent) => agent.clone(),
        None => build::agent(&Workspace::find()?, Profile::Release)?,
    };
    let folder = tempfile::tempdir().context("making a scratch folder")?;
    let bytes = declare(folder.path(), args)?;
    let ready = folder.path().join("ready");
    let mut command = Command::new(&program);
    command.arg("run").arg("--policies");
    command.arg(folder.path().join("policies")).arg("--state");
    command.arg(folder.path().join("state"));
    command.args(["-o", "jsonl", "--ready-file"]).arg(&ready);
    let agent = Observer::start(command, Ready::File(&ready), &interrupt)?;
    let processes = at_rest(agent.pid(), &interrupt)?;
    println!(
        "{} files in {} policies, {:.1} MiB of contents, load {}\n",
        args.files,
        args.policies,
        mebibytes(bytes),
        load()
    );
    println!(
        " {:<24} {:>9} {:>9} {:>10} {:>9}",
        "", "resident", "its own", "in share", "at most"
    );
    let mut sum = Held::default();
    for (name, held) in &processes {
        println!("{}", row(name, held));
        sum.resident += held.resident;
        sum.anonymous += held.anonymous;
        sum.proportional += held.proportional;
        sum.most += held.most;
    }
    println!("{}", row("all", &sum));
    println!(
        "\nMiB. In share: a page that several processes have counts in each by its part, so that the sum is what the machine gives."
    );
    Ok(())
}

/// Bytes.
#[derive(Clone, Debug, Default)]
struct Held {
    resident: u64,
    /// Of no file.
    anonymous: u64,
    proportional: u64,
    /// Resident at any time so far.
    most: u64,
}

fn row(name: &str, held: &Held) -> String {
    format!(
        " {name:<24} {:>9.1} {:>9.1} {:>10.1} {:>9.1}",
        mebibytes(held.resident),
        mebibytes(held.anonymous),
        mebibytes(held.proportional),
        mebibytes(held.most)
    )
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Makes the files and declares them. The bytes of all contents.
fn declare(folder: &Path, args: &Args) -> Result<u64> {
    let policies = folder.join("policies");
    fs::create_dir(&policies)?;
    let mut bytes = 0;
    for policy in 0..args.policies {
        let place = folder.join(format!("tree/p{policy:04}"));
        fs::create_dir_all(&place)?;
        let mut text = format!(
            "apiVersion: configdrift.io/v1alpha1\nkind: Policy\nmetadata: {{name: p{policy}}}\nspec: {{activeVersion: 1.0.0, mode: heal}}\n---\n\
             apiVersion: configdrift.io/v1alpha1\nkind: PolicyVersion\nmetadata: {{name: p{policy}-1.0.0}}\nspec:\n  policy: p{policy}\n  version: 1.0.0\n  files:\n"
        );
        // Each policy has one of those that do not come out even.
        let count = args.files / args.policies + u32::from(policy < args.files % args.policies);
        for number in 0..count {
            let mut content = String::new();
            for line in 0..45 {
                writeln!(
                    content,
                    "setting-{line:02} = {}",
                    policy * 31 + number * line
                )?;
            }
            bytes += content.len() as u64;
            let file = place.join(format!("f{number:05}.conf"));
            fs::write(&file, &content)?;
            let content = serde_json::to_string(&content)?;
            writeln!(
                text,
                "    - path: {}\n      content: {{inline: {content}}}\n      mode: \"0644\"",
                file.display()
            )?;
        }
        if count == 0 {
            text += "    []\n";
        }
        fs::write(policies.join(format!("p{policy:04}.yaml")), text)?;
    }
    Ok(bytes)
}

/// The process and those that it has started, with what they hold when that does not get less any more.
fn at_rest(pid: u32, interrupt: &Interrupt) -> Result<Vec<(String, Held)>> {
    let end = Instant::now() + PATIENCE;
    let mut least = u64::MAX;
    let mut since = Instant::now();
    loop {
        interrupt.check()?;
        let processes = family(pid)?;
        let now = processes.iter().map(|(_, held)| held.resident).sum();
        if now < least {
            (least, since) = (now, Instant::now());
        }
        if since.elapsed() > QUIET || Instant::now() > end {
            return Ok(processes);
        }
        thread::park_timeout(Duration::from_millis(100));
    }
}

fn family(pid: u32) -> Result<Vec<(String, Held)>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(one) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // One that has just ended is none.
        let Ok(status) = fs::read_to_string(format!("/proc/{one}/status")) else {
            continue;
        };
        parents.push((one, number(&status, "PPid:").unwrap_or(0) as u32));
    }
    parents.sort_unstable();
    let mut members = vec![pid];
    let mut next = 0;
    while let Some(parent) = members.get(next).copied() {
        let children = parents.iter().filter(|(_, of)| *of == parent);
        members.extend(children.map(|(one, _)| *one));
        next += 1;
    }
    members.into_iter().map(held).collect()
}

fn held(pid: u32) -> Result<(String, Held)> {
    let read = |name: &str| {
        let path = format!("/proc/{pid}/{name}");
        fs::read_to_string(&path).context(path)
    };
    let (status, rollup) = (read("status")?, read("smaps_rollup")?);
    let of = |text: &str, field: &str| {
        let kibibytes = number(text, field).with_context(|| format!("no {field} of {pid}"))?;
        Ok::<_, anyhow::Error>(kibibytes << 10)
    };
    let command = read("cmdline")?;
    let words: Vec<&str> = command.split('\0').collect();
    let role = match words.get(1) {
        Some(&"run") => "detector",
        Some(&"restore-process") => words.get(2).copied().unwrap_or("restore-process"),
        other => other.copied().unwrap_or("?"),
    };
    let held = Held {
        resident: of(&status, "VmRSS:")?,
        anonymous: of(&status, "RssAnon:")?,
        proportional: of(&rollup, "Pss:")?,
        most: of(&status, "VmHWM:")?,
    };
    Ok((role.to_owned(), held))
}

/// The number after a field's name.
fn number(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_and_its_children_are_counted_with_what_they_hold() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let family = family(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        let family = family.unwrap();
        let sleeps = family.iter().filter(|(name, _)| name == "60").count();
        assert!(sleeps == 1 && family.len() > 1, "{family:?}");
        let (_, own) = &family[0];
        assert!(own.resident >= own.anonymous && own.most >= own.resident);
    }

    #[test]
    fn every_file_is_declared_in_a_policy() {
        let folder = tempfile::tempdir().unwrap();
        let args = Args {
            files: 7,
            policies: 3,
            agent: None,
        };
        declare(folder.path(), &args).unwrap();
        let count = |policy: usize| {
            let path = format!("policies/p{policy:04}.yaml");
            let text = fs::read_to_string(folder.path().join(path)).unwrap();
            text.matches("- path: ").count()
        };
        assert_eq!([0, 1, 2].map(count), [3, 2, 2]);
    }
}
