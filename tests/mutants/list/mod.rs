//! The mutants, a file for each promise that they break, and one for users' code.

mod accepted;
mod apart;
mod attempts;
mod cancel;
mod coming;
mod controls;
mod dead_letters;
mod doubt;
mod doubt_of_files;
mod explained;
mod full;
mod ids;
mod journal;
mod lost_workers;
mod metrics;
mod names;
mod never_early;
mod payloads;
mod pulled;
mod punctual;
mod recorder;
mod records;
mod redis_ways;
mod served;
mod stopping;
mod traced;
mod users_code;

use crate::mutant::{Edit, Mutant, Test};

/// All of them, in the order of the promises.
pub(crate) fn all() -> impl Iterator<Item = &'static Mutant> {
    let of_each = [
        accepted::MUTANTS,
        never_early::MUTANTS,
        cancel::MUTANTS,
        attempts::MUTANTS,
        records::MUTANTS,
        recorder::MUTANTS,
        journal::MUTANTS,
        full::MUTANTS,
        apart::MUTANTS,
        stopping::MUTANTS,
        lost_workers::MUTANTS,
        ids::MUTANTS,
        names::MUTANTS,
        doubt::MUTANTS,
        doubt_of_files::MUTANTS,
        pulled::MUTANTS,
        punctual::MUTANTS,
        redis_ways::MUTANTS,
        controls::MUTANTS,
        dead_letters::MUTANTS,
        explained::MUTANTS,
        payloads::MUTANTS,
        traced::MUTANTS,
        metrics::MUTANTS,
        coming::MUTANTS,
        users_code::MUTANTS,
        served::MUTANTS,
    ];
    of_each.into_iter().flatten()
}

const fn edit(file: &'static str, find: &'static str, put: &'static str) -> Edit {
    Edit { file, find, put }
}

const fn contract(name: &'static str) -> Test {
    test("store_contract", name)
}

const fn delivery(name: &'static str) -> Test {
    test("delivery", name)
}

const fn test(target: &'static str, name: &'static str) -> Test {
    Test { target, name }
}
