//! The shop: sells, waits for payments, and closes unpaid orders.

use std::time::Duration;

use duly::prelude::*;
use tokio::time::sleep;

use crate::account::Sale;
use crate::orders::{Order, Trouble};

/// Closes an order that was not paid in time.
#[delay_event(
    queue = "order-close",
    workers = 32,
    timeout = "250ms",
    attempts = 3,
    backoff = "fixed(200ms)"
)]
pub(crate) async fn close_order(event: Event<Order>) -> Result<(), Failure> {
    match event.payload.trouble {
        Some(Trouble::WarehouseAway) if event.attempt() == 1 => {
            Err(Failure::retry("the warehouse does not answer"))
        }
        Some(Trouble::WarehouseHangs) if event.attempt() == 1 => {
            sleep(Duration::from_secs(3_600)).await; // dropped here, when the timeout is over
            Ok(())
        }
        Some(Trouble::OrderUnknown) => Err(Failure::permanent("the warehouse has no such order")),
        _ => Ok(()),
    }
}

/// Sells: the order will be closed after its delay, unless the payment takes that back in time.
pub(crate) async fn sell(queue: Queue<Order>, order: Order) -> duly::Result<Sale> {
    let (delay, paid) = (order.delay_ms, order.paid_after_ms);
    let cents = order.cents;
    let receipt = queue
        .event(order)
        .after(Duration::from_millis(delay))
        .push()
        .await?;
    let told = match paid {
        None => None,
        Some(paid) => {
            sleep(Duration::from_millis(paid)).await;
            Some(queue.cancel(receipt.id()).await?)
        }
    };
    Ok(Sale {
        receipt,
        cents,
        told,
    })
}
