//! "Clear, then read" (docs/ordering.md), tried in every order that two processors can make of it.
//!
//! A model, not the code itself: the kernel half is a BPF program and the agent's two halves are system calls. What is modelled is what both do to one object, step
//! by step as they do it: the kernel half reads the mark and writes it in two steps without a lock, so two processors may both see it rise.

use loom::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering, fence},
    },
    thread,
};

const CLEAN: u32 = 0;
const DONE: u32 = 3;

/// One watched object.
#[derive(Debug)]
struct Object {
    /// What it holds: each writer sets a bit of its own.
    content: AtomicU32,
    mark: AtomicU32,
    /// Doorbells in the ring that the agent has not taken.
    ring: AtomicU32,
}

impl Object {
    fn new() -> Arc<Object> {
        Arc::new(Object {
            content: AtomicU32::new(0),
            mark: AtomicU32::new(CLEAN),
            ring: AtomicU32::new(0),
        })
    }

    /// A process changes it, and the hook runs. `room`: whether the ring takes the doorbell.
    fn change(&self, bit: u32, room: bool) {
        self.content.fetch_or(bit, Ordering::Relaxed);
        // The change has returned before the hook looks at the mark.
        fence(Ordering::SeqCst);
        if self.mark.load(Ordering::Relaxed) >= DONE {
            return;
        }
        self.mark.store(DONE, Ordering::Relaxed);
        if room {
            self.ring.fetch_add(1, Ordering::Release);
        }
    }

    /// The agent looks: mark back, then read.
    fn look(&self) -> u32 {
        self.mark.store(CLEAN, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.content.load(Ordering::Relaxed)
    }

    /// The same the wrong way round.
    fn look_wrongly(&self) -> u32 {
        let seen = self.content.load(Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.mark.store(CLEAN, Ordering::Relaxed);
        seen
    }
}

/// Two writers, and an agent that takes what has rung and looks. At the end, where nothing more comes, it has seen everything.
fn check(rooms: [bool; 2], look: fn(&Object) -> u32) {
    let mut model = loom::model::Builder::new();
    // Orders in which a thread is interrupted more often than that are left out: they are many, and every known mistake shows with two.
    model.preemption_bound = Some(3);
    model.check(move || {
        let object = Object::new();
        let writers: Vec<_> = [1, 2]
            .into_iter()
            .zip(rooms)
            .map(|(bit, room)| {
                let object = Arc::clone(&object);
                thread::spawn(move || object.change(bit, room))
            })
            .collect();
        // It may look at any time. What has rung until then is taken out first.
        object.ring.swap(0, Ordering::Acquire);
        let mut seen = look(&object);
        for writer in writers {
            writer.join().expect("a writer");
        }
        // All is over: what has rung since is answered, and, where something was lost, every mark that is up.
        let rung = object.ring.load(Ordering::Acquire) > 0;
        let lost = rooms.contains(&false) && object.mark.load(Ordering::Relaxed) != CLEAN;
        if rung || lost {
            seen = look(&object);
        }
        assert_eq!(seen, 3, "a change that nobody has looked at");
    });
}

#[test]
fn every_change_is_seen_whatever_the_order() {
    check([true, true], Object::look);
}

#[test]
fn a_full_ring_hides_none_either() {
    check([true, false], Object::look);
    check([false, false], Object::look);
}

/// The model can tell the difference: with the steps of a look exchanged there is an order in which a change is lost.
#[test]
#[should_panic(expected = "a change that nobody has looked at")]
fn reading_before_the_mark_is_set_back_loses_changes() {
    check([true, true], Object::look_wrongly);
}
