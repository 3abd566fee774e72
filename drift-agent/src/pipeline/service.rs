//! What a service manager is told of this agent, where one has asked: the protocol of `sd_notify(3)`, datagrams to a socket that it names.

use std::{
    env,
    ffi::OsStr,
    io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram},
        },
    },
    time::{Duration, Instant},
};

use log::warn;

use super::{Pipeline, timers::Timer};

/// Who wants to be told.
pub(super) struct Service {
    socket: UnixDatagram,
    to: SocketAddr,
    /// How often it wants to hear that this process goes on.
    every: Option<Duration>,
}

impl Service {
    /// The one that the environment names.
    pub(super) fn of_environment() -> Option<Self> {
        let named = env::var_os("NOTIFY_SOCKET")?;
        let watched = |name| env::var(name).ok();
        let every = interval(
            watched("WATCHDOG_USEC").as_deref(),
            watched("WATCHDOG_PID").as_deref(),
            std::process::id(),
        );
        let service = address(&named).and_then(|to| {
            Ok(Self {
                socket: UnixDatagram::unbound()?,
                to,
                every,
            })
        });
        service
            .inspect_err(|error| {
                warn!("the service manager's socket {named:?} is of no use ({error}): it is told nothing");
            })
            .ok()
    }

    fn tell(&self, what: &str) {
        if let Err(error) = self.socket.send_to_addr(what.as_bytes(), &self.to) {
            warn!("the service manager cannot be told {what}: {error}");
        }
    }
}

/// A path, or with `@` a name in the abstract name space.
fn address(named: &OsStr) -> io::Result<SocketAddr> {
    match named.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(named),
    }
}

/// Half of the time after which the manager would end a silent process; `None`: it watches none, or another one.
fn interval(time: Option<&str>, of: Option<&str>, own: u32) -> Option<Duration> {
    if of.is_some_and(|of| of.parse() != Ok(own)) {
        return None;
    }
    let time: u64 = time?.parse().ok()?;
    (time > 1).then(|| Duration::from_micros(time / 2))
}

impl Pipeline {
    /// Everything was looked at once.
    pub(super) fn tell_ready(&mut self) {
        if let Some(service) = &self.service {
            service.tell("READY=1");
            self.go_on();
        }
    }

    /// The task that decides goes on.
    pub(super) fn go_on(&mut self) {
        if let Some(service) = &self.service
            && let Some(every) = service.every
        {
            service.tell("WATCHDOG=1");
            self.timers.set(Timer::Service, Instant::now() + every);
        }
    }

    pub(super) fn tell_end(&self) {
        if let Some(service) = &self.service {
            service.tell("STOPPING=1");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_hears_twice_as_often_as_it_wants_to() {
        let half = Some(Duration::from_secs(15));
        assert_eq!(interval(Some("30000000"), None, 7), half);
        assert_eq!(interval(Some("30000000"), Some("7"), 7), half);
        assert_eq!(interval(Some("30000000"), Some("8"), 7), None);
        assert_eq!(interval(None, Some("7"), 7), None);
        assert_eq!(interval(Some("soon"), None, 7), None);
        assert_eq!(interval(Some("0"), None, 7), None);
    }

    #[test]
    fn what_is_told_arrives_at_a_path_and_at_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("@drift-test-{}", std::process::id());
        for named in [path.as_os_str(), OsStr::new(&name)] {
            let to = address(named).unwrap();
            let manager = UnixDatagram::bind_addr(&to).unwrap();
            let socket = UnixDatagram::unbound().unwrap();
            Service {
                socket,
                to,
                every: None,
            }
            .tell("READY=1");
            let mut heard = [0; 32];
            let length = manager.recv(&mut heard).unwrap();
            assert_eq!(&heard[..length], b"READY=1");
        }
    }
}
