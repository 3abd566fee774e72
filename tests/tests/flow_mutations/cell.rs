//! One mutation done to one target, in a folder of its own.
//!
//! ```text
//! <folder>/up/d/p    the declared path
//! <folder>/way       a link to up/d, where the path is declared through one
//! <folder>/…         what the mutation needs beside, on the same file system
//! ```
//!
//! Nothing here follows a link at the declared path: a mask leads out of the scratch folder.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{ErrorKind, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt, chown, lchown, symlink},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use rustix::fs::{
    AtFlags, CWD, Dev, FileType, IFlags, Mode, OFlags, RenameFlags, Timespec, Timestamps,
    XattrFlags, ioctl_getflags, ioctl_setflags, linkat, makedev, mknodat, renameat_with, setxattr,
    utimensat,
};

use crate::table::Column;

/// What is declared of files: more than one block, with all that editors and tools like to change.
pub fn declared(column: Column) -> Vec<u8> {
    let (head, separator, quote, end, foot) = match column {
        Column::Yaml => ("", ": ", "", "", ""),
        Column::Json => ("{\n", ": ", "\"", ",", "\"last\": 0}\n"),
        _ => ("", " = ", "", "", ""),
    };
    let line = |number| {
        format!("{quote}setting_{number:04}{quote}{separator}{quote}value of it{quote}{end}\n")
    };
    let lines = (0..400).map(line).collect::<String>();
    format!("{head}{lines}{foot}").into_bytes()
}

/// What is declared of the file in the exhaustive directory.
pub const CHILD: &str = "child\n";

/// What the link on the way holds.
pub const WAY: &str = "up/d";

/// The key that is managed among those that others have.
pub const MANAGED: &str = "/setting_0007";

/// The mode of directories, where it is declared and where it is not.
const DIRECTORY: u32 = 0o750;

/// Puts there what the column declares.
pub fn lay_out(column: Column, path: &Path) -> Result<()> {
    let directory = |path: &Path| make_directory(path, DIRECTORY);
    match column {
        Column::File | Column::Through => make_file(path, &declared(column), 0o640),
        Column::Bare | Column::Yaml | Column::Json | Column::Managed => {
            make_file(path, &declared(column), 0o644)
        }
        Column::Attributed => {
            make_file(path, &declared(column), 0o640)?;
            setxattr(path, "user.drift", b"declared", XattrFlags::empty())?;
            let list = access_list(2, [6, 4, 4, 4, 0]);
            let access = "system.posix_acl_access";
            Ok(setxattr(path, access, &list, XattrFlags::empty())?)
        }
        Column::Dir => {
            directory(path)?;
            make_file(&path.join("inside"), b"x", 0o644)
        }
        Column::Exhaustive | Column::Child => {
            directory(path)?;
            make_file(&path.join("child"), CHILD.as_bytes(), 0o644)?;
            make_file(&path.join("old.bak"), b"x", 0o644)
        }
        Column::Link => {
            make_file(&path.with_file_name("target"), b"x", 0o644)?;
            make_link(path, "target")
        }
        Column::Absent => Ok(()),
        Column::Mask => make_link(path, "/dev/null"),
    }
}

pub fn make_file(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = file.with_context(|| path.display().to_string())?;
    file.write_all(content)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(())
}

pub fn make_directory(path: &Path, mode: u32) -> Result<()> {
    fs::create_dir(path).with_context(|| path.display().to_string())?;
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    Ok(())
}

pub fn make_link(path: &Path, text: impl AsRef<Path>) -> Result<()> {
    symlink(text, path).with_context(|| path.display().to_string())
}

pub fn make_node(path: &Path, kind: FileType) -> Result<()> {
    // Numbers of devices that every machine has; nobody opens them.
    let device: Dev = match kind {
        FileType::CharacterDevice => makedev(1, 3),
        FileType::BlockDevice => makedev(7, 0),
        _ => 0,
    };
    mknodat(CWD, path, kind, Mode::from_raw_mode(0o644), device)
        .with_context(|| path.display().to_string())
}

/// An access list: what the owner, a user, the group, the mask and others may.
fn access_list(user: u32, may: [u16; 5]) -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let tags = [
        (1, NOBODY),
        (2, user),
        (4, NOBODY),
        (0x10, NOBODY),
        (0x20, NOBODY),
    ];
    let mut value = 2u32.to_le_bytes().to_vec();
    for ((tag, id), may) in tags.into_iter().zip(may) {
        value.extend(u16::to_le_bytes(tag));
        value.extend(may.to_le_bytes());
        value.extend(u32::to_le_bytes(id));
    }
    value
}

/// Removes whatever stands there.
pub fn remove(path: &Path) -> Result<()> {
    let meta = fs::symlink_metadata(path).with_context(|| path.display().to_string())?;
    if meta.is_dir() {
        Ok(fs::remove_dir_all(path)?)
    } else {
        Ok(fs::remove_file(path)?)
    }
}

/// A target, and where it is.
#[derive(Clone, Debug)]
pub struct Cell {
    pub folder: PathBuf,
    pub column: Column,
}

impl Cell {
    /// The directory that the declared path is in.
    pub fn parent(&self) -> PathBuf {
        self.folder.join("up/d")
    }

    /// What is declared of it, if it is a file.
    pub fn declared(&self) -> Vec<u8> {
        declared(self.column)
    }

    /// The link through which it is reached, where there is one.
    pub fn way(&self) -> PathBuf {
        self.folder.join("way")
    }

    /// The declared path, or where that leads.
    pub fn path(&self) -> PathBuf {
        self.parent().join("p")
    }

    /// Beside it, on the same file system.
    pub fn spare(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A name in the declared directory.
    pub fn inside(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    pub fn prepare(&self) -> Result<()> {
        fs::create_dir_all(self.parent())?;
        if self.column == Column::Through {
            make_link(&self.way(), WAY)?;
        }
        lay_out(self.column, &self.path())
    }

    /// What stands at the path, a second time, in a directory like the parent.
    pub fn twin(&self) -> Result<PathBuf> {
        let parent = self.twin_of_parent()?;
        Ok(parent.join("p"))
    }

    pub fn twin_of_parent(&self) -> Result<PathBuf> {
        let parent = self.spare("twin");
        fs::create_dir(&parent)?;
        lay_out(self.column, &parent.join("p"))?;
        Ok(parent)
    }

    /// A tree like the parent, in which something else stands at the path.
    pub fn other_parent(&self) -> Result<PathBuf> {
        let parent = self.spare("other");
        fs::create_dir(&parent)?;
        make_file(&parent.join("p"), b"other\n", 0o600)?;
        Ok(parent)
    }

    /// Puts what `make` makes in place of what stands there: at once where a rename can do that.
    pub fn replace(&self, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let new = self.spare("new");
        make(&new)?;
        if fs::rename(&new, self.path()).is_err() {
            fs::rename(self.path(), self.spare("old"))?;
            fs::rename(&new, self.path())?;
        }
        Ok(())
    }

    /// The same for the parent directory.
    pub fn replace_parent(&self, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        fs::rename(self.parent(), self.spare("away"))?;
        make(&self.parent())
    }

    pub fn exchange(&self, one: &Path, other: &Path) -> Result<()> {
        Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
    }

    /// The file, to be written to.
    pub fn open(&self) -> Result<File> {
        let flags = i32::try_from(OFlags::NOFOLLOW.bits())?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(flags);
        let path = self.path();
        options
            .open(&path)
            .with_context(|| path.display().to_string())
    }

    /// Writes to the file what becomes of its bytes, from its beginning.
    pub fn edit(&self, change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Result<()> {
        let changed = change(self.declared());
        let mut file = self.open()?;
        file.write_all(&changed)?;
        file.set_len(changed.len() as u64)?;
        Ok(())
    }

    /// The same for what is text.
    pub fn edit_text(&self, change: impl FnOnce(String) -> String) -> Result<()> {
        let text = String::from_utf8(self.declared())?;
        self.edit(|_| change(text).into_bytes())
    }

    pub fn chmod(&self, change: impl FnOnce(u32) -> u32) -> Result<()> {
        let file = self.opened()?;
        let mode = file.metadata()?.permissions().mode() & 0o7777;
        Ok(file.set_permissions(Permissions::from_mode(change(mode)))?)
    }

    /// Of the link itself, where it is one.
    pub fn chown(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        Ok(lchown(self.path(), uid, gid)?)
    }

    /// Sets both times, in seconds since 1970; of the link itself, where it is one.
    pub fn touch(&self, seconds: i64) -> Result<()> {
        let time = Timespec {
            tv_sec: seconds,
            tv_nsec: 0,
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        Ok(utimensat(
            CWD,
            self.path(),
            &times,
            AtFlags::SYMLINK_NOFOLLOW,
        )?)
    }

    pub fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        Ok(linkat(CWD, from, CWD, to, AtFlags::empty())?)
    }

    pub fn attribute(&self, name: &str, value: &[u8]) -> Result<()> {
        // Never that of what a link leads to.
        self.opened()?;
        Ok(setxattr(self.path(), name, value, XattrFlags::empty())?)
    }

    pub fn flag(&self, flag: IFlags) -> Result<()> {
        let file = self.opened()?;
        let flags = ioctl_getflags(&file)?;
        Ok(ioctl_setflags(&file, flags | flag)?)
    }

    /// A file or a directory, as it is.
    fn opened(&self) -> Result<File> {
        let flags = i32::try_from(OFlags::NOFOLLOW.bits())?;
        let mut options = OpenOptions::new();
        let path = self.path();
        options
            .read(true)
            .custom_flags(flags)
            .open(&path)
            .with_context(|| path.display().to_string())
    }

    /// An access list in which user 1 has a line.
    pub fn access_list(&self, name: &str, may: [u16; 5]) -> Result<()> {
        self.attribute(name, &access_list(1, may))
    }

    pub fn is_directory(&self) -> bool {
        matches!(self.column, Column::Dir | Column::Exhaustive)
    }

    /// Gives a file to somebody, and takes nothing for granted about what is there.
    pub fn give_away(&self, uid: u32) -> Result<()> {
        self.opened()?;
        Ok(chown(self.path(), Some(uid), None)?)
    }

    /// Reads it as people do.
    pub fn look(&self) -> Result<()> {
        let path = self.path();
        let meta = fs::symlink_metadata(&path)?;
        if meta.is_symlink() {
            fs::read_link(&path)?;
        } else if meta.is_dir() {
            for entry in fs::read_dir(&path)? {
                fs::read(entry?.path())?;
            }
        } else {
            fs::read(&path)?;
        }
        Ok(())
    }

    /// Everything in the directory goes.
    pub fn empty_directory(&self) -> Result<()> {
        for entry in fs::read_dir(self.path())? {
            remove(&entry?.path())?;
        }
        Ok(())
    }

    /// Something that is in nobody's way any more.
    pub fn make_and_remove(&self, path: &Path) -> Result<()> {
        make_file(path, b"x", 0o644)?;
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}
