//! What makes programs take in a file that was healed.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use crate::escape;

/// One thing to do after a file was healed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// Ask something that listens on this machine.
    Http {
        method: Method,
        endpoint: Endpoint,
        /// `None`: any from 200 to 299.
        status: Option<u16>,
        timeout: Duration,
    },
}

/// The longest that an action may take.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// How something is asked by HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    Get,
    #[default]
    Post,
}

impl Method {
    /// Each with the word for it.
    pub const ALL: [(&'static str, Self); 2] = [("GET", Self::Get), ("POST", Self::Post)];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// An address on this machine. No name is looked up for it: what leads elsewhere cannot be said.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    pub address: SocketAddr,
    /// With its query; begins with `/`.
    pub target: String,
}

impl Endpoint {
    /// From `http://127.0.0.1:8080/reload`. `None`: it is none, or not of this machine.
    #[must_use]
    pub fn parse(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("http://")?;
        let (host, target) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => {
                let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
                (name, digits.then(|| port.parse().ok())??)
            }
            _ => (host, 80),
        };
        let ip: IpAddr = match name {
            "localhost" => Ipv4Addr::LOCALHOST.into(),
            _ => match name
                .strip_prefix('[')
                .and_then(|name| name.strip_suffix(']'))
            {
                Some(name) => IpAddr::V6(name.parse().ok()?),
                None => IpAddr::V4(name.parse().ok()?),
            },
        };
        let is_plain = target.len() <= 2048 && target.bytes().all(|byte| byte.is_ascii_graphic());
        (ip.is_loopback() && port != 0 && is_plain && !target.contains('#')).then(|| Self {
            address: SocketAddr::new(ip, port),
            target: target.to_owned(),
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.address, self.target)
    }
}

/// Who gets a signal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Whom {
    /// The main process of this unit.
    Unit(String),
    /// The process whose number is in this file.
    PidFile(PathBuf),
    /// Every process with this executable.
    Process(PathBuf),
}

/// The signals that programs take for "read your configuration again".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hup => "HUP",
            Self::Usr1 => "USR1",
            Self::Usr2 => "USR2",
            Self::Term => "TERM",
            Self::Int => "INT",
        }
    }
}

impl fmt::Display for AfterHeal {
    /// As people say it, in one line. Arguments of a command may be secrets, and are not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal { signal, to } => {
                let signal = signal.name();
                match to {
                    Whom::Unit(unit) => write!(f, "signal {signal} to {unit}"),
                    Whom::PidFile(file) => {
                        write!(
                            f,
                            "signal {signal} to the process of {}",
                            escape::path(file)
                        )
                    }
                    Whom::Process(program) => {
                        write!(f, "signal {signal} to {}", escape::path(program))
                    }
                }
            }
            Self::Reload(unit) => write!(f, "reload {unit}"),
            Self::Restart(unit) => write!(f, "restart {unit}"),
            Self::Command { program, .. } => write!(f, "command {}", escape::path(program)),
            Self::Http {
                method, endpoint, ..
            } => write!(f, "{} http://{}", method.name(), endpoint.address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Endpoint;

    #[test]
    fn an_endpoint_is_on_this_machine() {
        #[track_caller]
        fn check(url: &str, expected: Option<&str>) {
            let shown = Endpoint::parse(url).map(|endpoint| endpoint.to_string());
            assert_eq!(shown.as_deref(), expected, "{url}");
        }
        check(
            "http://127.0.0.1:8080/reload?a=b",
            Some("http://127.0.0.1:8080/reload?a=b"),
        );
        check("http://localhost", Some("http://127.0.0.1:80/"));
        check(
            "http://[::1]:9000/-/reload",
            Some("http://[::1]:9000/-/reload"),
        );
        check("http://[::1]", Some("http://[::1]:80/"));
        check("http://127.9.9.9", Some("http://127.9.9.9:80/"));
        for wrong in [
            "https://127.0.0.1/",
            "http://10.0.0.1/",
            "http://0.0.0.0/",
            "http://[::]/",
            "http://[::ffff:10.0.0.1]/",
            "http://localhost.example.org/",
            "http://127.0.0.1:0/",
            "http://127.0.0.1:/",
            "http://127.0.0.1:+1/",
            "http://127.0.0.1:99999/",
            "http://user@127.0.0.1/",
            "http://127.1/",
            "http://127.0.0.1/a b",
            "http://127.0.0.1/\r\nX: y",
            "http://127.0.0.1/#a",
            "127.0.0.1:80",
            "",
        ] {
            check(wrong, None);
        }
    }
}
