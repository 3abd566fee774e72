use std::{
    fs,
    io::Write,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use tokio::time::{Duration, Instant, timeout};

use super::*;
use crate::declare::{
    Holds, look,
    tests::{ONE, POLICY, Place, content as declared_content, version},
};

/// No change takes longer to be noticed, however busy the machine. (Less than the poll beside inotify.)
const DEADLINE: Duration = Duration::from_secs(8);

/// A policy with a content of its own, an owner that is looked up, and what notices changes of it.
struct Watched {
    place: Place,
    changes: Changes,
}

impl Watched {
    fn new(may_notify: bool) -> Self {
        let place = Place::new();
        place.write("policies/web.yaml", web("file: blobs/a"));
        place.write("policies/blobs/a", "a");
        let basis = look(&place.policies(), &place.root(), None, &Holds::new()).1;
        let changes = Changes::new(basis, may_notify, Duration::from_millis(100));
        Self { place, changes }
    }

    fn look(&mut self) {
        let basis = look(
            &self.place.policies(),
            &self.place.root(),
            None,
            &Holds::new(),
        )
        .1;
        self.changes.rebase(basis);
    }

    /// Takes what is left of the past: files that were written a moment ago are looked at again.
    async fn rest(&mut self) {
        while self.changes.due().is_some() {
            self.changes.changed().await;
            self.look();
        }
    }

    /// `change` must be noticed.
    #[track_caller]
    fn notices(&mut self, what: &str, change: impl FnOnce(&Place)) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            self.rest().await;
            change(&self.place);
            let noticed = timeout(DEADLINE, self.changes.changed()).await;
            assert!(noticed.is_ok(), "{what}, at {caller}");
            self.look();
        }
    }
}

fn web(content: &str) -> String {
    let file = format!("    - {{path: /etc/a, content: {{{content}}}, owner: app}}\n");
    POLICY.to_owned() + "---\n" + &version(&file)
}

/// What people and programs do to policy folders.
async fn everything(mut watched: Watched) {
    let watched = &mut watched;
    let write =
        |name: &'static str, text: &'static str| move |place: &Place| place.write(name, text);
    let rename = |from: &'static str, to: &'static str| {
        move |place: &Place| fs::rename(place.path(from), place.path(to)).expect("renamed")
    };
    let remove = |name: &'static str| {
        move |place: &Place| fs::remove_file(place.path(name)).expect("removed")
    };

    watched
        .notices("a new file", write("policies/more.yaml", "# nothing"))
        .await;
    watched
        .notices("a write", write("policies/more.yaml", "# still nothing"))
        .await;
    for _ in 0..2 {
        watched
            .notices("an editor's save", |place| {
                place.write("policies/.more.yaml.swp", "# less");
                rename("policies/.more.yaml.swp", "policies/more.yaml")(place);
            })
            .await;
    }
    watched
        .notices("a removal", remove("policies/more.yaml"))
        .await;
    watched
        .notices("a write to a content", write("policies/blobs/a", "b"))
        .await;
    watched
        .notices("a content removed", remove("policies/blobs/a"))
        .await;
    watched
        .notices("a content that was missing", write("policies/blobs/a", "c"))
        .await;
    watched
        .notices("the folder of a content removed", |place| {
            fs::remove_dir_all(place.path("policies/blobs")).expect("removed");
        })
        .await;
    watched
        .notices("both back", write("policies/blobs/a", "c"))
        .await;
    watched
        .notices(
            "a new user",
            write("root/etc/passwd", "app:x:2000:2000:::\n"),
        )
        .await;
    watched
        .notices("the folder moved away", rename("policies", "old"))
        .await;
    watched
        .notices(
            "another folder in its place",
            write("policies/web.yaml", "# nothing"),
        )
        .await;
    watched
        .notices(
            "a write in the new folder",
            write("policies/web.yaml", "# more"),
        )
        .await;
    watched
        .notices("the folder removed", |place| {
            fs::remove_dir_all(place.policies()).expect("removed");
        })
        .await;
    watched
        .notices("the folder back", rename("old", "policies"))
        .await;
    watched
        .notices("a write after that", write("policies/blobs/a", "d"))
        .await;
    watched
        .notices(
            "a write to the policy after that",
            write("policies/web.yaml", "# nothing"),
        )
        .await;
}

#[tokio::test]
async fn whatever_is_done_to_the_folder_is_noticed() {
    let watched = Watched::new(true);
    assert!(watched.changes.complete);
    everything(watched).await;
}

#[tokio::test]
async fn whatever_is_done_to_the_folder_is_noticed_without_inotify() {
    let watched = Watched::new(false);
    assert!(watched.changes.notify.is_none());
    everything(watched).await;
}

#[tokio::test]
async fn swapped_links_are_noticed() {
    let place = Place::new();
    let release = |n: u32| {
        place.write(
            &format!("releases/{n}/policies/..1/web.yaml"),
            web(&format!("inline: \"{n}\"")),
        );
        place.link("..1", &format!("releases/{n}/policies/..data"));
        place.link(
            "..data/web.yaml",
            &format!("releases/{n}/policies/web.yaml"),
        );
    };
    release(1);
    release(2);
    place.link("releases/1", "current");
    let folder = place.path("current/policies");
    let look = || look(&folder, &place.root(), None, &Holds::new());
    let content = || {
        declared_content(&look().0.expect("a snapshot").files[0])
            .held()
            .expect("its bytes")
            .clone()
    };
    let mut changes = Changes::since(look().1);
    let swap = |target: &Path, link: &str| {
        place.link(target, "tmp");
        fs::rename(place.path("tmp"), place.path(link)).expect("swapped");
    };
    let mut noticed = async |expected: &str| {
        let deadline = Instant::now() + DEADLINE;
        while &*content() != expected.as_bytes() || changes.due().is_some() {
            let woken = tokio::time::timeout_at(deadline, changes.changed()).await;
            assert!(woken.is_ok(), "{expected}");
            changes.rebase(look().1);
        }
    };
    noticed("1").await;
    swap(Path::new("releases/2"), "current");
    noticed("2").await;
    // As the kubelet updates a ConfigMap, twice, removing the old one.
    for n in 3..5 {
        place.write(
            &format!("releases/2/policies/..{n}/web.yaml"),
            web(&format!("inline: \"{n}\"")),
        );
        swap(Path::new(&format!("..{n}")), "releases/2/policies/..data");
        let old = if n == 3 { 1 } else { n - 1 };
        fs::remove_dir_all(place.path(&format!("releases/2/policies/..{old}"))).expect("removed");
        noticed(&n.to_string()).await;
    }
    // A policy file that is a link to a file elsewhere, which is written to.
    place.write("elsewhere/web.yaml", web("inline: \"5\""));
    swap(
        &place.path("elsewhere/web.yaml"),
        "releases/2/policies/web.yaml",
    );
    noticed("5").await;
    place.write("elsewhere/web.yaml", web("inline: \"6\""));
    noticed("6").await;
}

#[tokio::test]
async fn what_changed_before_it_was_watched_is_noticed() {
    let place = Place::new();
    place.write("policies/web.yaml", web("file: blobs/a"));
    let basis = look(&place.policies(), &place.root(), None, &Holds::new()).1;
    place.write("policies/blobs/a", "a");
    let mut changes = Changes::since(basis);
    let noticed = timeout(DEADLINE, changes.changed()).await;
    assert!(noticed.is_ok());
}

#[tokio::test]
async fn an_event_survives_a_dropped_future() {
    let mut watched = Watched::new(true);
    watched.rest().await;
    watched.place.write("policies/web.yaml", "# nothing");
    let deadline = Instant::now() + DEADLINE;
    // As in a `select!` with something that is always faster.
    while timeout(Duration::from_millis(1), watched.changes.changed())
        .await
        .is_err()
    {
        assert!(Instant::now() < deadline, "never noticed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_without_end_are_passed_on() {
    let mut watched = Watched::new(true);
    watched.rest().await;
    let path = watched.place.path("policies/web.yaml");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut file = fs::OpenOptions::new()
                .append(true)
                .open(&path)
                .expect("opened");
            while !done.load(Ordering::Relaxed) {
                file.write_all(b"#\n").expect("written");
                std::thread::yield_now();
                if file.metadata().expect("there").len() > 1 << 20 {
                    file.set_len(0).expect("cut");
                }
            }
        });
        let noticed = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(timeout(DEADLINE, watched.changes.changed()))
        });
        done.store(true, Ordering::Relaxed);
        writer.join().expect("joined");
        assert!(noticed.is_ok());
    });
}

#[test]
fn only_what_matters_in_a_directory_wakes() {
    let place = Place::new();
    place.write(
        "policies/web.yaml",
        POLICY.to_owned() + "---\n" + &version(ONE),
    );
    let basis = look(&place.policies(), &place.root(), None, &Holds::new()).1;
    let ways = Ways::to(&basis);
    let policies = fs::canonicalize(place.policies()).expect("there");
    let interest = &ways.dirs[&policies];
    assert!(interest.files);
    let covers = |interest: &way::Interest, name: &str| interest.covers(name.as_ref());
    for name in ["web.yaml", "new.yml", "..data"] {
        assert!(covers(interest, name), "{name}");
    }
    for name in [".web.yaml.swp", "4913", "web.yaml~", "notes.txt", ".x.yaml"] {
        assert!(!covers(interest, name), "{name}");
    }
    // Not even its writes are events.
    let above = &ways.dirs[policies.parent().expect("a parent")];
    assert!(!above.files && covers(above, "policies") && !covers(above, "root"));
}
