use duly::{Context, Event, Failure, Handler, delay_event};

#[delay_event(queue = "a", crate = elsewhere)]
struct CloseOrder;

impl Handler for CloseOrder {
    type Payload = u64;

    async fn handle(&self, _event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
        Ok(())
    }
}

fn main() {}
