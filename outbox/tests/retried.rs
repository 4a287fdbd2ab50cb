//! Refused rows that are put back.

use duly::prelude::*;
use duly_outbox::Database;

use crate::aged::{forget, forgetful, forgetful_with_clock, push_an_hour_ago};
use crate::databases::{Outbox, REFUSED, refused};
use crate::world::{Seen, bus, order, orders};

/// Nobody pushed it before it was refused, so another id does no harm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_was_refused_for_long_is_handled_once_it_is_right() {
    for outbox in Outbox::all().await {
        let seen = Seen::default();
        let bus = forgetful(&seen).await;
        let queue = orders(&bus);
        outbox.push(&queue, 1..2, When::Now).await;
        outbox
            .execute("create table backup as select event from duly_outbox")
            .await;
        // As by another version.
        outbox
            .execute("update duly_outbox set event = substr(event, 2)")
            .await;
        let relay = outbox.relay(&bus).await;
        let unknown = refused("format 0");
        outbox.until(&unknown, 1).await;
        forget(&queue, &seen).await;
        outbox
            .execute("update duly_outbox_refused set event = (select event from backup)")
            .await;
        outbox.retry(false).await;
        seen.reach(1_001).await;
        assert_eq!(seen.counts()[&1], 1);
        assert_eq!(outbox.number(REFUSED).await, 0);
        relay.stop().await;
    }
}

/// Only an operator can know that handling it twice does no harm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_have_been_accepted_goes_on_under_a_new_id_if_an_operator_says_so() {
    for outbox in Outbox::all().await {
        let seen = Seen::default();
        let bus = forgetful(&seen).await;
        let queue = orders(&bus);
        outbox.push(&queue, 1..2, When::Now).await;
        outbox
            .execute("update duly_outbox set repeated = true")
            .await;
        forget(&queue, &seen).await;
        let relay = outbox.relay(&bus).await;
        let maybe = refused("may have been accepted");
        outbox.until(&maybe, 1).await;
        outbox.retry(false).await;
        outbox.until(&maybe, 1).await;
        assert!(!seen.numbers().contains(&1));
        outbox.retry(true).await;
        seen.reach(1_001).await;
        assert_eq!(seen.counts()[&1], 1);
        relay.stop().await;
    }
}

/// A relay that was killed may have pushed it, and it is deferred before it is looked up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_operator_has_put_back_anew_is_so_also_once_it_is_deferred() {
    for outbox in Outbox::all().await {
        let seen = Seen::default();
        let bus = forgetful(&seen).await;
        let queue = orders(&bus);
        outbox.push(&queue, 1..2, When::Now).await;
        let may_be = "update duly_outbox set repeated = true";
        outbox.execute(may_be).await;
        forget(&queue, &seen).await;
        let relay = outbox.relay(&bus).await;
        outbox.until(&refused("may have been accepted"), 1).await;
        relay.stop().await;
        outbox.retry(true).await;
        outbox.execute(may_be).await;
        let relay = outbox.relay(&bus).await;
        outbox.settled().await;
        assert_eq!(outbox.number(REFUSED).await, 0, "{}", outbox.name());
        seen.reach(1_001).await;
        assert_eq!(seen.counts()[&1], 1);
        relay.stop().await;
    }
}

/// An id that was chosen may be that of another push, so duly puts no other in its place by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_a_chosen_id_that_is_too_old_goes_on_under_a_new_one_if_an_operator_says_so() {
    for outbox in Outbox::all().await {
        let seen = Seen::default();
        let (store, bus) = forgetful_with_clock(&seen).await;
        let queue = orders(&bus);
        let named = queue.id_for_name("2");
        push_an_hour_ago((&outbox, &store), (&queue, 2), named).await;
        outbox
            .execute("update duly_outbox set repeated = true")
            .await;
        outbox.push_given(&queue, 1, queue.new_id()).await;
        outbox.push_plain_under(3, queue.new_id(), "{}").await;
        forget(&queue, &seen).await;
        let relay = outbox.relay(&bus).await;
        let old = refused("older than the");
        outbox.until(&old, 3).await;
        outbox.retry(false).await;
        outbox.until(&old, 3).await;
        assert!(!seen.numbers().iter().any(|number| *number < 1_000));
        outbox.retry(true).await;
        seen.reach(1_003).await;
        let counts = seen.counts();
        assert_eq!([1, 2, 3].map(|number| counts[&number]), [1; 3]);
        assert_eq!(outbox.number(REFUSED).await, 0);
        relay.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_under_the_id_of_another_is_refused_and_goes_on_if_an_operator_says_so() {
    for outbox in Outbox::all().await {
        let seen = Seen::default();
        let bus = bus("memory:", &seen).await;
        let queue = orders(&bus);
        let id = queue.new_id();
        queue.event(order(1)).id(id).push().await.unwrap();
        outbox.push_given(&queue, 2, id).await;
        let relay = outbox.relay(&bus).await;
        let taken = refused("another payload");
        outbox.until(&taken, 1).await;
        outbox.retry(true).await;
        seen.reach(2).await;
        assert_eq!(outbox.number(REFUSED).await, 0);
        relay.stop().await;
    }
}

/// The first of them to go on takes nothing from the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_one_chosen_id_are_each_handled_once_an_operator_says_so() {
    for outbox in Outbox::all().await {
        let seen = Seen::default();
        let bus = bus("memory:", &seen).await;
        let queue = orders(&bus);
        let ids = [queue.new_id(), queue.id_for_name("7")];
        for (first, id) in (0..).step_by(10).zip(ids) {
            queue.event(order(first)).id(id).push().await.unwrap();
            for number in first + 1..first + 5 {
                outbox.push_given(&queue, number, id).await;
            }
            for number in first + 5..first + 8 {
                let options = format!("{{\"id\": \"{id}\"}}");
                outbox.push_plain_with(number, &options).await;
            }
            for number in first + 8..first + 10 {
                outbox.push_plain_under(number, id, "{}").await;
            }
        }
        let relay = outbox.relay(&bus).await;
        let taken = refused("another payload");
        outbox.until(&taken, 18).await;
        outbox.retry(true).await;
        outbox.until(REFUSED, 0).await;
        outbox.settled().await;
        seen.reach(20).await;
        assert!(seen.counts().values().all(|count| *count == 1));
        relay.stop().await;
    }
}

/// `duly_push` writes an id of its own into the column, so the relay cannot know that this one was chosen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_row_under_the_id_of_another_in_the_column_of_postgresql_is_refused() {
    let outbox = Outbox::new(Database::Postgres).await;
    let seen = Seen::default();
    let bus = bus("memory:", &seen).await;
    let id = orders(&bus).new_id();
    let row = |number: u64| format!("('orders', '{{\"number\": {number}}}', '{id}')");
    let insert = "insert into duly_outbox (queue, payload, id) values";
    let two = format!("{insert} {}, {}", row(1), row(2));
    outbox.execute(&two).await;
    let relay = outbox.relay(&bus).await;
    seen.reach(1).await;
    for number in [1, 3, 4] {
        outbox.execute(&format!("{insert} {}", row(number))).await;
    }
    outbox.until(&refused("another payload"), 3).await;
    outbox.settled().await;
    assert_eq!(
        seen.numbers(),
        [1],
        "the same event once more is a duplicate"
    );
    relay.stop().await;
    outbox.retry(true).await;
    // As after a relay that was killed between its push and the end of the page.
    outbox
        .execute("update duly_outbox set repeated = true")
        .await;
    let relay = outbox.relay(&bus).await;
    seen.reach(4).await;
    outbox.settled().await;
    assert!(seen.counts().values().all(|count| *count == 1));
    assert_eq!(outbox.number(REFUSED).await, 0);
    relay.stop().await;
}

/// It was never encoded, so it is put back as plain SQL wrote it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_row_of_a_chosen_id_goes_on_under_a_new_one_if_an_operator_says_so() {
    for outbox in Outbox::all().await {
        let seen = Seen::default();
        let bus = bus("memory:", &seen).await;
        let queue = orders(&bus);
        let id = queue.new_id();
        queue.event(order(1)).id(id).push().await.unwrap();
        for number in 2..5 {
            let options = format!("{{\"atempts\": 3, \"id\": \"{id}\"}}");
            outbox.push_plain_with(number, &options).await;
        }
        let relay = outbox.relay(&bus).await;
        outbox.until(REFUSED, 3).await;
        let mended = format!("update duly_outbox_refused set options = '{{\"id\": \"{id}\"}}'");
        outbox.execute(&mended).await;
        outbox.retry(true).await;
        outbox.settled().await;
        assert_eq!(outbox.number(REFUSED).await, 0, "{}", outbox.name());
        seen.reach(4).await;
        relay.stop().await;
    }
}

/// They have no column that says whether a refused row was pushed, and no salt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_an_earlier_form_are_brought_up_to_date() {
    for outbox in Outbox::all().await {
        let seen = Seen::default();
        let bus = bus("memory:", &seen).await;
        outbox
            .execute(
                "alter table duly_outbox_refused drop column repeated; \
                 alter table duly_outbox_deferred drop column anew; \
                 alter table duly_outbox drop column anew",
            )
            .await;
        let earlier = match outbox {
            Outbox::Postgres(_) => {
                "drop function duly_outbox_retry(bigint, boolean); \
                 create function duly_outbox_retry(row_number bigint) returns bigint \
                 language sql as 'select 0::bigint'"
            }
            Outbox::Sqlite(_) | Outbox::Mysql(_) => "drop table duly_outbox_salt",
        };
        outbox.execute(earlier).await;
        for _ in 0..2 {
            outbox.execute(outbox.schema()).await;
        }
        outbox.push_plain(1).await;
        outbox
            .execute("update duly_outbox set queue = 'no such name!'")
            .await;
        let relay = outbox.relay(&bus).await;
        outbox.until(REFUSED, 1).await;
        outbox
            .execute("update duly_outbox_refused set queue = 'orders'")
            .await;
        outbox.retry(false).await;
        seen.reach(1).await;
        relay.stop().await;
    }
}

/// Otherwise it would find nothing wrong, and no take would ever work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_names_the_columns_that_the_tables_lack() {
    for outbox in Outbox::all().await {
        let bus = bus("memory:", &Seen::default()).await;
        outbox
            .execute(
                "alter table duly_outbox_refused drop column repeated; \
                 alter table duly_outbox_deferred drop column anew; \
                 alter table duly_outbox drop column anew; \
                 alter table duly_done drop column lease",
            )
            .await;
        let error = outbox.start(&bus).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        let text = error.to_string();
        let lacks = match outbox {
            // A start adds the others: its SQL cannot.
            Outbox::Sqlite(_) => "the database has no duly_done.lease;",
            _ => {
                "no duly_outbox.anew, duly_outbox_deferred.anew, duly_outbox_refused.repeated, \
                 duly_done.lease;"
            }
        };
        assert!(
            text.contains(lacks) && text.contains("schema --database"),
            "{text}"
        );
    }
}
