//! The target `redis_answer` of `tests/hostile/targets`, for cargo-fuzz.

#![no_main]

#[path = "../../tests/hostile/targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::redis_answer(data));
