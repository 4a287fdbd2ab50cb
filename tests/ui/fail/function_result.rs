use duly::{Event, delay_event};

#[delay_event(queue = "a")]
async fn error(_event: Event<u64>) -> Result<(), u8> {
    Err(7)
}

#[delay_event(queue = "b")]
async fn number(_event: Event<u64>) -> u64 {
    _event.payload
}

fn main() {}
