//! The target `payload` of `tests/hostile/targets.rs`, for cargo-fuzz.

#![no_main]

#[path = "../../tests/hostile/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::payload(data));
