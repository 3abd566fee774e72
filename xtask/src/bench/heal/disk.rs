//! The floor: what the disk takes for the same syncs, when nobody looks, compares or reads back.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::content;

/// A file that is replaced.
#[derive(Debug)]
pub(super) struct Disk {
    folder: File,
    file: PathBuf,
    temporary: PathBuf,
}

impl Disk {
    pub(super) fn new(folder: &Path) -> io::Result<Disk> {
        Ok(Disk {
            folder: File::open(folder)?,
            file: folder.join("file"),
            temporary: folder.join("file.new"),
        })
    }

    /// Puts these bytes there, so that a power cut leaves the old ones or these.
    pub(super) fn put(&self, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::create(&self.temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&self.temporary, &self.file)?;
        self.folder.sync_all()
    }

    pub(super) fn replace(&self, bytes: &[u8]) -> io::Result<Duration> {
        let start = Instant::now();
        self.put(bytes)?;
        Ok(start.elapsed())
    }
}

/// Files that are replaced together: what a change of versions syncs.
#[derive(Debug)]
pub(super) struct Many {
    folder: PathBuf,
    files: u32,
    /// Syncs of files that are waited for at the same time.
    threads: usize,
    journal: Disk,
    held: Disk,
}

impl Many {
    pub(super) fn new(folder: &Path, files: u32, threads: usize) -> io::Result<Many> {
        let state = folder.join(format!("state-{threads}"));
        let held = state.join("held");
        fs::create_dir_all(&held)?;
        let tree = folder.join(format!("tree-{threads}"));
        fs::create_dir_all(&tree)?;
        Ok(Many {
            folder: tree,
            files,
            threads,
            journal: Disk::new(&state)?,
            held: Disk::new(&held)?,
        })
    }

    fn place(&self, file: u32, end: &str) -> PathBuf {
        self.folder.join(format!("file-{file:05}{end}"))
    }

    /// Intent, files, commit, names, what is held, end of the journal.
    pub(super) fn switch(&self, version: u32) -> io::Result<Duration> {
        let entry = vec![b'.'; 200 * self.files as usize];
        let start = Instant::now();
        self.journal.put(&entry)?;
        let staged: io::Result<Vec<File>> = (0..self.files)
            .map(|file| {
                let mut staged = File::create(self.place(file, ".new"))?;
                staged.write_all(&content(file, version))?;
                Ok(staged)
            })
            .collect();
        let staged = staged?;
        let share = staged.len().div_ceil(self.threads);
        thread::scope(|scope| {
            let workers: Vec<_> = staged
                .chunks(share)
                .map(|files| scope.spawn(move || files.iter().try_for_each(File::sync_all)))
                .collect();
            workers
                .into_iter()
                .try_for_each(|worker| match worker.join() {
                    Ok(synced) => synced,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
        })?;
        let folder = File::open(&self.folder)?;
        folder.sync_all()?;
        self.journal.put(&entry)?;
        for file in 0..self.files {
            fs::rename(self.place(file, ".new"), self.place(file, ""))?;
        }
        folder.sync_all()?;
        self.held.put(b"held")?;
        fs::remove_file(&self.journal.file)?;
        self.journal.folder.sync_all()?;
        Ok(start.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new(folder.path()).unwrap();
        disk.replace(b"new").unwrap();
        assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"new");
        for threads in [1, 8] {
            let many = Many::new(folder.path(), 20, threads).unwrap();
            for version in [1, 2] {
                many.switch(version).unwrap();
                for file in 0..20 {
                    let bytes = fs::read(many.place(file, "")).unwrap();
                    assert_eq!(bytes, content(file, version));
                }
            }
            assert_eq!(fs::read_dir(&many.folder).unwrap().count(), 20);
        }
    }
}
