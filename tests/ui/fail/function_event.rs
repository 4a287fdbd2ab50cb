use duly::{Context, Event, Failure, delay_event};

#[delay_event(queue = "a")]
async fn nothing() -> Result<(), Failure> {
    Ok(())
}

#[delay_event(queue = "a")]
async fn payload(_order: u64) -> Result<(), Failure> {
    Ok(())
}

#[delay_event(queue = "a")]
async fn context_first(_cx: &Context, _event: Event<u64>) -> Result<(), Failure> {
    Ok(())
}

#[delay_event(queue = "a", blocking)]
fn blocking(_order: u64) -> Result<(), Failure> {
    Ok(())
}

#[delay_event(queue = "a")]
async fn unnamed(_event: Event<impl Sized>) -> Result<(), Failure> {
    Ok(())
}

fn main() {}
