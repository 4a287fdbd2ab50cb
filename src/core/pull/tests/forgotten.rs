//! Tests of queues that are forgotten, and of those that are not.

use super::*;

#[test]
fn idle_queues_make_room_for_new_ones() {
    let mut rig = Rig::new(false);
    let name = |number: usize| QueueName::new(&format!("reply-{number}")).unwrap();
    for number in 1..PULLED_QUEUES_MAX {
        rig.puller.serve(rig.now, name(number), Vec::new());
    }
    rig.puller.serve(rig.now, name(0), Vec::new());
    assert!(!rig.puller.serves(&name(0)), "there is no room");
    rig.now = rig.now + IDLE_AFTER;
    rig.puller.serve(rig.now, name(0), Vec::new());
    assert!(rig.puller.serves(&name(0)));
}

#[test]
fn a_queue_is_not_forgotten_before_its_rate_allows_the_next_lease() {
    let mut rig = Rig::new(false);
    rig.input(PullInput::Set {
        queue: rig.key.queue.clone(),
        is_paused: false,
        rate: Some(0.001),
    });
    rig.push(When::Now);
    rig.push(When::Now);
    rig.lease(0, 1, Duration::from_secs(5), false);
    for requester in 1..6 {
        rig.advance(Duration::from_secs(180));
        rig.lease(requester, 1, MINUTE, false);
    }
    rig.advance(Duration::from_secs(101));
    rig.lease(6, 1, MINUTE, false);
    let got: Vec<_> = rig.replies.iter().map(|(_, got)| *got).collect();
    assert_eq!(got, [1, 0, 0, 0, 0, 0, 1].map(Ok));
    rig.advance(Duration::from_secs(2_000));
    assert!(!rig.puller.serves(&rig.key.queue), "then it is");
}

#[test]
fn queues_with_leases_make_room_for_new_ones_the_idlest_first() {
    let mut rig = Rig::new(false);
    let name = |number: usize| QueueName::new(&format!("reply-{number}")).unwrap();
    let serve = |rig: &mut Rig, number: usize| {
        rig.now = rig.now + Duration::from_nanos(1);
        let key = BucketKey::new(name(number), BucketId(0));
        rig.puller.serve(rig.now, name(number), vec![key.clone()]);
        if let Some(at) = rig.puller.bucket_of.get(&key).copied() {
            let ends = Timestamp::from_micros_up(rig.now_us() + 3_600_000_000);
            let bucket = rig.puller.buckets.get_mut(&at).unwrap();
            bucket.leased(ends, &rig.puller.clock);
        }
    };
    for number in 0..2 * PULLED_QUEUES_MAX {
        serve(&mut rig, number);
        assert!(rig.puller.serves(&name(number)), "the newest, {number}");
        let before = number.saturating_sub(PULLED_QUEUES_MAX / 2);
        assert!(rig.puller.serves(&name(before)), "not the idlest, {before}");
    }
    assert!(rig.puller.queues() <= PULLED_QUEUES_MAX);
}

#[test]
fn a_queue_that_somebody_waits_for_is_not_forgotten() {
    let mut rig = Rig::new(false);
    rig.lease(0, 1, MINUTE, true);
    for number in 0..2 * PULLED_QUEUES_MAX {
        rig.now = rig.now + Duration::from_nanos(1);
        let name = QueueName::new(&format!("reply-{number}")).unwrap();
        rig.puller.serve(rig.now, name, Vec::new());
    }
    assert!(rig.puller.serves(&rig.key.queue));
}
