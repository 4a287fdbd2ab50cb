use duly::delay_event;

#[delay_event(queue = "a", workers = 4, queue = "b", blocking, blocking)]
struct Twice;

fn main() {}
