//! A bounded queue of lines, and the thread that writes them.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

use crate::metrics;

/// The most lines that wait to be written.
const LINES_MAX: usize = 16_384;
/// The most bytes of them.
const BYTES_MAX: usize = 8 << 20;
/// How many bytes are written at once.
const WRITTEN_AT_ONCE: usize = 64 << 10;
/// How long the end of the process waits for the last lines.
const FLUSH_MAX: Duration = Duration::from_secs(1);
/// How often it tries to say so meanwhile, where too many lines wait.
const FLUSH_TRIES: u32 = 100;

enum Message {
    Line(Vec<u8>),
    /// All lines before it are to be written, and this to be dropped.
    Flush(SyncSender<()>),
}

#[derive(Debug, Default)]
struct Counts {
    /// The bytes that wait.
    bytes: AtomicUsize,
    /// The lines that were dropped since that was last logged.
    dropped: AtomicU64,
}

/// Where lines are put; it never waits.
#[derive(Clone, Debug)]
pub(super) struct LineQueue {
    messages: SyncSender<Message>,
    counts: Arc<Counts>,
}

/// Writes the last lines when it is dropped.
#[derive(Debug)]
pub struct LogGuard(SyncSender<Message>);

/// Starts the thread that writes.
pub(super) fn start(output: impl Write + Send + 'static) -> io::Result<(LineQueue, LogGuard)> {
    let (messages, receiver) = sync_channel(LINES_MAX);
    let counts = Arc::<Counts>::default();
    let (guard, counted) = (LogGuard(messages.clone()), Arc::clone(&counts));
    std::thread::Builder::new()
        .name("duly-log".to_owned())
        .spawn(move || write_all(&receiver, &counted, output))?;
    Ok((LineQueue { messages, counts }, guard))
}

fn write_all(receiver: &Receiver<Message>, counts: &Counts, mut output: impl Write) {
    let mut bytes = Vec::new();
    while let Ok(message) = receiver.recv() {
        let mut next = Some(message);
        let mut flushed = Vec::new();
        while let Some(message) = next {
            match message {
                Message::Line(line) => bytes.extend_from_slice(&line),
                Message::Flush(done) => flushed.push(done),
            }
            next = if bytes.len() < WRITTEN_AT_ONCE {
                receiver.try_recv().ok()
            } else {
                None
            };
        }
        // Where nobody reads any more, there is nobody to tell.
        let _written = output.write_all(&bytes).and_then(|()| output.flush());
        counts.bytes.fetch_sub(bytes.len(), Ordering::Relaxed);
        bytes.clear();
        drop(flushed);
        let dropped = counts.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            metrics::log_lines_dropped(dropped);
            tracing::warn!(
                dropped,
                "log lines dropped: the output was not read in time"
            );
        }
    }
}

impl LineQueue {
    fn add(&self, line: Vec<u8>) {
        let Self { messages, counts } = self;
        let len = line.len();
        let waiting = counts.bytes.fetch_add(len, Ordering::Relaxed);
        let fits = waiting.saturating_add(len) <= BYTES_MAX;
        if !fits || messages.try_send(Message::Line(line)).is_err() {
            counts.bytes.fetch_sub(len, Ordering::Relaxed);
            counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A line that is being formatted; it is added when it is dropped.
#[derive(Debug)]
pub(super) struct Line<'a> {
    queue: &'a LineQueue,
    bytes: Vec<u8>,
}

impl<'a> MakeWriter<'a> for LineQueue {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        let bytes = Vec::new();
        Line { queue: self, bytes }
    }
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if !self.bytes.is_empty() {
            self.queue.add(std::mem::take(&mut self.bytes));
        }
    }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        let (sender, done) = sync_channel(0);
        let mut flush = Message::Flush(sender);
        for _ in 0..FLUSH_TRIES {
            flush = match self.0.try_send(flush) {
                Ok(()) => {
                    // It ends when the sender is dropped, which is what is waited for.
                    let _ = done.recv_timeout(FLUSH_MAX);
                    return;
                }
                Err(TrySendError::Full(flush)) => flush,
                Err(TrySendError::Disconnected(_)) => return,
            };
            std::thread::sleep(FLUSH_MAX / FLUSH_TRIES);
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// An output that is read when the test says so.
    struct GatedWriter(Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl Write for GatedWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().ok();
            let mut read = self.1.lock();
            read.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn blocked() -> (Sender<()>, LineQueue, LogGuard, Arc<Mutex<Vec<u8>>>) {
        let (open, blocked) = channel();
        let read = Arc::<Mutex<Vec<u8>>>::default();
        let (queue, guard) = start(GatedWriter(blocked, Arc::clone(&read))).expect("a thread");
        (open, queue, guard, read)
    }

    fn log(queue: &LineQueue, line: &[u8]) {
        queue.make_writer().write_all(line).expect("it never fails");
    }

    #[test]
    fn an_output_that_is_not_read_stops_nobody_and_what_is_dropped_is_counted() {
        for len in [1, 100, 100_000, BYTES_MAX + 1] {
            let (open, queue, guard, read) = blocked();
            // Some are taken at once, before the output blocks.
            let taken = WRITTEN_AT_ONCE / len + 1;
            let many = taken + LINES_MAX + 2 * BYTES_MAX / len.max(1_024);
            for _ in 0..many {
                log(&queue, &vec![b'x'; len]);
            }
            let dropped = queue.counts.dropped.load(Ordering::Relaxed);
            assert!(dropped > 0 && dropped < 1 + many as u64, "{dropped}");
            assert!(queue.counts.bytes.load(Ordering::Relaxed) <= BYTES_MAX);
            drop(open); // from now on it is read
            drop(guard);
            let kept = many - usize::try_from(dropped).expect("few");
            let read = read.lock().len();
            assert_eq!(read, kept * len, "of lines with {len} bytes");
        }
    }

    #[test]
    fn the_last_lines_are_written_and_a_blocked_output_does_not_keep_the_process() {
        let (open, queue, guard, read) = blocked();
        open.send(()).expect("it reads");
        log(&queue, b"last\n");
        drop(guard);
        assert_eq!(&*read.lock(), b"last\n");
        let (open, queue, guard, read) = blocked();
        log(&queue, b"never\n");
        drop(guard); // returns
        assert!(read.lock().is_empty());
        drop(open);
    }
}
