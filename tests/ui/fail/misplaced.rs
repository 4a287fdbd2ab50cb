use duly::delay_event;

#[delay_event(queue = "a")]
enum Enum {
    Variant,
}

struct Struct;

#[delay_event(queue = "a")]
impl Struct {}

#[delay_event(queue = "a")]
const CONST: u8 = 0;

#[delay_event(queue = "a")]
trait Trait {}

fn main() {}
