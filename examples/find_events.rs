//! Which events wait for a customer, and how are they found, changed or cancelled?

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::time::Duration;

use duly::event::State as EventState;
use duly::prelude::*;

const DAY: Duration = Duration::from_secs(86_400);

#[tokio::main]
async fn main() -> duly::Result<()> {
    let bus = Bus::builder()
        .store_url("memory:")
        .publish_only()
        .start()
        .await?;
    let mails = bus.queue_named::<String>("mail")?;
    for (number, days) in [1, 3, 7].into_iter().enumerate() {
        let mail = mails.event(format!("reminder {number} for ann"));
        mail.after(DAY * days).key("ann").push().await?;
    }
    let welcome = mails.event("welcome, bob".to_owned()).after(DAY).key("bob");
    let welcome = welcome.unique("welcome:bob", Unique::Keep).push().await?;

    println!("what waits for ann, before anything was tried:");
    let page = bus.events().queue("mail").key("ann").page().await?;
    for event in &page.items {
        println!(
            "  {} due {}: {}",
            event.id,
            event.due,
            event.payload_as::<String>()?
        );
    }
    assert_eq!(page.items.len(), 3);

    println!("one event, by its id alone, whatever queue it is in:");
    let event = bus.event(welcome.id()).await?.expect("it waits");
    println!(
        "  {} of queue {}, attempt {} of {:?}",
        event.state,
        event.queue,
        event.tries + 1,
        event.tries_max
    );
    assert_eq!(
        (event.queue.as_str(), event.key.as_deref()),
        ("mail", Some("bob"))
    );

    // By its unique key there is one at most.
    let moved = mails
        .events()
        .unique("welcome:bob")
        .reschedule(DAY * 2)
        .await?;
    assert!(matches!(moved[..], [(id, ChangeOutcome::Changed(_))] if id == welcome.id()));

    println!("ann has left: what waits for her is taken back");
    let cancelled = mails.cancel_by_key("ann").await?;
    assert_eq!(cancelled.len(), 3);
    assert!(
        cancelled
            .iter()
            .all(|(_, it)| *it == CancelOutcome::Cancelled)
    );

    println!("all that is scheduled, page by page:");
    let (mut place, mut left) = (None, 0);
    loop {
        let scheduled = bus.events().state(EventState::Scheduled).after(place);
        let page = scheduled.page().await?;
        left += page.items.len();
        place = page.next;
        if place.is_none() {
            break;
        }
    }
    println!("  {left}");
    assert_eq!(left, 1);
    bus.shutdown(Duration::from_secs(1)).await
}
