//! The gate before a worker: no handler starts on a lease that was lost.

use std::sync::Arc;

use loom::sync::atomic::AtomicU64;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;

use crate::flow::node::lease_fence::LeaseFence;

#[test]
fn who_sees_new_trust_sees_what_was_lost_before() {
    loom::model(|| {
        let gate = Arc::new(LeaseFence::default());
        gate.fresh(10);
        let mover = thread::spawn({
            let gate = Arc::clone(&gate);
            move || {
                gate.lost(5);
                gate.fresh(100); // that of a later fetch
            }
        });
        assert!(!gate.is_open(50, 5), "the lease of fetch 5 is lost");
        mover.join().unwrap();
        assert!(gate.is_open(50, 6) && !gate.is_open(50, 5));
    });
}

#[test]
#[should_panic(expected = "is lost")]
fn without_the_order_of_its_two_words_a_lost_lease_is_trusted() {
    loom::model(|| {
        let words = Arc::new((AtomicU64::new(10), AtomicU64::new(0)));
        let mover = thread::spawn({
            let words = Arc::clone(&words);
            move || {
                words.1.fetch_max(5, Relaxed);
                words.0.fetch_max(100, Relaxed);
            }
        });
        let is_open = 50 < words.0.load(Relaxed) && 5 > words.1.load(Relaxed);
        assert!(!is_open, "the lease of fetch 5 is lost");
        mover.join().unwrap();
    });
}
