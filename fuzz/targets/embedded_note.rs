//! The target `embedded_note` of `tests/hostile/targets.rs`, for cargo-fuzz.

#![no_main]

#[path = "../../tests/hostile/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::embedded_note(data));
