//! Units of systemd, by `systemctl`.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use super::{ReloadError, USUAL, command};

/// How systemd is reached.
pub(super) struct Systemd {
    /// There while it runs: sd_booted(3).
    booted: PathBuf,
    /// The first that is there.
    programs: [PathBuf; 2],
}

impl Default for Systemd {
    fn default() -> Self {
        Self {
            booted: "/run/systemd/system".into(),
            programs: ["/usr/bin/systemctl".into(), "/bin/systemctl".into()],
        }
    }
}

impl Systemd {
    fn program(&self) -> Result<&Path, ReloadError> {
        let mut programs = self.programs.iter();
        match programs.find(|program| program.is_file()) {
            Some(program) if self.booted.is_dir() => Ok(program),
            _ => Err(ReloadError::NoSystemd),
        }
    }

    /// `reload` or `restart`.
    pub(super) fn tell(
        &self,
        verb: &str,
        unit: &str,
        output: &mut Vec<u8>,
    ) -> Result<String, ReloadError> {
        let program = self.program()?;
        let arguments = ["--no-ask-password", verb, "--", unit].map(OsStr::new);
        match command::run(program, &arguments, USUAL, output)? {
            command::Ended::Status(status) if status.success() => Ok(String::new()),
            command::Ended::Status(status) => Err(ReloadError::Status(status.to_string())),
            command::Ended::TimedOut => Err(ReloadError::TimedOut(USUAL)),
        }
    }

    /// The number of a unit's main process.
    pub(super) fn main_process(&self, unit: &str) -> Result<u32, ReloadError> {
        let program = self.program()?;
        let arguments = ["show", "--property=MainPID", "--value", "--", unit].map(OsStr::new);
        let mut output = Vec::new();
        match command::run(program, &arguments, USUAL, &mut output)? {
            command::Ended::Status(status) if status.success() => {}
            command::Ended::Status(status) => return Err(ReloadError::Status(status.to_string())),
            command::Ended::TimedOut => return Err(ReloadError::TimedOut(USUAL)),
        }
        let number = String::from_utf8_lossy(&output).trim().parse().unwrap_or(0);
        if number == 0 {
            return Err(ReloadError::NoProcess);
        }
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    /// A systemctl that writes down how it was called.
    fn fake(dir: &Path, script: &str) -> Systemd {
        let program = dir.join("systemctl");
        fs::write(
            &program,
            format!(
                "#!/bin/sh\necho \"$@\" >> {}/calls\n{script}\n",
                dir.display()
            ),
        )
        .unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Systemd {
            booted: dir.to_owned(),
            programs: [dir.join("none"), program],
        }
    }

    #[test]
    fn units_are_told_by_systemctl() {
        let dir = tempfile::tempdir().unwrap();
        let systemd = fake(
            dir.path(),
            "test \"$4\" = good.service && echo 42 || test \"$1\" = show || exit 5",
        );
        let mut output = Vec::new();
        assert!(systemd.tell("reload", "good.service", &mut output).is_ok());
        let came = systemd.tell("restart", "bad.service", &mut output);
        assert!(matches!(came, Err(ReloadError::Status(_))), "{came:?}");
        assert!(matches!(
            systemd.main_process("bad.service"),
            Err(ReloadError::NoProcess)
        ));
        let calls = fs::read_to_string(dir.path().join("calls")).unwrap();
        assert_eq!(
            calls,
            "--no-ask-password reload -- good.service\n--no-ask-password restart -- bad.service\nshow --property=MainPID --value -- bad.service\n"
        );
    }

    #[test]
    fn without_systemd_that_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let mut systemd = fake(dir.path(), "");
        systemd.booted = dir.path().join("none");
        let came = systemd.tell("reload", "a.service", &mut Vec::new());
        assert!(matches!(came, Err(ReloadError::NoSystemd)), "{came:?}");
        assert!(
            came.unwrap_err()
                .to_string()
                .contains("systemd does not run here")
        );
        assert!(!dir.path().join("calls").exists());
    }
}
