//! The effect on a queue of a backlog of its own, and of a busy neighbour.

use std::collections::VecDeque;
use std::future::pending;
use std::hint::{black_box, spin_loop};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use crate::pool::{Backlog, ClosurePool, board};
use crate::table::runtime;
use crate::{Event, Plan};

/// What taking one event costs may not depend on how many are behind it.
pub(crate) fn backlog(plan: Plan) {
    println!("\ntaking from a backlog");
    println!(
        "{:<32} {:>12} {:>14} {:>8}",
        "backlog", "one by one", "by eight", "ratio"
    );
    let mut base = None;
    for depth in [1, 64, 1_024, 8_192] {
        let single = taking(plan, depth, 1);
        let eight = taking(plan, depth, 8);
        let ratio = single / *base.get_or_insert(single);
        println!("{depth:<32} {single:>9.1} ns {eight:>11.1} ns {ratio:>7.1}x");
    }
}

/// Nanoseconds an event for publishing `depth` events together and taking `most` at a time.
fn taking(plan: Plan, depth: usize, most: usize) -> f64 {
    let mut feed = Backlog::new(8_192);
    let (mut batch, mut local) = (VecDeque::with_capacity(depth), VecDeque::new());
    let (start, mut events) = (Instant::now(), 0);
    while start.elapsed() < plan.pass {
        for _ in 0..(8_192 / depth) {
            batch.extend((0..depth).map(Event::new));
            events += feed.publish_many(&mut batch);
            while feed.take(&mut local, most) {
                black_box(local.drain(..).count());
            }
            local.clear();
        }
    }
    start.elapsed().as_nanos() as f64 / events as f64
}

/// What a queue with 5,000 events a second notices of a busy neighbour.
pub(crate) fn isolation(plan: Plan) {
    println!("\nlateness of a queue with an event each 200 us, 16 workers each");
    println!(
        "{:<32} {:>9} {:>9} {:>9} {:>9} {:>8}",
        "", "p50 us", "p99 us", "max us", "refused", "p99"
    );
    let mut base = None;
    for (name, neighbour) in [
        ("alone", Neighbour::None),
        ("beside one whose handlers hang", Neighbour::Hangs),
        ("beside one that burns 1 ms each", Neighbour::Burns),
    ] {
        let (mut late, refused) = lateness(plan, neighbour);
        late.sort_unstable();
        let at = |part: f64| late[((late.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e6;
        let (p50, p99, max) = (at(0.5), at(0.99), at(1.0));
        let ratio = p99 / *base.get_or_insert(p99);
        println!("{name:<32} {p50:>9.1} {p99:>9.1} {max:>9.1} {refused:>9} {ratio:>7.1}x");
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Neighbour {
    None,
    Hangs,
    Burns,
}

/// How late each event of the paced queue was, and how many found no room.
fn lateness(plan: Plan, neighbour: Neighbour) -> (Vec<Duration>, usize) {
    let runtime = runtime();
    let inside = runtime.enter();
    let deadlines = board();

    let busy = ClosurePool::new(&deadlines, 256, 16, None, move |_: Event| async move {
        match neighbour {
            Neighbour::None => {}
            Neighbour::Hangs => pending().await,
            Neighbour::Burns => {
                let start = Instant::now();
                while start.elapsed() < Duration::from_millis(1) {
                    spin_loop();
                }
            }
        }
    });
    let mut publisher = busy.publisher();
    let feeding = runtime.spawn(async move {
        while neighbour != Neighbour::None && publisher.publish(Event::default()).await.is_ok() {}
    });

    let late = Arc::new(Mutex::new(Vec::with_capacity(plan.paced)));
    let seen = late.clone();
    let paced = ClosurePool::new(&deadlines, 256, 16, None, move |published: Instant| {
        let seen = seen.clone();
        async move {
            let late = published.elapsed();
            if let Ok(mut seen) = seen.lock() {
                seen.push(late);
            }
        }
    });
    let mut publisher = paced.publisher();
    let pacing = thread::spawn(move || {
        let (mut next, mut refused) = (Instant::now(), 0);
        for _ in 0..plan.paced {
            next += Duration::from_micros(200);
            thread::sleep(next.saturating_duration_since(Instant::now()));
            refused += usize::from(publisher.try_publish(Instant::now()).is_err());
        }
        refused
    });
    let refused = pacing.join().unwrap_or_default();
    runtime.block_on(async {
        paced.idle().await;
        busy.stop().await;
        let _ = feeding.await;
    });
    drop(inside);
    let late = late.lock().map(|late| late.clone()).unwrap_or_default();
    (late, refused)
}
