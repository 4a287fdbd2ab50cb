//! Tests of payloads: codec, encryption and version.

#![allow(clippy::unwrap_used)] // these are tests, though the macro that names them hides it
#![allow(clippy::print_stdout)] // they tell which seed to run again
#![allow(clippy::use_self)] // types that hold themselves, as a user writes them

mod check;
mod codecs;
mod encrypted;
mod frame;
mod leased;
mod make;
mod ring;
mod rotation;
mod round_trips;
mod shapes;
mod versions;

use duly::dead_letters::DeadLetter;
use duly::event::Payload;
use duly::prelude::*;

/// What is stored of an event.
async fn stored<T: Serialize + Send + Sync + 'static>(queue: &Queue<T>, id: EventId) -> Payload {
    let found = queue.get(id).await.unwrap().unwrap();
    found.body.unwrap().payload.clone()
}

/// An event as a dead letter.
async fn letter(bus: &Bus, id: EventId) -> DeadLetter {
    let page = bus.dead_letters().ids([id]).page().await.unwrap();
    page.items.into_iter().next().expect("it is dead")
}
