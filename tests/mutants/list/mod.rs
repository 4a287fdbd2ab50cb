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
mod in_transaction;
mod journal;
mod lost_workers;
mod metrics;
mod names;
mod never_early;
mod occurrences;
mod payloads;
mod permitted;
mod pulled;
mod punctual;
mod recorder;
mod records;
mod redis_ways;
mod served;
mod stopping;
mod traced;
mod users_code;

use crate::mutant::{Mutant, Test};
use crate::plant::{Change, Edit};

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
        in_transaction::MUTANTS,
        served::MUTANTS,
        permitted::MUTANTS,
        occurrences::MUTANTS,
    ];
    of_each.into_iter().flatten()
}

pub(crate) const fn put(at: &'static str, of: &'static str, put: &'static str) -> Edit {
    edit(at, Change::Put(of, put))
}

pub(crate) const fn put_in_text(at: &'static str, of: &'static str, put: &'static str) -> Edit {
    edit(at, Change::PutInText(of, put))
}

pub(crate) const fn drop(at: &'static str, of: &'static str) -> Edit {
    edit(at, Change::Drop(of))
}

pub(crate) const fn drop_element(at: &'static str, of: &'static str) -> Edit {
    edit(at, Change::DropElement(of))
}

pub(crate) const fn never(at: &'static str, of: &'static str) -> Edit {
    edit(at, Change::Never(of))
}

pub(crate) const fn always(at: &'static str, of: &'static str) -> Edit {
    edit(at, Change::Always(of))
}

pub(crate) const fn negate(at: &'static str, of: &'static str) -> Edit {
    edit(at, Change::Negate(of))
}

pub(crate) const fn later(at: &'static str, first: &'static str, second: &'static str) -> Edit {
    edit(at, Change::Later(first, second))
}

pub(crate) const fn earlier(at: &'static str, first: &'static str, second: &'static str) -> Edit {
    edit(at, Change::Earlier(first, second))
}

const fn edit(at: &'static str, change: Change) -> Edit {
    Edit { at, change }
}

/// The tests of a target, by its name.
macro_rules! targets {
    ($($target:ident)+) => {
        $(const fn $target(name: &'static str) -> Test {
            Test { target: stringify!($target), name }
        })+
    };
}

targets! {
    coming crash dashboards dead_letters delivery embedded explain journal lib loom metrics names
    outages outbox pages payloads power records redis_faults redis_store schedule server simulation store_contract
    syscalls traces
}
