//! Lines to standard output, written by a thread of their own.
//!
//! A reader that stopped reading (a pager, a terminal on which somebody pressed Ctrl-S) blocks who writes to it. That must never be the
//! pipeline: healing would stop with it. So lines wait in a bounded queue; if it fills up, the lines that did not fit are counted, and the
//! next one written says so.

use std::{
    io::{self, ErrorKind, Write},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use super::queue::{Bound, Queue};

/// Some thousand records; a burst of all watched files fits.
const WAITING: Bound = Bound {
    items: 16 * 1024,
    bytes: 8 * 1024 * 1024,
};
/// Written at once.
const PIECE: Bound = Bound {
    items: 256,
    bytes: 64 * 1024,
};
/// Between two tries at an output that takes nothing at the moment and does not block (someone else made it so).
const TRY_AGAIN: Duration = Duration::from_millis(10);

/// What the line says in which the losses are told.
pub(super) type TellLoss = Box<dyn Fn(u64) -> String + Send>;

#[derive(Debug)]
pub(super) struct Outlet {
    queue: Arc<Queue<Arc<str>>>,
    failure: Arc<Mutex<Option<Arc<io::Error>>>>,
    thread: Option<JoinHandle<()>>,
}

impl Outlet {
    pub(super) fn start(out: Box<dyn Write + Send>, tell_loss: TellLoss) -> io::Result<Outlet> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let queue = Arc::new(Queue::new(WAITING));
        let failure = Arc::new(Mutex::new(None));
        let writer = Writer {
            out,
            queue: Arc::clone(&queue),
            tell_loss,
            told: 0,
        };
        let thread = thread::Builder::new().name("drift-out".to_owned()).spawn({
            let failure = Arc::clone(&failure);
            move || {
                let queue = Arc::clone(&writer.queue);
                if let Err(error) = runtime.block_on(writer.run()) {
                    *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(error));
                }
                // Whoever flushes must not wait for a writer that has ended.
                queue.close();
            }
        })?;
        Ok(Outlet {
            queue,
            failure,
            thread: Some(thread),
        })
    }

    /// Hands a line over (with its end), to be written when the writer is woken. `Err`: nothing can be written any more, since when and why.
    pub(super) fn push(&self, line: &str) -> Result<(), Arc<io::Error>> {
        self.check()?;
        self.queue.push(Arc::from(line), line.len());
        Ok(())
    }

    pub(super) fn wake(&self) {
        self.queue.wake();
    }

    /// Waits until all is written. Returns how many lines are not.
    pub(super) fn flush(&self, within: Duration) -> Result<usize, Arc<io::Error>> {
        let left = self.queue.flush(within);
        self.check()?;
        Ok(left)
    }

    pub(super) fn lost(&self) -> u64 {
        self.queue.lost()
    }

    fn check(&self) -> Result<(), Arc<io::Error>> {
        match &*self.failure.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(Arc::clone(error)),
            None => Ok(()),
        }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        let left = self.queue.flush(Duration::from_secs(1));
        self.queue.close();
        // With lines left the thread hangs in a write that may never return; the process may end without it.
        if let Some(thread) = self.thread.take()
            && left == 0
            && thread.join().is_err()
        {
            log::error!("the thread that writes records has panicked");
        }
    }
}

struct Writer {
    out: Box<dyn Write + Send>,
    queue: Arc<Queue<Arc<str>>>,
    tell_loss: TellLoss,
    /// Losses told so far.
    told: u64,
}

impl Writer {
    async fn run(mut self) -> io::Result<()> {
        loop {
            self.queue
                .until(|state| state.len() > 0 || state.closed())
                .await;
            if self.queue.lock().closed() {
                return Ok(());
            }
            let lines = self.queue.front(PIECE);
            let mut piece = lines.concat();
            let lost = self.queue.lost();
            if lost > self.told {
                piece.push_str(&(self.tell_loss)(lost - self.told));
            }
            self.write(piece.as_bytes())?;
            self.told = lost;
            self.queue.done(lines.len());
        }
    }

    fn write(&mut self, mut piece: &[u8]) -> io::Result<()> {
        while !piece.is_empty() {
            match self.out.write(piece) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => piece = &piece[written..],
                Err(error) => pause_or(error)?,
            }
        }
        loop {
            match self.out.flush() {
                Ok(()) => return Ok(()),
                Err(error) => pause_or(error)?,
            }
        }
    }
}

fn pause_or(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::WouldBlock => {
            thread::sleep(TRY_AGAIN);
            Ok(())
        }
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Read},
        os::unix::net::UnixStream,
        time::Duration,
    };

    use super::{Outlet, WAITING};

    const SOON: Duration = Duration::from_secs(20);

    fn outlet() -> (Outlet, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        let tell = Box::new(|lost| format!("{lost} lost\n"));
        let outlet = Outlet::start(Box::new(ours), tell).expect("a thread");
        (outlet, theirs)
    }

    #[test]
    fn lines_come_out_whole_and_in_order() {
        let (outlet, mut reader) = outlet();
        let lines: String = (0..1000).map(|n| format!("line {n}\n")).collect();
        for line in lines.split_inclusive('\n') {
            outlet.push(line).expect("the output is open");
        }
        assert_eq!(outlet.flush(SOON).expect("the output is open"), 0);
        drop(outlet);
        let mut read = String::new();
        reader.read_to_string(&mut read).expect("text");
        assert_eq!(read, lines);
    }

    #[test]
    fn a_reader_that_went_away_is_an_error_and_not_a_panic() {
        let (outlet, reader) = outlet();
        drop(reader);
        outlet.push("one\n").expect("nothing was written yet");
        let error = outlet.flush(SOON).expect_err("the reader is gone");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        let error = outlet.push("two\n").expect_err("the reader is gone");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_reader_that_does_not_read_blocks_nothing_and_is_told_what_it_missed() {
        let (outlet, mut reader) = outlet();
        let line = format!("{}\n", "x".repeat(999));
        let sent = WAITING.items * 2;
        for _ in 0..sent {
            outlet.push(&line).expect("the output is open");
        }
        let lost = outlet.lost();
        assert!(lost > 0, "all {sent} lines fitted");
        let reading = std::thread::spawn(move || {
            let mut read = String::new();
            reader.read_to_string(&mut read).expect("text");
            read
        });
        assert_eq!(outlet.flush(SOON).expect("the output is open"), 0);
        drop(outlet);
        let read = reading.join().expect("the reader ends");
        let (whole, told): (Vec<&str>, Vec<&str>) =
            read.split_inclusive('\n').partition(|one| *one == line);
        assert_eq!(whole.len() as u64 + lost, sent as u64);
        let told: Vec<u64> = told
            .iter()
            .map(|line| line.trim_end_matches(" lost\n").parse().expect("a number"))
            .collect();
        assert_eq!(told.iter().sum::<u64>(), lost, "told {told:?}");
        assert!(told.len() < 10, "told {told:?}");
    }
}
