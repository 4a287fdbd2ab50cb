//! What the compiler warns of in a function, it warns of in a handler function.

#![deny(warnings)]

use duly::{Event, Failure, delay_event};

#[delay_event(queue = "a")]
async fn close(event: Event<u64>) -> Result<(), Failure> {
    Ok(())
}

fn main() {}
