use duly::{Event, Failure, delay_event};

struct State<T>(T);

#[delay_event(queue = "a")]
async fn close(_event: Event<u64>, _db: State<u64>) -> Result<(), Failure> {
    Ok(())
}

fn main() {}
