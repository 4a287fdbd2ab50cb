use duly::{Event, delay_event};

#[delay_event(queue = "a")]
async fn error(_event: Event<u64>) -> Result<(), String> {
    Err("text is no error".to_owned())
}

#[delay_event(queue = "b")]
async fn number(_event: Event<u64>) -> u64 {
    _event.payload
}

fn main() {}
