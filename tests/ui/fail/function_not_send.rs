use std::{future, rc::Rc};

use duly::{Event, Failure, delay_event};

#[delay_event(queue = "a")]
async fn close(_event: Event<u64>) -> Result<(), Failure> {
    let order = Rc::new(_event.payload);
    future::ready(()).await;
    drop(order);
    Ok(())
}

fn main() {}
