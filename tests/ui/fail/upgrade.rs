use duly::OldPayload;
use duly::{Event, Failure, delay_event};

fn of_bytes(_old: &[u8]) -> Result<u64, Failure> {
    Ok(1)
}

#[delay_event(queue = "takes-something-else", version = 1, upgrade = of_bytes)]
async fn takes_something_else(_event: Event<u64>) -> Result<(), Failure> {
    Ok(())
}

fn of_another(_old: OldPayload<'_>) -> Result<String, Failure> {
    Ok(String::new())
}

#[delay_event(queue = "another-payload", version = 1, upgrade = of_another)]
async fn another_payload(_event: Event<u64>) -> Result<(), Failure> {
    Ok(())
}

fn in_text(_old: OldPayload<'_>) -> Result<u64, u8> {
    Err(7)
}

#[delay_event(queue = "text", version = 1, upgrade = in_text)]
async fn text(_event: Event<u64>) -> Result<(), Failure> {
    Ok(())
}

fn bare(_old: OldPayload<'_>) -> u64 {
    1
}

#[delay_event(queue = "bare", version = 1, upgrade = bare)]
async fn no_result(_event: Event<u64>) -> Result<(), Failure> {
    Ok(())
}

#[delay_event(queue = "not-there", version = 1, upgrade = not_there)]
async fn lost(_event: Event<u64>) -> Result<(), Failure> {
    Ok(())
}

fn main() {}
