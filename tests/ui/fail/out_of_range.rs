use duly::delay_event;

#[delay_event(
    queue = "low",
    buckets = 0,
    workers = 0,
    attempts = 0,
    ring = 1000,
    timeout = "0s",
    rate = "0/s",
)]
struct Low;

#[delay_event(
    queue = "high",
    buckets = 1025,
    workers = 65_537,
    attempts = 1001,
    ring = 131072,
    timeout = "7d1ns",
    rate = "1000001/s",
    version = 4294967296,
)]
struct High;

fn main() {}
