//! Hostile input: no external bytes cause a panic or exhaust memory.
//!
//! `targets` has a function for each place where bytes or text enter the library; `corpus` keeps
//! inputs for each of them, valid and hostile ones. Every input is replayed, and then mutated at
//! random: `DULY_FUZZ_CASES` sets the number for each target, `DULY_FUZZ_SEED` the mutations. An
//! input that fails is minimised and written into `corpus`, where every later run replays it.
//!
//! `fuzz` has the same targets for cargo-fuzz.

#![allow(clippy::unwrap_used)] // these are tests, though the macro that names them hides it

mod driver;
mod mutate;
mod structured;
mod targets;
mod through_the_bus;

/// Makes a test of each target.
macro_rules! targets {
    ($($target:ident),+ $(,)?) => {
        $(#[test]
        fn $target() {
            driver::run(stringify!($target), targets::$target);
        })+

        const TARGETS: &[&str] = &[$(stringify!($target)),+];
    };
}

targets! {
    envelope,
    event_id,
    queue_name,
    duration,
    backoff,
    words,
    json,
    settings_toml,
    environment,
    store_url,
    redis_body,
    redis_answer,
    redis_outbox,
    redis_news,
    embedded_rows,
    embedded_note,
    history,
    payload,
}

#[test]
fn every_target_is_run_here_and_by_cargo_fuzz_and_has_a_corpus() {
    let sources = driver::sources("tests/hostile/targets");
    let functions = sources.iter().flat_map(|source| {
        source.lines().filter_map(|line| {
            let name = line.strip_prefix("pub(crate) fn ")?;
            name.strip_suffix("(data: &[u8]) {")
        })
    });
    let mut functions: Vec<_> = functions.collect();
    let mut targets = TARGETS.to_vec();
    functions.sort_unstable();
    targets.sort_unstable();
    assert_eq!(functions, targets);
    for (folder, extension) in [("tests/hostile/corpus", ""), ("fuzz/targets", ".rs")] {
        let mut found = driver::names(folder);
        found.sort_unstable();
        let wanted = targets.iter().map(|target| format!("{target}{extension}"));
        assert_eq!(found, wanted.collect::<Vec<_>>(), "{folder}");
    }
}
