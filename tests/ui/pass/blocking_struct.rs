//! A struct whose handler blocks.

use duly::{BlockingHandler, Context, Event, Failure, delay_event};

#[delay_event(queue = "report", blocking, dedicated = false)]
struct Report;

impl BlockingHandler for Report {
    type Payload = String;

    fn handle(&self, _event: Event<String>, _cx: &Context) -> Result<(), Failure> {
        Ok(())
    }
}

fn main() {}
