//! A queue with a rate.

use super::*;

#[test]
fn while_a_fetch_uses_the_rate_up_its_queue_rests_until_the_reply() {
    let mut rig = Rig::new(false);
    let queue = rig.key.queue.clone();
    rig.input(PullInput::Set {
        queue: queue.clone(),
        is_paused: false,
        rate: Some(10.0),
    });
    rig.push(When::Now);
    rig.push(When::Now);
    let lease = LeaseOrder {
        requester: 0,
        queues: vec![queue],
        max: 10,
        bytes_max: usize::MAX,
        hold: MINUTE,
        waits: true,
    };
    let mut actions = Vec::new();
    rig.puller
        .handle(rig.now, PullInput::Lease(lease), &mut actions);
    rig.puller.turn(rig.now, &mut actions);
    assert_eq!(actions.len(), 1, "a fetch: {actions:?}");
    for _ in 0..10 {
        rig.now = rig.now + Duration::from_millis(20);
        rig.puller.turn(rig.now, &mut actions);
        rig.puller.turn(rig.now, &mut actions);
        assert!(rig.puller.wakes() > rig.now, "there is nothing to do");
    }
    rig.run(actions);
    assert_eq!(rig.replies, [(0, Ok(1))]);
    rig.lease(1, 10, MINUTE, true);
    rig.advance(Duration::from_secs(1));
    assert_eq!(rig.replies[1..], [(1, Ok(1))]);
}
