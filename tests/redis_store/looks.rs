//! What a store says to who begins with it: the permissions that it needs, and that there is nothing.

use std::time::Duration;

use duly::admin::DamageKind;
use duly::time::When;
use duly::{Annotation, EventId};

use crate::redis_store::kit::{Read, builder, fresh, stop, until};
use crate::servers::{Redis, RedisOptions, newest_program};

#[tokio::test]
async fn looks_under_a_prefix_that_nobody_has_used_leave_no_key() {
    let server = Redis::plain();
    let (url, _) = fresh(&server.url());
    let bus = builder(&url).publish_only().start().await.expect("a start");
    assert!(bus.queues().await.expect("a list").is_empty());
    assert!(bus.controls().await.expect("a list").is_empty());
    bus.stats("letters").await.expect("counts");
    let id = EventId::from_bytes([1; 16]);
    assert!(bus.event(id).await.expect("a look").is_none());
    bus.explain(id).await.expect("an explanation");
    bus.dead_letters().page().await.expect("a page");
    let report = bus.check_store().run().await.expect("a check");
    assert_eq!(report.buckets, 0);
    tokio::time::sleep(Duration::from_millis(600)).await; // some polls of members
    stop(&bus).await;
    assert_eq!(
        server.cli(&["DBSIZE"]),
        "0",
        "{}",
        server.cli(&["KEYS", "*"])
    );
}

#[tokio::test]
async fn the_permissions_that_the_error_names_are_enough_for_all_that_a_server_and_a_doctor_do() {
    for program in [None, Some(newest_program())] {
        let server = Redis::start(RedisOptions {
            tcp: true,
            program,
            ..RedisOptions::default()
        });
        permissions_are_enough(&server).await;
    }
}

async fn permissions_are_enough(server: &Redis) {
    for database in ["", "/3"] {
        server.cli(&["ACL", "SETUSER", "ann", "reset", "on", ">a", "+select"]);
        let url = format!("redis://ann:a@127.0.0.1:{}{database}", server.port());
        let (url, _) = fresh(&url);
        let refused = builder(&url)
            .publish_only()
            .start()
            .await
            .expect_err("no permission");
        let words = refused.to_string();
        let (_, command) = words.split_once("granted by: ").expect("a command");
        server.cli(&["ACL", "SETUSER", "ann", "reset", "on", ">a"]);
        let command: Vec<_> = command.split(' ').collect();
        assert_eq!(server.cli(&command), "OK");
        server.cli(&["ACL", "LOG", "RESET"]);

        let read = Read::default();
        let annotation = Annotation::new("letters").buckets(2);
        let bus = builder(&url).register_as(annotation, read.clone());
        let bus = bus.start().await.expect("a start");
        let queue = bus.queue_named::<String>("letters").unwrap();
        let later = queue
            .push("later".to_owned(), Duration::from_secs(600))
            .await
            .unwrap()
            .id();
        let now = queue.push("now".to_owned(), When::Now).await.unwrap().id();
        until("it is handled", async || read.seen().contains_key(&now)).await;
        bus.pause("letters").await.expect("a pause");
        bus.resume("letters").await.expect("no pause");
        bus.bucket_stats("letters").await.expect("counts");
        bus.dead_letters().page().await.expect("a page");
        bus.explain(later).await.expect("an explanation");
        assert!(bus.event(later).await.expect("a look").is_some());
        let mut check = bus.check_store();
        check = check.repair();
        let report = check.run().await.expect("a check");
        let damage: Vec<_> = report
            .damage
            .iter()
            .filter(|it| it.kind != DamageKind::Settings)
            .collect();
        assert!(damage.is_empty(), "{damage:?}");
        let _ = queue.cancel(later).await.expect("a cancellation");
        stop(&bus).await;
        let denied = server.cli(&["ACL", "LOG"]).to_lowercase();
        for word in ["key", "channel", "scan", "get", "set"] {
            let line = format!("\nobject\n{word}");
            assert!(!denied.contains(&line), "{denied}");
        }
    }
}
