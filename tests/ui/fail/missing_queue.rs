use duly::delay_event;

#[delay_event]
struct Silent;

#[delay_event()]
struct Empty;

#[delay_event(workers = 4)]
struct Workers;

fn main() {}
