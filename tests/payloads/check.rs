//! Would this build read everything that waits?

use duly::Annotation;
use duly::admin::{PayloadReport, UndecodablePayload};
use duly::event::State as EventState;
use duly::prelude::*;
use duly::schedule::{OverlapPolicy, ScheduleOptions};
use duly::testing::Probe;

use crate::payloads::encrypted::ring;
use crate::world::{ORDERS, World, secs};

over_every_store! {
    everything_that_waits_is_read_and_nothing_is_consumed,
    a_check_is_bounded_and_names_what_it_finds,
    a_check_needs_the_keys_and_says_so,
    what_schedules_will_push_is_checked_as_well,
    a_failure_names_the_version_that_was_to_be_read,
}

const MAILS: Annotation = Annotation::new("mails").attempts(1);

async fn everything_that_waits_is_read_and_nothing_is_consumed(world: World) {
    let (bus, queue) = world.push_only::<u64>("orders").await;
    queue.push_many(0..250, secs(60)).await.unwrap();
    queue.push_many(250..300, secs(0)).await.unwrap();
    let text = bus.queue_named::<String>("orders").unwrap();
    let wrong = text.push("seven".to_owned(), secs(60)).await.unwrap().id();
    bus.queue_named::<u64>("nobodys")
        .unwrap()
        .push(1, When::Now)
        .await
        .unwrap();

    // A build with a handler that does not consume.
    let builder = world.builder().publish_only();
    let checker = builder.register_as(ORDERS.version(3), Probe::<u64>::new());
    let checker = world.start(checker).await;
    let report = checker.check_payloads().run().await.unwrap();
    assert_eq!((report.looked, report.read, report.failed), (301, 300, 1));
    assert_eq!(report.without_handler, ["nobodys".parse().unwrap()].into());
    let failure = &report.failures[0];
    assert_eq!((failure.id, failure.state), (wrong, EventState::Scheduled));
    let error = report.passed().unwrap_err().to_string();
    assert!(error.contains(&wrong.to_string()), "{error}");

    let stats = bus.stats("orders").await.unwrap();
    assert_eq!((stats.scheduled, stats.ready, stats.dead), (251, 50, 0));
}

async fn a_check_is_bounded_and_names_what_it_finds(world: World) {
    let dies = Probe::<u64>::answering(|_event, _cx| Err(Failure::permanent("no")));
    let builder = world.builder().register_as(MAILS, dies);
    let bus = world
        .start(builder.register_as(ORDERS, Probe::<u64>::new()))
        .await;
    let mails = bus.queue_named::<u64>("mails").unwrap();
    mails.push_many(0..30, secs(0)).await.unwrap();
    bus.advance(secs(1)).await;
    let orders = bus.queue_named::<u64>("orders").unwrap();
    orders.push_many(0..300, secs(60)).await.unwrap();

    let check = bus.check_payloads();
    assert_eq!(check.clone().run().await.unwrap().looked, 330);
    let living = check.clone().without_dead_letters();
    assert_eq!(living.run().await.unwrap().looked, 300);
    assert_eq!(check.clone().limit(20).run().await.unwrap().looked, 40);
    let one = check.clone().queue("orders").limit(150);
    assert_eq!(one.run().await.unwrap().passed().unwrap().read, 150);
    assert!(check.queue("{").run().await.is_err());
}

async fn a_check_needs_the_keys_and_says_so(world: World) {
    let builder = world.builder().publish_only().keys(ring(&["k1"]));
    let builder = builder.register_as(ORDERS.encrypt(true), Probe::<u64>::new());
    let bus = world.start(builder).await;
    let queue = bus.queue_named::<u64>("orders").unwrap();
    queue.push(7, secs(60)).await.unwrap();
    let schedule = often("orders").payload(&7).unwrap();
    bus.schedules().set("secret", schedule).await.unwrap();
    let report = bus.check_payloads().run().await.unwrap().passed().unwrap();
    assert_eq!(report.read, 2);
    let builder = world.builder().publish_only();
    let without = world
        .start(builder.register_as(ORDERS, Probe::<u64>::new()))
        .await;
    let report = without.check_payloads().run().await.unwrap();
    let needs_it = |it: &UndecodablePayload| it.why.contains("key k1");
    assert!(report.failures.iter().all(needs_it), "{report:?}");
    assert_eq!((report.looked, report.failed), (2, 2));
}

fn often(queue: &str) -> ScheduleOptions {
    let often = ScheduleOptions::new(queue, "every 1h").unwrap();
    often.overlap(OverlapPolicy::Skip)
}

async fn what_schedules_will_push_is_checked_as_well(world: World) {
    let (bus, _) = world.push_only::<u64>("orders").await;
    let schedules = bus.schedules();
    for (name, options) in [
        ("reads", often("orders").payload(&7).unwrap()),
        ("wrong", often("orders").payload(&"seven").unwrap()),
        ("shop.wrong", often("orders").payload(&[7]).unwrap()),
        ("occurrence", often("orders")),
        ("of-nobody", often("nobodys")),
        ("removed", often("orders")),
    ] {
        schedules.set(name, options).await.unwrap();
    }
    assert!(schedules.remove("removed").await.unwrap());
    let builder = world.builder().publish_only();
    let checker = builder.register_as(ORDERS, Probe::<u64>::new());
    let checker = world.start(checker).await;
    let check = checker.check_payloads();
    let report = check.clone().run().await.unwrap();
    assert_eq!((report.looked, report.read, report.failed), (4, 1, 3));
    assert_eq!(report.without_handler, ["nobodys".parse().unwrap()].into());
    let failures = report.failures.iter();
    let names = failures.map(|it| (it.queue.as_str(), it.why.split(':').next().unwrap()));
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    let of = ["occurrence", "shop.wrong", "wrong"].map(|name| format!("schedule {name}"));
    let of: Vec<_> = of.iter().map(|name| ("orders", name.as_str())).collect();
    assert_eq!(names, of);

    let of_queue = check.clone().queue("orders").run().await.unwrap();
    assert_eq!((of_queue.failed, of_queue.without_handler.len()), (3, 0));
    let of_another = check.clone().queue("mails").run().await.unwrap();
    assert_eq!(of_another, PayloadReport::default());

    // However many schedules push elsewhere.
    for number in 0..8 {
        let name = format!("of-nobody-{number}");
        schedules.set(&name, often("nobodys")).await.unwrap();
    }
    let limited = check.queue("orders").limit(1).run().await.unwrap();
    assert_eq!(limited.failed, 3, "{limited:?}");
}

/// As it was pushed, or as it was updated since, by a build that may know the version or not.
async fn a_failure_names_the_version_that_was_to_be_read(world: World) {
    let of = |version: Option<u32>| QueueChoices {
        version,
        ..QueueChoices::default()
    };
    for pushed in [0, 1, 3] {
        for updated in [None, Some(None), Some(Some(1)), Some(Some(3))] {
            let build = world
                .builder()
                .publish_only()
                .queue("orders", of(Some(pushed)));
            let bus = world.start(build).await;
            let queue = bus.queue_named::<String>("orders").unwrap();
            let text = "seven".to_owned();
            let id = queue.push(text.clone(), secs(60)).await.unwrap().id();
            if let Some(by) = updated {
                let build = world.builder().publish_only();
                let build = match by {
                    Some(version) => build.queue("orders", of(Some(version))),
                    None => build,
                };
                let newer = world.start(build).await;
                let queue = newer.queue_named::<String>("orders").unwrap();
                let _ = queue.update(id, &text).await.unwrap();
            }
            let checker = world.builder().publish_only();
            let checker = checker.register_as(ORDERS.version(2), Probe::<u64>::new());
            let checker = world.start(checker).await;
            let report = checker.check_payloads().run().await.unwrap();
            let [failure] = &report.failures[..] else {
                panic!("{report:?}");
            };
            let expected = updated.flatten().unwrap_or(pushed);
            assert_eq!(failure.version, expected, "{pushed}, {updated:?}");
            let is_newer = failure.why.contains("version 3");
            assert_eq!(is_newer, expected == 3, "{failure}");
            assert_eq!(queue.cancel(id).await.unwrap(), CancelOutcome::Cancelled);
        }
    }
}
