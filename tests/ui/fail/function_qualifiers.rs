use duly::{Event, Failure, delay_event};

#[delay_event(queue = "a")]
fn waits(_event: Event<u64>) -> Result<(), Failure> {
    Ok(())
}

#[delay_event(queue = "a", blocking)]
async fn blocks(_event: Event<u64>) -> Result<(), Failure> {
    Ok(())
}

#[delay_event(queue = "a")]
async unsafe extern "C" fn qualified<T>(_event: Event<T>) -> Result<(), Failure> {
    Ok(())
}

#[delay_event(queue = "a", blocking)]
const fn constant(_event: Event<u64>) -> Result<(), Failure> {
    Ok(())
}

#[delay_event(queue = "a")]
async fn silent(_event: Event<u64>) {}

struct Orders;

impl Orders {
    #[delay_event(queue = "a")]
    async fn method(&self, _event: Event<u64>) -> Result<(), Failure> {
        Ok(())
    }
}

fn main() {}
