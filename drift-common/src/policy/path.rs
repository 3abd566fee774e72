//! What a declared path must look like, so that one object has one spelling.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use crate::escape;

/// Bytes of one component, at most (`NAME_MAX`).
const MAX_NAME: usize = 255;
/// Bytes of a path, at most (`PATH_MAX`, whose last byte is the closing NUL).
pub(crate) const MAX_PATH: usize = 4095;

/// Why a path cannot be declared, and what to write instead.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unfit {
    pub(crate) message: String,
    pub(crate) help: String,
}

/// Whether `path` can be declared: absolute, and as the kernel would spell it. Links in it are no concern here.
pub(crate) fn check_declared(path: &Path) -> Result<(), Unfit> {
    let bytes = path.as_os_str().as_bytes();
    let shown = escape::path_name(path);
    let unfit = |message: String, help: String| Err(Unfit { message, help });
    if bytes.is_empty() {
        return unfit(
            "an empty path".into(),
            "write the whole path, as in `/etc/app/app.conf`".into(),
        );
    }
    if let Some(unfit) = too_long(path) {
        return Err(unfit);
    }
    let normal = normal(bytes);
    if bytes[0] != b'/' {
        let help = if bytes[0] == b'~' || bytes[0] == b'$' {
            "`~` and variables are not replaced: write the whole path".to_owned()
        } else {
            format!("write the whole path, as in {}", escape::path_name(&normal))
        };
        return unfit(format!("{shown} is not an absolute path"), help);
    }
    if normal == Path::new("/") {
        return unfit(
            format!("{shown} is no file"),
            "declare the files beneath it".into(),
        );
    }
    let odd = bytes[1..]
        .split(|byte| *byte == b'/')
        .find(|name| matches!(*name, b"" | b"." | b".."));
    if let Some(odd) = odd {
        let what = match odd {
            b"" if bytes.ends_with(b"/") && !bytes.windows(2).any(|two| two == b"//") => {
                "a closing `/`"
            }
            b"" => "an empty component (`//`)",
            b"." => "the component `.`",
            _ => "the component `..`",
        };
        return unfit(
            format!("{shown} has {what}"),
            format!("write {}", escape::path_name(&normal)),
        );
    }
    Ok(())
}

/// Whether `path` can name a file of content: beneath the folder of the policy, whatever links there are.
pub(crate) fn check_beneath(path: &Path) -> Result<(), Unfit> {
    let bytes = path.as_os_str().as_bytes();
    let shown = escape::path_name(path);
    let unfit = |message: String| {
        Err(Unfit {
            message,
            help: "write where the file is beneath the folder of this policy file, as in `blobs/app.conf`".to_owned(),
        })
    };
    if bytes.is_empty() {
        return unfit("an empty path".to_owned());
    }
    if let Some(unfit) = too_long(path) {
        return Err(unfit);
    }
    if bytes[0] == b'/' {
        return unfit(format!("{shown} is not relative to this policy file"));
    }
    let mut names = bytes.split(|byte| *byte == b'/');
    if names.clone().any(|name| name == b"..") {
        return unfit(format!("{shown} leads out of the policy folder"));
    }
    if names.any(|name| matches!(name, b"" | b".")) {
        return Err(Unfit {
            message: format!("{shown} has a component that says nothing"),
            help: format!("write {}", escape::path_name(&relative(&normal(bytes)))),
        });
    }
    Ok(())
}

fn too_long(path: &Path) -> Option<Unfit> {
    let bytes = path.as_os_str().as_bytes();
    let shown = escape::path_name(path);
    let limit = |message: String| Unfit {
        message,
        help: "no file system of Linux can have such a file".to_owned(),
    };
    if bytes.contains(&0) {
        return Some(limit(format!("{shown} has a NUL byte")));
    }
    if bytes.len() > MAX_PATH {
        return Some(limit(format!(
            "{shown} is {} bytes long; at most {MAX_PATH} are possible",
            bytes.len()
        )));
    }
    let name = bytes
        .split(|byte| *byte == b'/')
        .find(|name| name.len() > MAX_NAME)?;
    Some(limit(format!(
        "{} is {} bytes long; a file's name has at most {MAX_NAME}",
        escape::path_name(Path::new(std::ffi::OsStr::from_bytes(name))),
        name.len()
    )))
}

/// `path` made absolute and without components that say nothing. `..` takes the component before it away, which is only a guess: links
/// may make it lead elsewhere.
fn normal(path: &[u8]) -> PathBuf {
    let mut names: Vec<&[u8]> = Vec::new();
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    let mut whole = Vec::with_capacity(path.len() + 1);
    for name in &names {
        whole.push(b'/');
        whole.extend_from_slice(name);
    }
    if names.is_empty() {
        whole.push(b'/');
    }
    OsString::from_vec(whole).into()
}

fn relative(path: &Path) -> PathBuf {
    path.strip_prefix("/").unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Unfit, check_beneath, check_declared};

    fn text(checked: Result<(), Unfit>) -> String {
        checked.map_or_else(
            |unfit| format!("{}; {}", unfit.message, unfit.help),
            |()| "fit".to_owned(),
        )
    }

    #[test]
    fn a_declared_path_has_one_spelling() {
        #[track_caller]
        fn check(path: &str, expected: &str) {
            assert_eq!(text(check_declared(Path::new(path))), expected, "{path:?}");
        }
        check("/etc/app/app.conf", "fit");
        check("/etc/..data/...", "fit");
        check("/etc/a\nb", "fit");
        check(
            "",
            "an empty path; write the whole path, as in `/etc/app/app.conf`",
        );
        check("/", "`/` is no file; declare the files beneath it");
        check("/..", "`/..` is no file; declare the files beneath it");
        check(
            "etc/app",
            "`etc/app` is not an absolute path; write the whole path, as in `/etc/app`",
        );
        check(
            "~/.x",
            "`~/.x` is not an absolute path; `~` and variables are not replaced: write the whole path",
        );
        check(
            "/etc//app",
            "`/etc//app` has an empty component (`//`); write `/etc/app`",
        );
        check(
            "//etc/app/",
            "`//etc/app/` has an empty component (`//`); write `/etc/app`",
        );
        check(
            "/etc/app/",
            "`/etc/app/` has a closing `/`; write `/etc/app`",
        );
        check(
            "/etc/./app",
            "`/etc/./app` has the component `.`; write `/etc/app`",
        );
        check(
            "/etc/x/../app",
            "`/etc/x/../app` has the component `..`; write `/etc/app`",
        );
        check(
            "/a\0b",
            "`/a\\x00b` has a NUL byte; no file system of Linux can have such a file",
        );
        check(&format!("/{}", "n".repeat(255)), "fit");
        check(
            &format!("/{}", "n".repeat(256)),
            &format!(
                "`{0}…{0}` is 256 bytes long; a file's name has at most 255; no file system of Linux can have such a file",
                "n".repeat(30)
            ),
        );
        check(
            format!("/{}", "n/".repeat(2047)).trim_end_matches('/'),
            "fit",
        );
        check(
            &format!("/{}", "n/".repeat(2048)),
            &format!(
                "`/{}…{}` is 4097 bytes long; at most 4095 are possible; no file system of Linux can have such a file",
                "n/".repeat(15).trim_end_matches('/'),
                "n/".repeat(15)
            ),
        );
    }

    #[test]
    fn content_stays_beneath_the_policy() {
        #[track_caller]
        fn check(path: &str, expected: &str) {
            assert_eq!(text(check_beneath(Path::new(path))), expected, "{path:?}");
        }
        let help = "write where the file is beneath the folder of this policy file, as in `blobs/app.conf`";
        check("blobs/app.conf", "fit");
        check("..data/app.conf", "fit");
        check("", &format!("an empty path; {help}"));
        check(
            "/etc/passwd",
            &format!("`/etc/passwd` is not relative to this policy file; {help}"),
        );
        check(
            "blobs/../../x",
            &format!("`blobs/../../x` leads out of the policy folder; {help}"),
        );
        check(
            "./blobs//x",
            "`./blobs//x` has a component that says nothing; write `blobs/x`",
        );
    }
}
