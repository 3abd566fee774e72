//! What counts as seen, and what does not.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::PathBuf,
    sync::Arc,
};

use super::{super::read::Reader, *};
use crate::{
    compare::structured::{Format, Meaning, Rules},
    declare::{Attribute, Content, Declared, Expect, sample},
    observe::Host,
};

const LATER: Duration = Duration::from_secs(3600);

/// Files that hold `text` each, all declared as that.
fn files(dir: &Path, text: &str) -> Vec<Arc<Declared>> {
    ["a", "b", "c"]
        .map(|name| {
            fs::write(dir.join(name), text).unwrap();
            Arc::new(sample::declared(
                dir.join(name),
                sample::file(text.as_bytes()),
            ))
        })
        .into()
}

fn host() -> Host {
    Host::new(Path::new("/")).unwrap()
}

/// What a look at `start` sees.
fn seen(files: &[Arc<Declared>], start: SystemTime) -> Vec<(PathBuf, Row)> {
    let host = host();
    let looks = Reader::new(&host).observe_siblings(files);
    let rows = files.iter().zip(looks).filter_map(|(declared, look)| {
        Some((declared.path.clone(), Row::of(&look.observed, start)?))
    });
    rows.collect()
}

fn write(path: &Path, rows: &[(PathBuf, Row)]) -> Seen {
    Seen::write(path, rows.iter().map(|(path, row)| (&**path, *row))).unwrap();
    Seen::read(path).unwrap()
}

/// Which of the files a later look reads, and what it sees of all.
fn look(files: &[Arc<Declared>], seen: &Seen) -> (Vec<bool>, Vec<Found>) {
    let host = host();
    let looks = Reader::new(&host).unless(seen).observe_siblings(files);
    let each = looks.into_iter();
    each.map(|look| (look.is_fresh, look.observed.found))
        .unzip()
}

#[test]
fn what_was_seen_is_read_back_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path(), "x\n");
    let rows = seen(&files, SystemTime::now() + LATER);
    assert_eq!(rows.len(), 3);
    let kept = write(&dir.path().join("kept"), &rows);
    assert!(
        kept.rows()
            .eq(rows.iter().map(|(path, row)| (&**path, *row)))
    );
    let stat = host().stat(&files[1].path).unwrap();
    let digest = blake3::hash(b"x\n");
    assert_eq!(rows[1].1.decode(), (stat, digest, Some(blake3::hash(b"x"))));
    for (index, (path, row)) in rows.iter().enumerate() {
        for mut next in [0, index, 99] {
            assert_eq!(kept.row(path, &mut next), Some(*row));
        }
    }
    assert_eq!(kept.row(Path::new("/nothing"), &mut 0), None);
}

#[test]
fn an_unchanged_file_is_not_read_again_and_any_change_shows() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let is = |text: &str| Found::File(Some(blake3::hash(text.as_bytes())));
    let files = files(dir.path(), "before");
    let kept = write(&at("kept"), &seen(&files, SystemTime::now() + LATER));
    assert_eq!(look(&files, &kept).0, [false; 3]);
    assert_eq!(
        look(&files, &kept).1,
        [is("before"), is("before"), is("before")]
    );

    // B004: the same size, the same time of change, in place or by another file.
    let time = File::open(at("a"))
        .unwrap()
        .metadata()
        .unwrap()
        .modified()
        .unwrap();
    fs::write(at("a"), "after!").unwrap();
    File::options()
        .write(true)
        .open(at("a"))
        .unwrap()
        .set_modified(time)
        .unwrap();
    fs::write(at("new"), "other!").unwrap();
    File::options()
        .write(true)
        .open(at("new"))
        .unwrap()
        .set_modified(time)
        .unwrap();
    fs::rename(at("new"), at("b")).unwrap();
    assert_eq!(
        look(&files, &kept),
        (
            vec![true, true, false],
            vec![is("after!"), is("other!"), is("before")]
        )
    );
    // Nothing of its content has changed, and it is looked at all the same.
    fs::hard_link(at("c"), at("d")).unwrap();
    assert_eq!(look(&files, &kept).0, [true; 3]);
    fs::remove_file(at("c")).unwrap();
    assert_eq!(look(&files, &kept).1[2], Found::Absent);
    symlink("d", at("c")).unwrap();
    assert_eq!(look(&files, &kept).1[2], Found::Link("d".into()));
}

#[test]
fn a_file_that_could_still_change_within_one_tick_is_always_read() {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path(), "x");
    // A look that began when the files were made, or before.
    assert_eq!(seen(&files, SystemTime::now()), []);
    assert_eq!(seen(&files, SystemTime::now() - LATER), []);
    let ctime = |seconds, nanoseconds| Times {
        mtime: (0, 0),
        ctime: (seconds, nanoseconds),
    };
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    assert!(is_settled(ctime(9, 1), at(10)));
    assert!(!is_settled(ctime(9, 990_000_000), at(10)));
    // A file system that keeps seconds.
    assert!(!is_settled(ctime(9, 0), at(10)));
    assert!(is_settled(ctime(7, 0), at(10)));
    // The clock was set.
    assert!(!is_settled(ctime(11, 1), at(10)));
    assert!(!is_settled(ctime(-1, 1), at(10)));
}

#[test]
fn of_a_damaged_file_nothing_is_believed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kept");
    assert!(matches!(Seen::read(&path), Err(Unusable::Absent)));
    let files = files(dir.path(), "x");
    write(&path, &seen(&files, SystemTime::now() + LATER));
    let good = fs::read(&path).unwrap();
    let damaged = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        matches!(Seen::read(&path), Err(Unusable::Damaged))
    };
    for at in 0..good.len() {
        assert!(damaged(&good[..at]), "cut at {at}");
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        assert!(damaged(&bytes), "changed at {at}");
    }
    assert!(damaged(&[&good[..], b"x"].concat()));
    // With a right digest, and without sense.
    let mut bytes = good[..good.len() - blake3::OUT_LEN].to_vec();
    bytes.truncate(bytes.len() - 1);
    let digest = *blake3::hash(&bytes).as_bytes();
    assert!(damaged(&[&bytes[..], &digest].concat()));
    fs::write(&path, &good).unwrap();
    assert_eq!(Seen::read(&path).unwrap().len(), 3);

    // Of somebody else's making.
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    assert!(matches!(Seen::read(&path), Err(Unusable::NotOurs)));
    let link = dir.path().join("link");
    symlink("kept", &link).unwrap();
    assert!(matches!(Seen::read(&link), Err(Unusable::Unreadable(_))));
}

#[test]
fn what_is_compared_by_more_than_was_seen_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path(), "xy");
    let rows = seen(&files, SystemTime::now() + LATER);
    let stat = host().stat(&files[0].path).unwrap();
    let with = |change: &dyn Fn(&mut Content, &mut Declared)| {
        let mut content = Content::exact(Arc::from(&b"xy"[..]));
        let mut declared = sample::declared(&files[0].path, Target::Absent);
        change(&mut content, &mut declared);
        declared.target = Target::File(content);
        rows[0].1.answers(&stat, &declared)
    };
    let observed = with(&|_, _| {}).expect("an answer");
    assert_eq!(observed.stat, Some(stat));
    assert_eq!(with(&|content, _| content.max_size = 1), None);
    let rules = Rules::default();
    let by_meaning = |content: &mut Content, _: &mut Declared| {
        content.meaning = Meaning::of(Format::Json, rules.clone(), b"{}")
            .ok()
            .map(Box::new);
    };
    assert_eq!(with(&by_meaning), None);
    let flags = |_: &mut Content, declared: &mut Declared| {
        declared.attributes.flags = Some(Flags::default());
    };
    assert_eq!(with(&flags), None);
    let attribute = |_: &mut Content, declared: &mut Declared| {
        let name = c"user.a".to_owned();
        let expect = Expect::Absent;
        declared.attributes.named.push(Attribute { name, expect });
    };
    assert_eq!(with(&attribute), None);
    // What `stat` has is compared with what it was.
    let flags = Flags {
        append: true,
        ..Flags::default()
    };
    for other in [
        Stat { links: 2, ..stat },
        Stat {
            flags: Some(flags),
            ..stat
        },
        Stat {
            flags: stat.flags.is_none().then(Flags::default),
            ..stat
        },
    ] {
        assert_eq!(rows[0].1.answers(&other, &files[0]), None, "{other:?}");
    }
    // A program in user space says what times it likes.
    let keeps = |path: &str| {
        let directory = File::open(path).unwrap();
        keeps_times(std::os::fd::AsFd::as_fd(&directory))
    };
    assert!(!keeps("/proc"));
    assert!(!keeps("/sys"));
}
