use duly::delay_event;

#[delay_event(queue = "a", timeout = "30", linger = "-5us")]
struct Unit;

#[delay_event(queue = "a", timeout = "30 s", linger = "0.5ns")]
struct Space;

#[delay_event(queue = "a", timeout = "30sec", linger = "1s1m")]
struct Order;

fn main() {}
