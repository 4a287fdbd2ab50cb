use duly::delay_event;

#[delay_event(queue = "a", backoff = "exponential(1s..10m)")]
struct Unknown;

#[delay_event(queue = "a", backoff = "exp(10m..1s)")]
struct Backwards;

#[delay_event(queue = "a", backoff = "linear(1s)")]
struct NoRange;

#[delay_event(queue = "a", backoff = "fixed(5)")]
struct NoUnit;

#[delay_event(queue = "a", backoff = "exp(1s..10m, jitter 120%)")]
struct Jitter;

#[delay_event(queue = "a", backoff = 5)]
struct NeitherTextNorFunction;

#[delay_event(queue = "a", rate = "50")]
struct NoUnitOfRate;

#[delay_event(queue = "a", rate = 50)]
struct RateIsNoText;

fn main() {}
