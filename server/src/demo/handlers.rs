//! The handlers of the made-up shop: how long each takes, and when it fails.

use std::time::Duration;

use duly::BusBuilder;
use duly::prelude::*;

/// An order of a customer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) order: u64,
    pub(super) customer: String,
    pub(super) total_cents: u64,
}

/// Registers the handler of each queue.
pub(super) fn register(bus: BusBuilder) -> BusBuilder {
    bus.only_registered()
        .register(confirm {})
        .register(invoice {})
        .register(capture {})
        .register(newsletter {})
        .register(remind {})
        .register(renew {})
        .register(sync {})
}

async fn work(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

#[delay_event(queue = "shop.order-confirmations", workers = 8, register = false)]
async fn confirm(event: Event<Order>) -> Result<(), Failure> {
    work(20 + event.payload.order % 40).await;
    Ok(())
}

/// It renders for most of a second, and there is one of it.
#[delay_event(queue = "shop.invoices", workers = 1, ring = 64, register = false)]
async fn invoice(event: Event<Order>) -> Result<(), Failure> {
    work(800 + event.payload.order % 200).await;
    Ok(())
}

#[delay_event(
    queue = "shop.payments",
    workers = 4,
    attempts = 3,
    backoff = "fixed(3s)",
    register = false
)]
async fn capture(event: Event<Order>) -> Result<(), Failure> {
    work(60).await;
    let order = event.payload.order;
    if order.is_multiple_of(9) {
        return Err(Failure::permanent("card declined: insufficient funds"));
    }
    if order.is_multiple_of(5) && event.attempt() == 1 {
        return Err(Failure::retry("payment gateway: 503 service unavailable"));
    }
    Ok(())
}

#[delay_event(queue = "shop.newsletter", workers = 4, register = false)]
async fn newsletter(_event: Event<Order>) -> Result<(), Failure> {
    work(15).await;
    Ok(())
}

#[delay_event(queue = "shop.cart-reminders", workers = 4, register = false)]
async fn remind(_event: Event<Order>) -> Result<(), Failure> {
    work(25).await;
    Ok(())
}

#[delay_event(queue = "shop.renewals", workers = 2, register = false)]
async fn renew(_event: Event<Order>) -> Result<(), Failure> {
    work(50).await;
    Ok(())
}

#[delay_event(queue = "shop.stock-sync", workers = 2, register = false)]
async fn sync(_event: Event<Order>) -> Result<(), Failure> {
    work(40).await;
    Ok(())
}
