use duly::{Event, delay_event};

#[delay_event(quue = "order-close", workers = 0, timeout = "30")]
fn close<T>(_order: Event<u64>, _db: u64) {}

fn main() {}
