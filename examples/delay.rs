//! How is an event delayed, and how is it rescheduled, updated or cancelled while it waits?

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::time::Duration;

use duly::State;
use duly::prelude::*;
use tokio::sync::mpsc;

struct Told(mpsc::Sender<(String, Duration)>);

#[delay_event(queue = "remind")]
async fn remind(event: Event<String>, State(told): State<Told>) -> Result<(), Failure> {
    let late = event.lateness();
    told.0.send((event.payload, late)).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> duly::Result<()> {
    let (told, mut heard) = mpsc::channel(16);
    let bus = Bus::builder()
        .store_url("memory:")
        .state(Told(told))
        .start()
        .await?;
    let queue = bus.queue::<remind>();
    let (ms, hour) = (Duration::from_millis, Duration::from_secs(3_600));

    let tea = queue.push("the tea is ready".into(), ms(400)).await?;
    let train = queue.push("the train leaves".into(), hour).await?;
    let call = queue.push("call grandmother".into(), ms(800)).await?;
    let visit = queue.push("see the dentist".into(), hour).await?;

    // The train is early; grandmother has a birthday; the dentist is on holiday.
    let moved = queue.reschedule(train.id(), ms(600)).await?;
    let changed = queue
        .update(call.id(), &"congratulate grandmother".into())
        .await?;
    let taken_back = queue.cancel(visit.id()).await?;
    assert!(matches!(moved, ChangeOutcome::Changed(due) if due < train.due()));
    assert_eq!(changed, ChangeOutcome::Changed(call.due()));
    assert_eq!(taken_back, CancelOutcome::Cancelled); // which means that no handler will start

    for expected in [
        "the tea is ready",
        "the train leaves",
        "congratulate grandmother",
    ] {
        let (words, late) = heard.recv().await.expect("the bus holds the other end");
        println!("{words}, {} us after it was due", late.as_micros());
        assert_eq!(words, expected);
    }

    // The tea has been drunk: the store says so, instead of pretending.
    let too_late = queue.cancel(tea.id()).await?;
    println!("to take the tea back: {too_late:?}");
    assert!(matches!(too_late, CancelOutcome::TooLate(_)));
    bus.shutdown(Duration::from_secs(1)).await
}
