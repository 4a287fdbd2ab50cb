//! The crate under another name, with nothing of the standard prelude where the handlers stand.

#![no_implicit_prelude]

extern crate duly as bus;
extern crate std;

mod facade {
    pub use ::bus::*;
}

#[facade::delay_event(queue = "struct", crate = crate::facade, state(std::string::String))]
struct Struct;

impl facade::Handler for Struct {
    type Payload = u64;

    async fn handle(
        &self,
        _event: facade::Event<u64>,
        _cx: &facade::Context,
    ) -> std::result::Result<(), facade::Failure> {
        std::result::Result::Ok(())
    }
}

#[bus::delay_event(queue = "function", backoff = "linear(1s..1m, jitter 5%)", crate = bus)]
async fn function(
    _event: bus::Event<u64>,
    _text: bus::State<std::string::String>,
) -> std::result::Result<(), bus::Failure> {
    std::result::Result::Ok(())
}

fn main() {}
