//! Promise 3: a cancel tells the truth, and so do reschedule and update.

use duly::event::State as EventState;
use duly::prelude::*;
use duly::testing::Probe;

use crate::world::{Numbers, ORDERS, World, ms, secs};

over_every_store! {
    a_cancelled_event_never_starts,
    whatever_a_cancel_answers_is_so,
    what_was_read_ahead_is_too_late,
    too_late_names_the_state_that_was_reached,
    an_event_that_failed_and_waits_can_be_cancelled,
    an_unknown_event_is_not_found,
    a_rescheduled_event_starts_at_its_new_time,
    an_updated_event_has_its_new_payload,
    reschedule_and_update_are_too_late_for_what_runs,
}

async fn a_cancelled_event_never_starts(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let id = queue.push(1_u64, secs(60)).await.unwrap().id();
    assert_eq!(queue.cancel(id).await.unwrap(), CancelOutcome::Cancelled);
    assert_eq!(queue.cancel(id).await.unwrap(), CancelOutcome::Cancelled);
    bus.advance(secs(3_600)).await;
    assert_eq!(probe.count(), 0);
    let outcomes = bus.outcomes(id).await.unwrap();
    assert_eq!(outcomes, [Outcome::Cancelled]);
}

/// At any moment around the due time, `Cancelled` means never and `TooLate` means it starts.
async fn whatever_a_cancel_answers_is_so(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS.workers(2), &probe).await;
    let mut numbers = Numbers(3);
    let (mut cancelled, mut late) = (Vec::new(), Vec::new());
    for _ in 0..400 {
        let delay = ms(numbers.below(300));
        let id = queue.push(1_u64, delay).await.unwrap().id();
        bus.advance(ms(numbers.below(300))).await;
        match queue.cancel(id).await.unwrap() {
            CancelOutcome::Cancelled => cancelled.push(id),
            CancelOutcome::TooLate(_) => late.push(id),
            other => panic!("{other:?}"),
        }
    }
    bus.advance(secs(10)).await;

    assert!(cancelled.len() > 20 && late.len() > 20);
    let started = probe.attempts();
    assert!(cancelled.iter().all(|id| !started.contains(&(*id, 1))));
    assert!(late.iter().all(|id| started.contains(&(*id, 1))));
    assert_eq!(started.len(), late.len());
}

async fn what_was_read_ahead_is_too_late(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let id = queue.push(1_u64, secs(60)).await.unwrap().id();
    bus.advance(secs(60) - ms(10)).await;
    let answer = queue.cancel(id).await.unwrap();
    assert_eq!(answer, CancelOutcome::TooLate(EventState::Leased));
    bus.advance(secs(1)).await;
    assert_eq!(probe.times(), [secs(60)]);
}

async fn too_late_names_the_state_that_was_reached(world: World) {
    let probe = Probe::running(|event: Event<u64>, _cx| async move {
        tokio::time::sleep(secs(event.payload)).await;
        match event.payload {
            2 => Err(Failure::permanent("no")),
            _ => Ok(()),
        }
    });
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let running = queue.push(20, When::Now).await.unwrap().id();
    let dead = queue.push(2, When::Now).await.unwrap().id();
    let done = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(5)).await;

    for (id, state) in [
        (running, EventState::Leased),
        (dead, EventState::Dead),
        (done, EventState::Done),
    ] {
        let answer = queue.cancel(id).await.unwrap();
        assert_eq!(answer, CancelOutcome::TooLate(state));
    }
}

async fn an_event_that_failed_and_waits_can_be_cancelled(world: World) {
    let probe = Probe::<u64>::answering(|_event, _cx| Err(Failure::retry("no")));
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(ms(500)).await;
    assert_eq!(queue.cancel(id).await.unwrap(), CancelOutcome::Cancelled);
    bus.advance(secs(60)).await;
    assert_eq!(probe.count(), 1);
    let outcomes = bus.outcomes(id).await.unwrap();
    assert_eq!(outcomes, [Outcome::Retried, Outcome::Cancelled]);
}

async fn an_unknown_event_is_not_found(world: World) {
    let (_bus, queue) = world.push_only("orders").await;
    let id = queue.new_id();
    assert_eq!(queue.cancel(id).await.unwrap(), CancelOutcome::NotFound);
    let moved = queue.reschedule(id, secs(1)).await.unwrap();
    assert_eq!(moved, ChangeOutcome::NotFound);
    assert_eq!(
        queue.update(id, &1_u64).await.unwrap(),
        ChangeOutcome::NotFound
    );
    assert_eq!(queue.get(id).await.unwrap(), None);
}

async fn a_rescheduled_event_starts_at_its_new_time(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let sooner = queue.push(1_u64, secs(60)).await.unwrap().id();
    let later = queue.push(2, secs(10)).await.unwrap().id();
    let changed = queue.reschedule(sooner, secs(5)).await.unwrap();
    assert_eq!(changed, ChangeOutcome::Changed(bus.now() + secs(5)));
    let _ = queue.reschedule(later, secs(3_600)).await.unwrap();

    bus.advance(secs(7_200)).await;

    assert_eq!(probe.attempts(), [(sooner, 1), (later, 1)]);
    assert_eq!(probe.times(), [secs(5), secs(3_600)]);
}

async fn an_updated_event_has_its_new_payload(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let id = queue.push(1_u64, secs(60)).await.unwrap().id();
    let changed = queue.update(id, &2).await.unwrap();
    assert_eq!(changed, ChangeOutcome::Changed(bus.now() + secs(60)));
    bus.advance(secs(60)).await;
    assert_eq!(probe.payloads(), [2]);
}

async fn reschedule_and_update_are_too_late_for_what_runs(world: World) {
    let probe = Probe::taking(secs(5));
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let id = queue.push(1_u64, When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    let moved = queue.reschedule(id, secs(1)).await.unwrap();
    assert_eq!(moved, ChangeOutcome::TooLate(EventState::Leased));
    let updated = queue.update(id, &2).await.unwrap();
    assert_eq!(updated, ChangeOutcome::TooLate(EventState::Leased));
    bus.advance(secs(60)).await;
    assert_eq!(probe.payloads(), [1]);
}
