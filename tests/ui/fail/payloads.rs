use duly::OldPayload;
use duly::{Event, Failure, delay_event};

fn older(_old: OldPayload<'_>) -> Result<u64, Failure> {
    Ok(1)
}

#[delay_event(queue = "no-version", upgrade = older)]
async fn no_version(_event: Event<u64>) -> Result<(), Failure> {
    Ok(())
}

#[delay_event(queue = "version-0", version = 0, upgrade = older)]
async fn version_0(_event: Event<u64>) -> Result<(), Failure> {
    Ok(())
}

#[delay_event(queue = "a-text", version = 1, upgrade = "older")]
async fn a_text(_event: Event<u64>) -> Result<(), Failure> {
    Ok(())
}

#[delay_event(queue = "codec", codec = "bincode")]
async fn codec(_event: Event<u64>) -> Result<(), Failure> {
    Ok(())
}

#[delay_event(queue = "encrypt", encrypt = "yes")]
async fn encrypt(_event: Event<u64>) -> Result<(), Failure> {
    Ok(())
}

fn main() {}
