//! How is a delay of half an hour, or of thirty days, tested?
//!
//! In a project of your own this is `tests/close_order.rs`, with `#[tokio::test(start_paused = true)]`
//! on each test, and `duly = { version = "..", features = ["testing"] }` in `[dev-dependencies]`.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use duly::State;
use duly::prelude::*;
use duly::testing::TestBus;

const MINUTE: Duration = Duration::from_secs(60);

/// A bank that is away for the first few calls.
struct Bank {
    refusals: AtomicU32,
}

#[delay_event(
    queue = "order-close",
    attempts = 5,
    backoff = "exp(1m..1h)",
    register = false
)]
async fn close(_order: Event<u64>, State(bank): State<Bank>) -> Result<(), Failure> {
    let refused = bank
        .refusals
        .fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
    match refused {
        Ok(_) => Err(Failure::retry("the bank is away")),
        Err(_) => Ok(()),
    }
}

async fn bus(refusals: u32) -> duly::Result<TestBus> {
    let refusals = AtomicU32::new(refusals);
    TestBus::start(Bus::builder().state(Bank { refusals }).register(close {})).await
}

async fn an_order_is_closed_half_an_hour_later_and_not_before() -> duly::Result<()> {
    let bus = bus(0).await?;
    let sent = bus.queue::<close>().push(7, 30 * MINUTE).await?;
    bus.advance(30 * MINUTE - Duration::from_millis(1)).await;
    assert!(bus.outcomes(sent.id()).await?.is_empty());
    bus.advance(Duration::from_millis(1)).await;
    assert_eq!(bus.outcomes(sent.id()).await?, [Outcome::Acked]);
    Ok(())
}

async fn while_the_bank_is_away_it_is_tried_again_ever_more_seldom() -> duly::Result<()> {
    let bus = bus(3).await?;
    let sent = bus.queue::<close>().push(7, 30 * MINUTE).await?;
    bus.advance(Duration::from_secs(30 * 86_400)).await;
    let minutes = [30, 31, 33, 37].map(|minutes| minutes * MINUTE);
    assert_eq!(bus.starts(sent.id()).await?, minutes);
    Ok(())
}

async fn a_paid_order_is_not_closed() -> duly::Result<()> {
    let bus = bus(0).await?;
    let queue = bus.queue::<close>();
    let sent = queue.push(7, 30 * MINUTE).await?;
    bus.advance(29 * MINUTE).await;
    assert_eq!(queue.cancel(sent.id()).await?, CancelOutcome::Cancelled);
    assert_eq!(bus.run_until_idle(MINUTE).await?, Duration::ZERO);
    Ok(())
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> duly::Result<()> {
    an_order_is_closed_half_an_hour_later_and_not_before().await?;
    while_the_bank_is_away_it_is_tried_again_ever_more_seldom().await?;
    a_paid_order_is_not_closed().await
}
