//! A command as a person would type it, so that what a step did can be pasted into a shell.

use std::{ffi::OsStr, process::Command};

/// What `cargo run` sets for the program it runs. A person's shell has none of it, and some build scripts are run again when it changes.
pub(crate) fn is_set_by_cargo_run(name: &str) -> bool {
    name.starts_with("CARGO_PKG_")
        || name.starts_with("CARGO_MANIFEST_")
        || matches!(
            name,
            "CARGO"
                | "CARGO_BIN_NAME"
                | "CARGO_CRATE_NAME"
                | "CARGO_PRIMARY_PACKAGE"
                | "OUT_DIR"
                | "RUST_RECURSION_COUNT"
        )
}

/// `word` in quotes where the shell needs them.
pub(crate) fn quote(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The whole command: folder, changed environment, program, arguments.
pub(crate) fn render(command: &Command) -> String {
    let mut words = Vec::new();
    if let Some(folder) = command.get_current_dir() {
        words.push(format!("cd {} &&", quote(folder.as_os_str())));
    }
    let (mut removed, mut set) = (Vec::new(), Vec::new());
    for (name, value) in command.get_envs() {
        let shown = name.to_string_lossy();
        match value {
            Some(value) => set.push(format!("{shown}={}", quote(value))),
            None if is_set_by_cargo_run(&shown) || std::env::var_os(name).is_none() => {}
            None => removed.push(format!("-u {shown}")),
        }
    }
    if !removed.is_empty() {
        words.push("env".to_owned());
        words.append(&mut removed);
    }
    words.append(&mut set);
    words.push(quote(command.get_program()));
    words.extend(command.get_args().map(quote));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rendered_command_is_what_one_would_type() {
        let mut command = Command::new("cargo");
        command
            .args(["build", "--cfg=arch=\"x86_64\"", "", "it's"])
            .env("RUSTC_BOOTSTRAP", "1")
            .env_remove("CARGO_PKG_NAME")
            .env_remove("NOT_SET_HERE")
            .current_dir("/a b");
        assert_eq!(
            render(&command),
            r#"cd '/a b' && RUSTC_BOOTSTRAP=1 cargo build '--cfg=arch="x86_64"' '' 'it'\''s'"#
        );
    }
}
