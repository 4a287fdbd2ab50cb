use duly::delay_event;

#[delay_event(
    queue = order,
    buckets = "8",
    workers = -1,
    timeout = 30s,
    attempts = 3.5,
    backoff = true,
    late = "never",
    spread = 10,
    ring("1024"),
    linger,
    dedicated = "alone",
    version = 1u8,
    keep_payload = 1,
    blocking = true,
    state = Db,
    register = "false",
    crate = "duly",
)]
struct Wrong;

#[delay_event(queue = "a", state())]
struct NoState;

fn main() {}
