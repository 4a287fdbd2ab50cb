//! Stores that do not reply, or refuse.

use super::*;

/// Handles an input and turns; returns the fetch that follows.
fn fetch(rig: &mut Rig, input: Option<PullInput<Arc<Envelope>>>) -> (CallId, StoreOp) {
    let mut actions = Vec::new();
    if let Some(input) = input {
        rig.puller.handle(rig.now, input, &mut actions);
    }
    rig.puller.turn(rig.now, &mut actions);
    let fetch = actions.into_iter().find_map(|action| match action {
        PullAction::Call { call, op, .. } => matches!(op, StoreOp::Fetch(_)).then_some((call, op)),
        PullAction::Reply { .. } => None,
    });
    fetch.expect("a fetch")
}

fn order(queues: Vec<QueueName>) -> LeaseOrder {
    LeaseOrder {
        requester: 0,
        queues,
        max: 1,
        bytes_max: usize::MAX,
        hold: MINUTE,
        waits: true,
    }
}

#[test]
fn a_lost_fetch_is_repeated_until_a_reply_although_repeats_are_refused() {
    let mut rig = Rig::new(true);
    rig.push(When::Now);
    let lease = order(vec![rig.key.queue.clone()]);
    let (mut call, op) = fetch(&mut rig, Some(PullInput::Lease(lease)));
    let leased = rig
        .bucket
        .apply(rig.now_us(), op.clone(), &mut sink::Forget);
    assert!(matches!(leased.unwrap().reply, Reply::Fetched(_)));
    let StoreOp::Fetch(first) = &op else {
        panic!("{op:?} is no fetch");
    };
    let failures = [ErrorKind::Unknown].into_iter();
    for kind in failures.chain([ErrorKind::Unavailable; 5]) {
        let response = Err(kind);
        let answered = PullInput::Answered { call, response };
        rig.puller.handle(rig.now, answered, &mut Vec::new());
        rig.puller.turn(rig.now, &mut Vec::new());
        rig.now = rig.now + Duration::from_secs(2);
        let (next, again) = fetch(&mut rig, None);
        let StoreOp::Fetch(again) = again else {
            panic!("{again:?} is no fetch");
        };
        assert_eq!(again.request, first.request, "after {kind:?}");
        call = next;
    }
    let bucket = rig.key.clone();
    rig.run(vec![PullAction::Call { call, bucket, op }]);
    assert_eq!(rig.replies, [(0, Ok(1))]);
}

#[test]
fn a_queue_with_a_lost_fetch_is_not_forgotten() {
    let mut rig = Rig::new(true);
    rig.push(When::Now);
    let lease = order(vec![rig.key.queue.clone()]);
    let (call, _) = fetch(&mut rig, Some(PullInput::Lease(lease)));
    let response = Err(ErrorKind::Unknown);
    let lost = PullInput::Answered { call, response };
    rig.puller.handle(rig.now, lost, &mut Vec::new());
    rig.puller
        .handle(rig.now, PullInput::Cancelled(0), &mut Vec::new());
    rig.puller.forget_idle(rig.now + MINUTE * 2, MINUTE);
    assert_eq!(rig.puller.queues(), 1);
}

type Actions = Vec<PullAction<Arc<Envelope>>>;

/// A rig with an event, and a queue of so many other buckets with an event each.
fn with_hung(buckets: u16) -> (Rig, QueueName) {
    let mut rig = Rig::new(true);
    rig.push(When::Now);
    let hung = QueueName::new("hung").unwrap();
    let key = |bucket| BucketKey::new(hung.clone(), BucketId(bucket));
    let buckets: Vec<_> = (0..buckets).map(key).collect();
    for key in &buckets {
        rig.others.insert(key.clone(), Bucket::new(key.clone()));
        rig.push_to(key, When::Now);
    }
    let queue = hung.clone();
    let serve = PullInput::Serve { queue, buckets };
    rig.puller.handle(rig.now, serve, &mut Vec::new());
    (rig, hung)
}

/// Goes on for two seconds or until a reply, and returns the calls of a queue that got none.
fn go_on(rig: &mut Rig, hung: &QueueName, hangs: fn(&StoreOp) -> bool) -> Actions {
    let (mut actions, mut held) = (Vec::new(), Vec::new());
    let until = rig.now + Duration::from_secs(2);
    while rig.now <= until && rig.replies.is_empty() {
        rig.puller.turn(rig.now, &mut actions);
        let is_hung = |it: &mut PullAction<_>| matches!(it, PullAction::Call { bucket, op, .. } if bucket.queue == *hung && hangs(op));
        held.extend(actions.extract_if(.., is_hung));
        if actions.is_empty() {
            rig.now = rig.now.max(rig.puller.wakes());
        } else {
            rig.run_once(&mut actions);
        }
    }
    held
}

fn is_fetch(op: &StoreOp) -> bool {
    matches!(op, StoreOp::Fetch(_))
}

#[test]
fn a_queue_that_does_not_reply_keeps_nobody_from_the_next_one() {
    for hangs in [|_: &_| true, is_fetch] {
        let (mut rig, hung) = with_hung(1);
        let lease = order(vec![hung.clone(), rig.key.queue.clone()]);
        let lease = PullInput::Lease(lease);
        rig.puller.handle(rig.now, lease, &mut Vec::new());
        let from = rig.now;
        go_on(&mut rig, &hung, hangs);
        assert_eq!(rig.replies, [(0, Ok(1))]);
        assert_eq!(rig.now, from + PATIENCE);
    }
}

#[test]
fn what_a_fetch_brings_after_its_callers_have_gone_past_it_is_for_others_or_goes_back() {
    for has_other in [true, false] {
        let (mut rig, hung) = with_hung(1);
        let lease = order(vec![hung.clone(), rig.key.queue.clone()]);
        let lease = PullInput::Lease(lease);
        rig.puller.handle(rig.now, lease, &mut Vec::new());
        let late = go_on(&mut rig, &hung, is_fetch);
        assert_eq!((late.len(), rig.replies.len()), (1, 1));
        if has_other {
            let requester = 1;
            let queues = vec![hung.clone()];
            rig.input(PullInput::Lease(LeaseOrder {
                requester,
                ..order(queues)
            }));
        }
        assert_eq!(rig.replies.len(), 1);
        rig.run(late);
        let stats = rig.others.values().next().unwrap().stats();
        if has_other {
            assert_eq!(rig.replies[1..], [(1, Ok(1))]);
            assert_eq!((stats.leased, stats.ready), (1, 0));
        } else {
            assert_eq!(rig.count("settle"), 1);
            assert_eq!((stats.leased, stats.ready), (0, 1));
        }
    }
}

#[test]
fn a_fetch_that_callers_have_gone_past_counts_for_the_rate() {
    let (mut rig, hung) = with_hung(2);
    let (queue, rate) = (hung.clone(), Some(0.001));
    let set = PullInput::Set {
        queue,
        is_paused: false,
        rate,
    };
    rig.puller.handle(rig.now, set, &mut Vec::new());
    let empty = serve_empty(&mut rig);
    let lease = PullInput::Lease(order(vec![hung.clone(), empty]));
    rig.puller.handle(rig.now, lease, &mut Vec::new());
    let late = go_on(&mut rig, &hung, is_fetch);
    assert_eq!((late.len(), rig.replies.len()), (1, 0));
    rig.run(late);
    assert_eq!(rig.replies, [(0, Ok(1))]);
}

/// A queue with nothing in it.
fn serve_empty(rig: &mut Rig) -> QueueName {
    let queue = QueueName::new("empty").unwrap();
    let key = BucketKey::new(queue.clone(), BucketId(0));
    rig.others.insert(key.clone(), Bucket::new(key.clone()));
    let serve = PullInput::Serve {
        queue: queue.clone(),
        buckets: vec![key],
    };
    rig.puller.handle(rig.now, serve, &mut Vec::new());
    queue
}

#[test]
fn a_slow_queue_gets_one_fetch_for_a_caller_that_has_no_other() {
    for (has_other, fetches) in [(true, 3), (false, 1)] {
        let (mut rig, hung) = with_hung(3);
        let mut queues = vec![hung.clone()];
        queues.extend(has_other.then(|| serve_empty(&mut rig)));
        let lease = PullInput::Lease(order(queues));
        rig.puller.handle(rig.now, lease, &mut Vec::new());
        let late = go_on(&mut rig, &hung, is_fetch);
        assert_eq!((late.len(), rig.replies.len()), (fetches, 0));
        rig.run(late);
        assert_eq!(rig.replies, [(0, Ok(1))]);
        let leased = rig.others.values().map(|it| it.stats().leased);
        assert_eq!(leased.sum::<usize>(), 1, "the rest went back");
    }
}

#[test]
fn what_a_fetch_brings_after_a_pause_is_for_nobody_who_came_after_it() {
    for is_paused in [false, true] {
        let (mut rig, hung) = with_hung(1);
        let lease = order(vec![hung.clone(), rig.key.queue.clone()]);
        let lease = PullInput::Lease(lease);
        rig.puller.handle(rig.now, lease, &mut Vec::new());
        let late = go_on(&mut rig, &hung, is_fetch);
        assert_eq!((late.len(), rig.replies.len()), (1, 1));
        rig.input(PullInput::Set {
            queue: hung.clone(),
            is_paused,
            rate: None,
        });
        let (requester, queues) = (1, vec![hung.clone()]);
        rig.input(PullInput::Lease(LeaseOrder {
            requester,
            ..order(queues)
        }));
        rig.run(late);
        let stats = rig.others.values().next().unwrap().stats();
        if is_paused {
            assert_eq!(rig.replies.len(), 1);
            assert_eq!((stats.leased, stats.ready), (0, 1));
        } else {
            assert_eq!(rig.replies[1..], [(1, Ok(1))]);
            assert_eq!((stats.leased, stats.ready), (1, 0));
        }
    }
}

#[test]
fn a_lease_that_is_over_when_the_reply_comes_goes_back() {
    for (after, expected) in [(MINUTE / 2, 1), (MINUTE, 0)] {
        let mut rig = Rig::new(true);
        rig.push(When::Now);
        let lease = order(vec![rig.key.queue.clone()]);
        let (call, op) = fetch(&mut rig, Some(PullInput::Lease(lease)));
        let now_us = rig.now_us();
        let leased = rig.bucket.apply(now_us, op, &mut sink::Forget);
        let response = leased.map_err(|error| error.kind());
        // Another call tells the time meanwhile.
        rig.now = rig.now + after;
        let empty = serve_empty(&mut rig);
        let (requester, waits) = (1, false);
        rig.input(PullInput::Lease(LeaseOrder {
            requester,
            waits,
            ..order(vec![empty])
        }));
        rig.replies.clear();
        let answered = PullInput::Answered { call, response };
        rig.puller.handle(rig.now, answered, &mut Vec::new());
        let mut actions = Vec::new();
        rig.puller.turn(rig.now, &mut actions);
        let is_reply = |it: &&PullAction<_>| matches!(it, PullAction::Reply { .. });
        assert_eq!(actions.iter().filter(is_reply).count(), expected);
    }
}

/// Nobody wanted it when it came to be known.
#[test]
fn who_gets_nothing_of_one_queue_takes_what_came_to_an_earlier_one_meanwhile() {
    let mut rig = Rig::new(false);
    let first = BucketKey::new(QueueName::new("first").unwrap(), BucketId(0));
    let (queue, buckets) = (first.queue.clone(), vec![first.clone()]);
    rig.input(PullInput::Serve { queue, buckets });
    rig.push(When::Now);
    let lease = order(vec![first.queue.clone(), rig.key.queue.clone()]);
    let (call, op) = fetch(&mut rig, Some(PullInput::Lease(lease)));
    rig.input(PullInput::Woken(first));
    assert_eq!(rig.count("fetch"), 0, "the other one is on its way");
    let mut empty = Bucket::new(rig.key.clone());
    let response = empty.apply(rig.now_us(), op, &mut sink::Forget);
    let response = response.map_err(|error| error.kind());
    rig.input(PullInput::Answered { call, response });
    assert_eq!(rig.replies, [(0, Ok(1))]);
}

#[test]
fn many_buckets_in_use_are_scanned_five_hundred_times_a_second_in_all() {
    let mut rig = Rig::new(true);
    rig.push(When::Now); // each of them has it: there is one bucket behind all
    let queue = rig.key.queue.clone();
    let bucket = |number| BucketKey::new(queue.clone(), BucketId(number));
    let buckets = (1..2_000).map(bucket).collect();
    let queue = queue.clone();
    rig.input(PullInput::Serve { queue, buckets });
    rig.advance(Duration::from_secs(5));
    rig.sent.clear();
    rig.advance(Duration::from_secs(10));
    let scans = rig.count("reap");
    assert!((4_000..=6_000).contains(&scans), "{scans} in ten seconds");
}

#[test]
fn buckets_that_nobody_uses_make_no_scan_of_another_rarer() {
    let mut rig = Rig::new(true);
    let queue = rig.key.queue.clone();
    let bucket = |number| BucketKey::new(queue.clone(), BucketId(number));
    let buckets = (1..5_000).map(bucket).collect();
    let queue = queue.clone();
    rig.input(PullInput::Serve { queue, buckets });
    rig.advance(Duration::from_secs(2));
    rig.sent.clear();
    rig.push(When::Now);
    rig.advance(Duration::from_secs(10));
    let scans = rig.count("reap");
    assert!((9..=12).contains(&scans), "{scans} in ten seconds");
}
