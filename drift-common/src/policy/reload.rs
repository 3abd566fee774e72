//! What makes programs take in a file that was healed.

use std::{path::PathBuf, time::Duration};

/// One thing to do after a file was healed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterHeal {
    /// Send a signal.
    Signal { signal: Signal, to: Whom },
    /// `systemctl reload` of this unit.
    Reload(String),
    /// `systemctl restart` of this unit.
    Restart(String),
    /// Run a program, without a shell.
    Command {
        /// The program's absolute path.
        program: PathBuf,
        arguments: Vec<String>,
        timeout: Duration,
    },
}

/// Who gets a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// The main process of this unit.
    Unit(String),
    /// Every process with this executable.
    Process(PathBuf),
}

/// The signals that programs take for "read your configuration again".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Hup,
    Usr1,
    Usr2,
    Term,
    Int,
}

impl Signal {
    /// Each with the word for it.
    pub const ALL: [(&'static str, Self); 5] = [
        ("HUP", Self::Hup),
        ("USR1", Self::Usr1),
        ("USR2", Self::Usr2),
        ("TERM", Self::Term),
        ("INT", Self::Int),
    ];
}
