//! A bounded queue between the pipeline, which never waits, and one consumer that may be slow.
//!
//! What does not fit is counted, and the consumer is told the count. The consumer looks at the front first and takes things out once they
//! are delivered, so what is on its way still counts against the bound and is still there after a failure. (That is also the whole of what
//! an outbox on disk has to offer, when there is one.)

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

/// What a queue holds at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) items: usize,
    /// Bytes, as the caller of [`Queue::push`] counts them.
    pub(super) bytes: usize,
}

#[derive(Debug)]
pub(super) struct Queue<T> {
    bound: Bound,
    state: Mutex<State<T>>,
    /// The consumer waits here.
    changed: Notify,
    /// Those who flush wait here.
    delivered: Condvar,
}

#[derive(Debug)]
pub(super) struct State<T> {
    items: VecDeque<(T, usize)>,
    bytes: usize,
    /// Did not fit, since the queue was made.
    lost: u64,
    /// Something was put in, and the consumer has not been woken for it.
    unseen: bool,
    /// How many wait in [`Queue::flush`].
    flushing: usize,
    /// Nothing more goes in; the consumer ends.
    closed: bool,
}

impl<T> State<T> {
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    pub(super) fn flushing(&self) -> bool {
        self.flushing > 0
    }

    pub(super) fn closed(&self) -> bool {
        self.closed
    }
}

impl<T: Clone> Queue<T> {
    pub(super) fn new(bound: Bound) -> Queue<T> {
        Queue {
            bound,
            state: Mutex::new(State {
                items: VecDeque::new(),
                bytes: 0,
                lost: 0,
                unseen: false,
                flushing: 0,
                closed: false,
            }),
            changed: Notify::new(),
            delivered: Condvar::new(),
        }
    }

    /// Puts an item at the end, or counts it as lost. Never waits for the consumer, and leaves it asleep ([`Self::wake`]) unless a quarter of the room is taken.
    pub(super) fn push(&self, item: T, bytes: usize) {
        let mut state = self.lock();
        let fits = state.len() < self.bound.items
            // One that is larger than the bound on its own goes through when nothing else is there.
            && (state.bytes + bytes <= self.bound.bytes || state.len() == 0);
        if state.closed || !fits {
            state.lost += 1;
            return;
        }
        state.bytes += bytes;
        state.items.push_back((item, bytes));
        state.unseen = true;
        let is_filling = state.len() > self.bound.items / 4 || state.bytes > self.bound.bytes / 4;
        drop(state);
        if is_filling {
            self.wake();
        }
    }

    /// Lets the consumer see what was put in.
    pub(super) fn wake(&self) {
        if std::mem::take(&mut self.lock().unseen) {
            self.changed.notify_waiters();
        }
    }

    /// Waits until the state is as asked for.
    pub(super) async fn until(&self, ready: impl Fn(&State<T>) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Before looking: what changes between the look and the wait must wake.
            changed.as_mut().enable();
            if ready(&self.lock()) {
                return;
            }
            changed.await;
        }
    }

    /// The oldest items, at most `bound`, at least one if there is one. They stay in the queue.
    pub(super) fn front(&self, bound: Bound) -> Vec<T> {
        let state = self.lock();
        let mut bytes = 0;
        state
            .items
            .iter()
            .take(bound.items.max(1))
            .enumerate()
            .take_while(|(at, (_, size))| {
                bytes += size;
                *at == 0 || bytes <= bound.bytes
            })
            .map(|(_, (item, _))| item.clone())
            .collect()
    }

    /// The oldest `count` are delivered, or given up.
    pub(super) fn done(&self, count: usize) {
        let mut state = self.lock();
        for _ in 0..count {
            if let Some((_, bytes)) = state.items.pop_front() {
                state.bytes -= bytes;
            }
        }
        drop(state);
        self.delivered.notify_all();
    }

    /// Makes the consumer hurry and waits until nothing is left. Returns how many are.
    pub(super) fn flush(&self, within: Duration) -> usize {
        let end = Instant::now() + within;
        let mut state = self.lock();
        state.flushing += 1;
        drop(state);
        self.changed.notify_waiters();
        let mut state = self.lock();
        while state.len() > 0 && !state.closed {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            (state, _) = self
                .delivered
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.flushing -= 1;
        state.len()
    }

    /// Ends the consumer. What is still inside is lost, and counted.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.lost += state.len() as u64;
        state.items.clear();
        state.bytes = 0;
        drop(state);
        self.changed.notify_waiters();
        self.delivered.notify_all();
    }

    pub(super) fn lost(&self) -> u64 {
        self.lock().lost
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<T>> {
        // A panic cannot leave the state half changed: no code of strangers runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread, time::Duration};

    use super::{Bound, Queue};

    fn queue(items: usize, bytes: usize) -> Queue<u32> {
        Queue::new(Bound { items, bytes })
    }

    /// One that waits for a state, and then does this.
    fn consumer(
        queue: &Arc<Queue<u32>>,
        ready: fn(&super::State<u32>) -> bool,
        then: fn(&Queue<u32>),
    ) -> thread::JoinHandle<()> {
        let queue = Arc::clone(queue);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .build()
                .expect("a runtime");
            runtime.block_on(queue.until(ready));
            then(&queue);
        })
    }

    const ALL: Bound = Bound {
        items: usize::MAX,
        bytes: usize::MAX,
    };

    #[test]
    fn what_does_not_fit_is_counted() {
        let queue = queue(3, 100);
        for n in 0..5 {
            queue.push(n, 10);
        }
        assert_eq!((queue.front(ALL), queue.lost()), (vec![0, 1, 2], 2));
    }

    #[test]
    fn the_consumer_sees_what_was_put_in_when_it_is_woken() {
        let queue = Arc::new(queue(10, 100));
        let consumer = consumer(&queue, |state| state.len() == 2, |_| {});
        for n in 0..2 {
            queue.push(n, 1);
            assert!(queue.lock().unseen, "he is left asleep");
            queue.wake();
            assert!(!queue.lock().unseen, "nobody is woken twice for it");
        }
        consumer.join().expect("the consumer ends");
        queue.push(2, 30);
        assert!(!queue.lock().unseen, "he is woken before it is full");
    }

    #[test]
    fn bytes_are_bounded_too_but_one_large_item_goes_through() {
        let queue = queue(10, 100);
        queue.push(0, 500);
        queue.push(1, 1);
        assert_eq!((queue.front(ALL), queue.lost()), (vec![0], 1));
        queue.done(1);
        queue.push(2, 60);
        queue.push(3, 60);
        assert_eq!((queue.front(ALL), queue.lost()), (vec![2], 2));
    }

    #[test]
    fn items_stay_until_they_are_done() {
        let queue = queue(10, 100);
        (0..5).for_each(|n| queue.push(n, 10));
        let two = Bound {
            items: 2,
            bytes: 100,
        };
        assert_eq!(queue.front(two), [0, 1]);
        assert_eq!(queue.front(two), [0, 1]);
        queue.done(2);
        let small = Bound {
            items: 9,
            bytes: 15,
        };
        assert_eq!(queue.front(small), [2]);
    }

    #[test]
    fn a_flush_ends_when_all_is_delivered_or_its_time_is_up() {
        let queue = Arc::new(queue(10, 100));
        queue.push(1, 1);
        assert_eq!(queue.flush(Duration::from_millis(1)), 1);
        let consumer = consumer(&queue, super::State::flushing, |queue| queue.done(1));
        assert_eq!(queue.flush(Duration::from_secs(20)), 0);
        consumer.join().expect("the consumer ends");
    }

    #[test]
    fn closing_loses_what_is_inside_and_wakes_all() {
        let queue = Arc::new(queue(10, 100));
        queue.push(1, 1);
        let flusher = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.flush(Duration::from_secs(20))
        });
        queue.close();
        assert_eq!(flusher.join().expect("the flusher ends"), 0);
        queue.push(2, 1);
        assert_eq!(queue.lost(), 2);
    }
}
