//! The target `payload` of `tests/hostile/targets`, for cargo-fuzz.

#![no_main]

#[path = "../../tests/hostile/targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::payload(data));
