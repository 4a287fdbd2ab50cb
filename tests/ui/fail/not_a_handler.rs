use duly::{Context, Event, Failure, Handler, delay_event};

#[delay_event(queue = "a")]
struct Neither;

#[delay_event(queue = "b", blocking)]
struct OnlyAsync;

impl Handler for OnlyAsync {
    type Payload = u64;

    async fn handle(&self, _event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
        Ok(())
    }
}

fn main() {}
