use duly::delay_event;

#[delay_event(queue = "a", retries = 3, delay::max = "1s", Timeout = "30s")]
struct Unknown;

fn main() {}
