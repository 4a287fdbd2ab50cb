//! Promises of membership and runtime settings.
//!
//! A store for a single process has at most one member; it passes the tests about others by not
//! being shared.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, B, STRANGER, World, secs};
use duly::event::BucketId;
use duly::records::NodeId;
use duly::store::operation::{PushOutcome, Reply};
use duly::store::{Control, Durability, Member, MemberInfo, Membership, Setting};
use duly::{ErrorKind, QueueName};

impl World {
    async fn set(&self, queue: &str, setting: Setting) {
        let queue = queue.parse().expect("a legal name");
        let set = self.store().set(&queue, setting).await;
        set.expect("it is set");
    }

    async fn controls(&self) -> BTreeMap<QueueName, Control> {
        let controls = self.store().controls().await;
        let controls = controls.expect("they can be read");
        for queue in ["one", "two", "three", "more", "q7", "on"] {
            let queue = queue.parse().expect("a legal name");
            let control = self.store().control_of(&queue).await;
            let control = control.expect("it can be read");
            assert_eq!(control, controls.get(&queue).copied(), "{queue}");
        }
        controls
    }

    async fn call(&self, node: NodeId, queues: &[&str]) -> Membership {
        let named = queues.iter().map(|name| name.parse());
        let queues: Result<Arc<[QueueName]>, _> = named.collect();
        let queues = queues.expect("legal names");
        let leaves = false;
        let me = MemberInfo {
            node,
            queues,
            host: format!("host-{}", node.0).into(),
            leaves,
        };
        self.store().poll_members(me).await.expect("it is answered")
    }

    async fn buckets_version(&self) -> u64 {
        self.call(STRANGER, &[]).await.buckets_version
    }

    async fn controls_version(&self) -> u64 {
        self.call(STRANGER, &[]).await.controls_version
    }
}

fn member(roll: &Membership, node: NodeId) -> Option<&Member> {
    roll.members.iter().find(|member| member.node == node)
}

pub async fn what_is_set_is_seen_by_everyone_who_asks(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    assert_eq!(world.controls().await, BTreeMap::new());
    world.set("one", Setting::Paused(true)).await;
    world.set("one", Setting::Workers(Some(65_535))).await;
    world.set("two", Setting::Rate(Some(0.25))).await;
    world.set("two", Setting::Buckets(Some(1_024))).await;
    let controls = world.controls().await;
    let one = Control {
        paused: true,
        workers: Some(65_535),
        ..Control::default()
    };
    let two = Control {
        rate: Some(0.25),
        buckets: Some(1_024),
        ..Control::default()
    };
    assert_eq!((controls["one"], controls["two"]), (one, two));
}

pub async fn what_is_set_stays_until_it_is_set_again(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    world.set("one", Setting::Workers(Some(0))).await;
    world.set("one", Setting::Rate(Some(10.5))).await;
    world.set("one", Setting::Rate(Some(1_000_000.0))).await;
    world.advance(secs(86_400));
    let control = Control {
        workers: Some(0),
        rate: Some(1_000_000.0),
        ..Control::default()
    };
    assert_eq!(world.controls().await["one"], control);
    world.set("one", Setting::Rate(None)).await;
    world.set("one", Setting::Workers(None)).await;
    let left = world.controls().await.remove("one");
    assert_eq!(left.unwrap_or_default(), Control::default());
}

pub async fn what_is_set_is_kept_over_a_new_opening(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    world.set("one", Setting::Paused(true)).await;
    world.set("two", Setting::Rate(Some(1.0 / 3.0))).await;
    world.set("three", Setting::Paused(true)).await;
    world.set("three", Setting::Paused(false)).await;
    let before = world.controls().await;
    let Some(world) = world.reopened().await else {
        return;
    };
    let mut after = world.controls().await;
    assert_eq!(after["one"], before["one"]);
    assert_eq!(after["two"], before["two"]);
    let three = after.remove("three").unwrap_or_default();
    assert_eq!(three, Control::default());
}

pub async fn so_many_queues_have_settings_and_one_more_is_refused(harness: &dyn StoreHarness) {
    const MAX: usize = 10_000;
    let world = World::new(harness).await;
    let named = |number: usize| QueueName::new(&format!("q{number}")).expect("a legal name");
    for from in (0..MAX).step_by(500) {
        let calls = (from..from + 500).map(|number| {
            let setting = Setting::Paused(true);
            tokio::spawn(world.store().set(&named(number), setting))
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.expect("no panic").expect("it is set");
        }
    }
    let more = [
        Setting::Paused(true),
        Setting::Rate(Some(1.0)),
        Setting::Workers(Some(1)),
        Setting::Buckets(Some(1)),
    ];
    for setting in more {
        let refused = world.store().set(&named(MAX), setting).await;
        let error = refused.expect_err("there are too many");
        assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    }
    world.set("q7", Setting::Rate(Some(1.0))).await;
    world.set("more", Setting::Paused(false)).await;
    world.set("more", Setting::Workers(None)).await;
    world.set("q8", Setting::Paused(false)).await;
    world.set("more", Setting::Paused(true)).await;
    let controls = world.controls().await;
    assert_eq!(controls.len(), MAX);
    assert!(controls["more"].paused && controls["q7"].rate.is_some());
}

pub async fn another_version_means_that_something_was_set(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let mut before = world.controls_version().await;
    assert_eq!(world.controls_version().await, before, "nothing was set");
    for setting in [Setting::Paused(true), Setting::Paused(false)] {
        world.set("one", setting).await;
        let after = world.controls_version().await;
        assert_ne!(after, before);
        before = after;
    }
}

pub async fn another_version_means_that_there_is_a_new_bucket(harness: &dyn StoreHarness) {
    let mut world = World::new(harness).await;
    let mut before = world.buckets_version().await;
    for bucket in [3, 9, 1_023] {
        world.bucket.bucket = BucketId(bucket);
        // A query does not make it a bucket that other nodes must know.
        assert_eq!(world.fetch(A).await, []);
        world.add(world.event().when(secs(60))).await;
        let after = world.buckets_version().await;
        assert_ne!(after, before);
        let buckets = world.store().buckets().await.expect("they can be listed");
        assert!(buckets.contains(&world.bucket), "{buckets:?}");
        before = after;
    }
    world.add(world.event()).await;
    assert_eq!(
        world.buckets_version().await,
        before,
        "it was known already"
    );
}

/// A consumer that does not serve it would not be notified of its next event.
pub async fn a_bucket_that_was_used_once_stays_listed(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let id = world.add(world.event().when(secs(60))).await;
    let version = world.buckets_version().await;
    let _ = world.cancel(id).await;
    let buckets = world.store().buckets().await.expect("they can be listed");
    let is_listed = buckets.contains(&world.bucket);
    world.add(world.event()).await;
    assert!(is_listed || world.buckets_version().await != version);
}

pub async fn the_store_tells_its_time(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    world.add(world.event()).await;
    let before = world.store().now_us();
    world.advance(secs(60));
    world.add(world.event()).await;
    let passed = world.store().now_us() - before;
    let wanted = 60_000_000..61_000_000;
    assert!(wanted.contains(&passed), "{passed} us");
}

pub async fn a_node_alone_is_the_only_member(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let roll = world.call(A, &["one", "two"]).await;
    assert_eq!(roll.members.len(), 1);
    let queues = roll.members[0].queues.iter();
    let names: Vec<&str> = queues.map(|queue| queue.as_str()).collect();
    assert_eq!((roll.members[0].node, names), (A, vec!["one", "two"]));
    assert_eq!(*roll.members[0].host, *format!("host-{}", A.0));
}

pub async fn a_member_is_seen_with_its_host(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    if !world.store().is_shared() {
        return;
    }
    world.call(A, &["one"]).await;
    for _ in 0..2 {
        // Also when it is known already.
        let roll = world.call(B, &["two"]).await;
        let hosts: Vec<_> = roll.members.iter().map(|it| it.host.to_string()).collect();
        assert_eq!(hosts, [A, B].map(|node| format!("host-{}", node.0)));
    }
}

pub async fn each_call_of_a_member_has_a_greater_number(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    if !world.store().is_shared() {
        return;
    }
    world.call(A, &["one"]).await;
    let mut last = None;
    for _ in 0..5 {
        world.call(A, &["one"]).await;
        let roll = world.call(B, &["two"]).await;
        let ids: Vec<_> = roll.members.iter().map(|member| member.node).collect();
        assert_eq!(ids, [A, B]);
        let beat = member(&roll, A).map(|member| member.beat);
        assert!(beat > last, "{beat:?} after {last:?}");
        last = beat;
    }
}

pub async fn a_node_that_consumes_nothing_is_no_member(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    assert_eq!(world.call(A, &[]).await.members, []);
    assert_eq!(world.call(B, &[]).await.members, []);
}

pub async fn a_member_that_leaves_is_gone_at_once(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    world.call(A, &["one"]).await;
    let me = MemberInfo {
        node: A,
        queues: Arc::from(["one".parse().expect("a legal name")]),
        host: "".into(),
        leaves: true,
    };
    let roll = world
        .store()
        .poll_members(me)
        .await
        .expect("it is answered");
    assert_eq!(member(&roll, A), None);
    assert_eq!(member(&world.call(B, &["one"]).await, A), None);
}

/// For at least ten seconds others can detect its silence, but not for ever.
pub async fn a_member_that_calls_no_more_stays_for_a_while_with_its_number(
    harness: &dyn StoreHarness,
) {
    let world = World::new(harness).await;
    if !world.store().is_shared() {
        return;
    }
    world.call(A, &["one"]).await;
    let before = world.call(B, &["one"]).await;
    for _ in 0..10 {
        world.advance(secs(1));
        let roll = world.call(B, &["one"]).await;
        assert_eq!(member(&roll, A), member(&before, A));
    }
    for _ in 0..120 {
        world.advance(secs(1));
        world.call(B, &["one"]).await;
    }
    let roll = world.call(B, &["one"]).await;
    assert_eq!(member(&roll, A), None);
    assert!(member(&roll, B).is_some());
}

pub async fn a_push_reaches_what_the_store_does_by_itself(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let event = world.event();
    let wanted = world.store().durability();
    let pushed = world
        .store()
        .push_durably(&world.bucket, vec![event.0.clone()], wanted);
    let result = pushed.await.expect("it is pushed");
    let Reply::Pushed(pushed) = result.reply else {
        panic!("a push was returned {:?}", result.reply);
    };
    assert_eq!(pushed[0].verdict, PushOutcome::Accepted);
    let again = PushOutcome::Duplicate(event.id());
    assert_eq!(world.push(&event).await, again);
}

pub async fn a_push_that_can_never_be_so_durable_is_refused(harness: &dyn StoreHarness) {
    let world = World::new(harness).await;
    let (event, wanted) = (world.event(), Durability::Replicated(1_000));
    let refused = world
        .store()
        .push_durably(&world.bucket, vec![event.0.clone()], wanted);
    let refused = refused.await.expect_err("it has no others");
    if world.store().is_shared() && refused.kind() == ErrorKind::Unknown {
        return; // the number of replicas may change, so it was attempted
    }
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert_eq!(world.get(event.id()).await, None);
}
