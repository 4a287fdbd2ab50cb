//! What threads count in parts of their own, which others have after them: nothing is lost.

use std::sync::Arc;

use loom::sync::atomic::AtomicU64;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;

use crate::metrics::shard::{SHARDS, Shards};

/// Three threads, of which one at a time can have the part of its own; each adds twice.
fn all_is_counted(gives_back_too_early: bool) {
    loom::model(move || {
        let shards = Arc::new(Shards::new());
        let parts: Arc<[AtomicU64; SHARDS]> = Arc::new(std::array::from_fn(|_| AtomicU64::new(0)));
        let count = {
            let (shards, parts) = (Arc::clone(&shards), Arc::clone(&parts));
            move || {
                let mine = shards.take();
                mine.add(&parts[mine.at()], 1);
                if gives_back_too_early {
                    shards.give_back(mine);
                }
                mine.add(&parts[mine.at()], 10);
                if !gives_back_too_early {
                    shards.give_back(mine);
                }
            }
        };
        let others = [thread::spawn(count.clone()), thread::spawn(count.clone())];
        count();
        for other in others {
            other.join().unwrap();
        }
        let sum: u64 = parts.iter().map(|part| part.load(Relaxed)).sum();
        assert_eq!(sum, 33, "something was not counted");
    });
}

#[test]
fn what_threads_count_that_come_and_go_is_counted() {
    all_is_counted(false);
}

#[test]
#[should_panic(expected = "something was not counted")]
fn a_thread_that_still_counts_in_a_part_that_it_gave_back_loses_some() {
    all_is_counted(true);
}
