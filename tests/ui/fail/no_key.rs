use duly::delay_event;

#[delay_event("order-close")]
struct NoKey;

fn main() {}
