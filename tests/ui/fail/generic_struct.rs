use duly::delay_event;

#[delay_event(queue = "a")]
struct Generic<T>(T);

fn main() {}
