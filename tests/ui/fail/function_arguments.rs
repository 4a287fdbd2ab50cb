use duly::{Context, Event, Failure, State, delay_event};

#[delay_event(queue = "a")]
async fn arguments(
    _event: Event<u64>,
    _cx: &Context,
    _again: &Context,
    _moved: Context,
    _exclusive: &mut Context,
    _state: &State<u64>,
    _any: impl Send,
) -> Result<(), Failure> {
    Ok(())
}

fn main() {}
