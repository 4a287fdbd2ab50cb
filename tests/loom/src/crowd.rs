//! Publishers that wait for room in a ring: no room is made that a waiter misses.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicBool, AtomicUsize};
use loom::thread::{self, Thread};

use crate::flow::pool::waiters::Waiters;

/// How waiters are called: who listens at that moment is woken.
#[derive(Default)]
struct Bell(Mutex<Vec<Thread>>);

impl Bell {
    fn listen(&self) {
        self.0.lock().unwrap().push(thread::current());
    }

    fn ring(&self) {
        for listener in self.0.lock().unwrap().drain(..) {
            listener.unpark();
        }
    }
}

/// A ring with room for one, which is full; a worker frees it while a publisher waits for it.
fn room_is_found(has_fence: bool) {
    loom::model(move || {
        let crowd = Arc::new(Waiters::default());
        let bare = Arc::new(AtomicUsize::new(0));
        let (is_free, bell) = (Arc::new(AtomicBool::new(false)), Arc::new(Bell::default()));
        let worker = thread::spawn({
            let (crowd, bare) = (Arc::clone(&crowd), Arc::clone(&bare));
            let (is_free, bell) = (Arc::clone(&is_free), Arc::clone(&bell));
            move || {
                is_free.store(true, Release);
                let waits = match has_fence {
                    true => crowd.waits(),
                    false => bare.load(Relaxed) > 0,
                };
                if waits {
                    bell.ring();
                }
            }
        });
        let publisher = thread::spawn(move || {
            let waiting = has_fence.then(|| crowd.join());
            bare.fetch_add(1, SeqCst);
            loop {
                bell.listen();
                if let Some(waiting) = &waiting {
                    waiting.before_trying();
                }
                if is_free.load(Acquire) {
                    break;
                }
                thread::park();
            }
        });
        worker.join().unwrap();
        publisher.join().unwrap();
    });
}

#[test]
fn room_that_is_made_while_a_publisher_goes_to_sleep_is_found() {
    room_is_found(true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_fences_a_publisher_sleeps_beside_room() {
    room_is_found(false);
}
