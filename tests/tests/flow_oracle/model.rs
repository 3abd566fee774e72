//! A file system in memory, as simple as it can be: what the kernel is expected to do, in words of its own.

use std::collections::BTreeMap;

/// Names beneath the tree's root, joined by `/` when shown.
pub type Path = Vec<&'static str>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    File(Vec<u8>),
    /// Names, and the inodes they lead to.
    Directory(BTreeMap<&'static str, usize>),
    Link(String),
    Fifo,
    Socket,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub body: Body,
}

impl Inode {
    pub fn is_directory(&self) -> bool {
        matches!(self.body, Body::Directory(_))
    }
}

/// Where a path leads, without following a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    There(usize),
    /// Nothing there, or no directory on the way.
    Nothing,
    /// Something that is no directory stands in the way.
    Blocked,
}

/// The tree. Inode 0 is its root; what has no name any more stays in the list and is seen by nobody.
#[derive(Clone, Debug)]
pub struct Model {
    pub inodes: Vec<Inode>,
}

/// What an operation did: nothing at all when the kernel refuses it.
type Done = Option<()>;

impl Model {
    pub fn new() -> Model {
        Model {
            inodes: vec![Inode {
                mode: 0o755,
                uid: 0,
                gid: 0,
                body: Body::Directory(BTreeMap::new()),
            }],
        }
    }

    fn entries(&self, inode: usize) -> Option<&BTreeMap<&'static str, usize>> {
        match &self.inodes[inode].body {
            Body::Directory(entries) => Some(entries),
            _ => None,
        }
    }

    fn entries_mut(&mut self, inode: usize) -> Option<&mut BTreeMap<&'static str, usize>> {
        match &mut self.inodes[inode].body {
            Body::Directory(entries) => Some(entries),
            _ => None,
        }
    }

    pub fn way(&self, path: &[&'static str]) -> Way {
        let mut inode = 0;
        for name in path {
            let Some(entries) = self.entries(inode) else {
                return Way::Blocked;
            };
            match entries.get(name) {
                Some(next) => inode = *next,
                None => return Way::Nothing,
            }
        }
        Way::There(inode)
    }

    pub fn find(&self, path: &[&'static str]) -> Option<usize> {
        match self.way(path) {
            Way::There(inode) => Some(inode),
            Way::Nothing | Way::Blocked => None,
        }
    }

    /// The directory that a path is in, and its name there.
    fn place(&self, path: &[&'static str]) -> Option<(usize, &'static str)> {
        let (name, parent) = path.split_last()?;
        let parent = self.find(parent)?;
        self.entries(parent)?;
        Some((parent, name))
    }

    /// Gives something new a free name.
    pub fn make(&mut self, path: &[&'static str], mode: u32, body: Body) -> Done {
        let (parent, name) = self.place(path)?;
        if self.find(path).is_some() {
            return None;
        }
        let directory = &self.inodes[parent];
        // A setgid directory hands down its group, and to directories that bit.
        let inherits = directory.mode & 0o2000 != 0;
        let gid = if inherits { directory.gid } else { 0 };
        let passes_on = inherits && matches!(body, Body::Directory(_));
        self.inodes.push(Inode {
            mode: if passes_on { mode | 0o2000 } else { mode },
            uid: 0,
            gid,
            body,
        });
        let new = self.inodes.len() - 1;
        self.entries_mut(parent)?.insert(name, new);
        Some(())
    }

    /// The bytes of a file, to be changed.
    pub fn bytes(&mut self, path: &[&'static str]) -> Option<&mut Vec<u8>> {
        let inode = self.find(path)?;
        match &mut self.inodes[inode].body {
            Body::File(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub fn unlink(&mut self, path: &[&'static str]) -> Done {
        let (parent, name) = self.place(path)?;
        let inode = self.find(path)?;
        if self.inodes[inode].is_directory() {
            return None;
        }
        self.entries_mut(parent)?.remove(name);
        Some(())
    }

    pub fn rmdir(&mut self, path: &[&'static str]) -> Done {
        let (parent, name) = self.place(path)?;
        let inode = self.find(path)?;
        if !self.entries(inode)?.is_empty() {
            return None;
        }
        self.entries_mut(parent)?.remove(name);
        Some(())
    }

    /// With all that is in it.
    pub fn remove_tree(&mut self, path: &[&'static str]) -> Done {
        let (parent, name) = self.place(path)?;
        self.find(path)?;
        self.entries_mut(parent)?.remove(name);
        Some(())
    }

    pub fn rename(&mut self, from: &[&'static str], to: &[&'static str]) -> Done {
        let (old_parent, old_name) = self.place(from)?;
        let (new_parent, new_name) = self.place(to)?;
        let moved = self.find(from)?;
        let is_directory = self.inodes[moved].is_directory();
        if is_directory && to.len() > from.len() && to.starts_with(from) {
            return None;
        }
        match self.find(to) {
            // Two names of one inode: nothing happens, and both stay.
            Some(there) if there == moved => return Some(()),
            Some(there) => match (is_directory, self.entries(there)) {
                (true, Some(entries)) if entries.is_empty() => {}
                (false, None) => {}
                _ => return None,
            },
            None => {}
        }
        self.entries_mut(old_parent)?.remove(old_name);
        self.entries_mut(new_parent)?.insert(new_name, moved);
        Some(())
    }

    pub fn exchange(&mut self, one: &[&'static str], other: &[&'static str]) -> Done {
        let (one_parent, one_name) = self.place(one)?;
        let (other_parent, other_name) = self.place(other)?;
        let (first, second) = (self.find(one)?, self.find(other)?);
        let beneath =
            |inner: &[&str], outer: &[&str]| inner.len() > outer.len() && inner.starts_with(outer);
        if beneath(one, other) || beneath(other, one) {
            return None;
        }
        self.entries_mut(one_parent)?.insert(one_name, second);
        self.entries_mut(other_parent)?.insert(other_name, first);
        Some(())
    }

    pub fn hard_link(&mut self, from: &[&'static str], to: &[&'static str]) -> Done {
        let inode = self.find(from)?;
        let (parent, name) = self.place(to)?;
        if self.inodes[inode].is_directory() || self.find(to).is_some() {
            return None;
        }
        self.entries_mut(parent)?.insert(name, inode);
        Some(())
    }

    /// Links have no mode of their own.
    pub fn chmod(&mut self, path: &[&'static str], mode: u32) -> Done {
        let inode = self.find(path)?;
        let inode = &mut self.inodes[inode];
        if matches!(inode.body, Body::Link(_)) {
            return None;
        }
        inode.mode = mode;
        Some(())
    }

    /// Of a link itself. Of what is no directory it takes setuid, and setgid where the group may execute.
    pub fn chown(&mut self, path: &[&'static str], uid: u32, gid: u32) -> Done {
        let inode = self.find(path)?;
        let inode = &mut self.inodes[inode];
        (inode.uid, inode.gid) = (uid, gid);
        if !inode.is_directory() {
            inode.mode &= !0o4000;
            if inode.mode & 0o0010 != 0 {
                inode.mode &= !0o2000;
            }
        }
        Some(())
    }

    /// How many names an inode has.
    pub fn names(&self, inode: usize) -> usize {
        let (mut names, mut next) = (0, vec![0]);
        while let Some(directory) = next.pop() {
            for entry in self
                .entries(directory)
                .into_iter()
                .flat_map(BTreeMap::values)
            {
                names += usize::from(*entry == inode);
                next.push(*entry);
            }
        }
        names
    }

    /// Every path that leads somewhere, and what is there.
    pub fn listing(&self) -> BTreeMap<Path, Inode> {
        let mut all = BTreeMap::new();
        let mut next = vec![(Path::new(), 0)];
        while let Some((path, inode)) = next.pop() {
            for (name, inode) in self.entries(inode).into_iter().flatten() {
                let mut path = path.clone();
                path.push(name);
                next.push((path.clone(), *inode));
                let mut seen = self.inodes[*inode].clone();
                if let Body::Directory(entries) = &mut seen.body {
                    // They have lines of their own.
                    entries.clear();
                }
                all.insert(path, seen);
            }
        }
        all
    }
}
