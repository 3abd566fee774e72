//! The history: whole lines or none, within its bounds, beside any reader.

use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;

const SMALL: Bounds = Bounds {
    bytes: 256 << 10,
    age: Duration::from_secs(30 * 24 * 3600),
};

fn write(dir: &Path) -> HistoryWriter {
    HistoryWriter::open(dir, SMALL, at(0)).expect("a history")
}

fn keep(writer: &mut HistoryWriter, records: &[String], second: u64) {
    let records = records.iter().map(String::as_str);
    writer.append(records, at(second)).expect("appended");
}

fn records(from: u64, to: u64) -> Vec<String> {
    (from..to).map(|n| format!("{{\"n\":{n}}}")).collect()
}

fn all(dir: &Path) -> (Vec<String>, Past) {
    let mut lines = Vec::new();
    let past = read_history(dir, None, |line| lines.push(line.to_owned())).expect("read");
    (lines, past)
}

/// The segments, oldest first.
fn segments(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.join("history")).expect("a folder");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
}

fn size(dir: &Path) -> u64 {
    let sizes = segments(dir)
        .into_iter()
        .map(|path| fs::metadata(path).expect("there").len());
    sizes.sum()
}

#[test]
fn what_was_kept_is_read_in_its_order_beside_the_writer_and_after_it() {
    let dir = folder();
    assert_eq!(all(dir.path()), (vec![], Past::default()));
    assert!(!all(&dir.path().join("gone")).1.exists);
    let mut writer = write(dir.path());
    assert!(all(dir.path()).1.exists);
    keep(&mut writer, &records(0, 10), 1);
    assert_eq!(all(dir.path()).0, records(0, 10));
    drop(writer); // as a kill does: nothing is done at the end
    let mut writer = write(dir.path());
    keep(&mut writer, &records(10, 20), 2);
    writer.sync(at(3)).expect("synced");
    let (lines, past) = all(dir.path());
    assert_eq!(lines, records(0, 20));
    assert_eq!((past.records, past.damaged), (20, 0));
    assert_eq!(segments(dir.path()).len(), 1);
}

/// B081: a bound on the disk whatever happens, and the newest records are the ones that stay.
#[test]
fn b081_a_hundred_thousand_records_of_different_names_stay_within_the_bound() {
    let dir = folder();
    let mut writer = write(dir.path());
    for n in 0..200 {
        let batch: Vec<_> = (0..500)
            .map(|m| format!("{{\"path\":\"/etc/app/{n}-{m}.conf\"}}"))
            .collect();
        keep(&mut writer, &batch, n);
        assert!(size(dir.path()) <= SMALL.bytes, "after {n}");
    }
    let (lines, past) = all(dir.path());
    assert_eq!(
        lines.last().map(String::as_str),
        Some("{\"path\":\"/etc/app/199-499.conf\"}")
    );
    assert!(past.records > 2_000, "{past:?}");
    assert_eq!(past.damaged, 0);
}

#[test]
fn what_is_too_old_goes_by_whole_segments() {
    let dir = folder();
    let day = 24 * 3600;
    let mut writer = write(dir.path());
    for n in 0..40 {
        keep(&mut writer, &records(n, n + 1), n * (day + 1));
    }
    let (lines, _) = all(dir.path());
    assert_eq!(lines.last(), records(39, 40).last());
    assert!((30..=32).contains(&lines.len()), "{}", lines.len());
    writer.expire(at(100 * day)).expect("expired");
    assert_eq!(
        all(dir.path()).0.len(),
        1,
        "the one that is being written stays"
    );
}

#[test]
fn segments_from_before_a_time_are_not_even_read() {
    let dir = folder();
    let mut writer = write(dir.path());
    keep(&mut writer, &records(0, 1), 0);
    let mut read = 0;
    let since = SystemTime::now() + Duration::from_secs(10);
    let past = read_history(dir.path(), Some(since), |_| read += 1).expect("read");
    assert_eq!((read, past.records), (0, 0));
    let since = SystemTime::now() - Duration::from_secs(10);
    read_history(dir.path(), Some(since), |_| read += 1).expect("read");
    assert_eq!(read, 1);
}

/// B077, B078: cut off anywhere, with any byte changed, or replaced by anything, it is read as far as it is whole, and goes on.
#[test]
fn b078_cut_off_at_each_byte_the_whole_lines_count_and_it_goes_on() {
    let dir = folder();
    let mut writer = write(dir.path());
    keep(&mut writer, &records(0, 8), 0);
    drop(writer);
    let path = segments(dir.path()).remove(0);
    let sound = fs::read(&path).expect("read");
    let ends: Vec<usize> = (0..sound.len()).filter(|at| sound[*at] == b'\n').collect();
    for cut in 0..=sound.len() {
        fs::write(&path, &sound[..cut]).expect("write");
        let whole = ends.iter().filter(|end| **end < cut).count();
        let (lines, past) = all(dir.path());
        assert_eq!(
            (lines, past.damaged),
            (records(0, whole as u64), 0),
            "cut at {cut}"
        );
        let mut writer = write(dir.path());
        keep(&mut writer, &["{\"on\":1}".to_owned()], 1);
        drop(writer);
        let (lines, past) = all(dir.path());
        assert_eq!((lines.len(), past.damaged), (whole + 1, 0), "cut at {cut}");
    }
}

#[test]
fn b078_a_changed_byte_costs_its_line_alone() {
    let dir = folder();
    let mut writer = write(dir.path());
    keep(&mut writer, &records(0, 8), 0);
    drop(writer);
    let path = segments(dir.path()).remove(0);
    let sound = fs::read(&path).expect("read");
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x15;
        fs::write(&path, &bytes).expect("write");
        let (lines, _) = all(dir.path());
        assert!(lines.len() >= 6, "byte {at}: {lines:?}");
        assert!(
            lines.iter().all(|line| records(0, 8).contains(line)),
            "byte {at}: {lines:?}"
        );
        drop(write(dir.path()));
    }
}

#[test]
fn b077_whatever_stands_where_the_history_belongs_it_is_begun() {
    let dir = folder();
    let elsewhere = folder();
    let target = elsewhere.path().join("target");
    fs::write(&target, "theirs").expect("write");
    let at_name = dir.path().join("history");
    symlink(elsewhere.path(), &at_name).expect("a link");
    drop(write(dir.path()));
    assert!(at_name.symlink_metadata().expect("there").is_dir());
    // And the segments' names.
    let segment = segments(dir.path()).remove(0);
    let spoil: [&dyn Fn(); 3] = [
        &|| symlink(&target, &segment).expect("a link"),
        &|| fs::create_dir(&segment).expect("a folder"),
        &|| fs::create_dir_all(segment.join("not/empty")).expect("folders"),
    ];
    for (n, spoil) in (0..).zip(spoil) {
        if let Ok(metadata) = segment.symlink_metadata() {
            let remove = if metadata.is_dir() {
                fs::remove_dir
            } else {
                fs::remove_file
            };
            remove(&segment).expect("removed");
        }
        spoil();
        let mut writer = write(dir.path());
        keep(&mut writer, &records(n, n + 1), n);
        drop(writer);
        let (lines, _) = all(dir.path());
        assert_eq!(lines.last(), records(n, n + 1).last());
    }
    assert_eq!(fs::read_to_string(&target).expect("read"), "theirs");
    let mode = |path: &Path| {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(path).expect("there").permissions().mode() & 0o7777
    };
    assert_eq!(mode(&at_name), 0o700);
    assert_eq!(mode(segments(dir.path()).last().expect("one")), 0o600);
}

#[test]
fn a_record_that_is_no_line_is_refused_and_changes_nothing() {
    let dir = folder();
    let mut writer = write(dir.path());
    keep(&mut writer, &records(0, 1), 0);
    let long = "x".repeat(MOST_LINE + 1);
    for bad in ["two\nlines", &long] {
        let result = writer.append([r#"{"n":7}"#, bad].into_iter(), at(1));
        assert!(result.is_err());
    }
    assert_eq!(all(dir.path()).0, records(0, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_bytes_in_a_segment_harm_nobody(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let dir = folder();
        drop(write(dir.path()));
        fs::write(segments(dir.path()).remove(0), &bytes).expect("write");
        prop_assert_eq!(all(dir.path()).0.len(), 0);
        let mut writer = write(dir.path());
        keep(&mut writer, &records(0, 3), 0);
        prop_assert_eq!(all(dir.path()).0, records(0, 3));
    }
}
