//! The connection ends between a command and its answer, hangs, or comes and goes.

use std::time::{Duration, Instant};

use crate::nodes::{Memory, Site};
use crate::redis_faults::scripts::Call;
use crate::redis_faults::{busy, finish, let_it_run, server, wait_for_each, wait_for_more};
use crate::servers::{Fault, Proxy};

/// Cuts connections at calls of one script, before and after it and within its answer in turn.
#[allow(clippy::disallowed_methods)] // real time: this is about real processes
fn cut_at(script: &str) {
    const EVERY: Duration = Duration::from_millis(120);
    let redis = server();
    let proxy = Proxy::before(redis.address());
    let site = Site::new(redis.url());
    let nodes: Vec<_> = (1..=2)
        .map(|seed| site.spawn_at(&proxy.url(), &busy(seed)))
        .collect();
    wait_for_each(&site, &nodes);
    let call = Call::of(script);
    let mut faults = [Fault::CutBefore, Fault::CutAfter, Fault::CutWithin]
        .into_iter()
        .cycle();
    let mut last = Instant::now();
    proxy.on_request(move |bytes| {
        if last.elapsed() < EVERY || !call.is_in(bytes) {
            return None;
        }
        last = Instant::now();
        faults.next()
    });
    let_it_run(Duration::from_secs(2));
    proxy.heal();
    wait_for_more(&site);
    let cuts = proxy.counts().cuts;
    println!("{script}: {:?}", proxy.counts());
    assert!(cuts >= 6, "only {cuts} connections were cut");
    let case = format!("cut at {script}");
    finish(&case, &site, nodes, 0, Memory::Keeps);
}

#[test]
fn a_connection_cut_at_a_push_loses_nothing() {
    cut_at("push");
}

#[test]
fn a_connection_cut_at_a_fetch_loses_nothing() {
    cut_at("fetch");
}

#[test]
fn a_connection_cut_at_a_settle_loses_nothing() {
    cut_at("settle");
}

#[test]
fn a_connection_that_hangs_or_comes_and_goes_loses_nothing() {
    let redis = server();
    let proxy = Proxy::before(redis.address());
    let site = Site::new(redis.url());
    let url = format!("{}?timeout=1s&connect_timeout=1s", proxy.url());
    let nodes: Vec<_> = (1..=2)
        .map(|seed| site.spawn_at(&url, &busy(seed)))
        .collect();
    wait_for_each(&site, &nodes);
    proxy.flap(4, Duration::from_millis(60), Duration::from_millis(200));
    wait_for_more(&site);
    let mut random = fastrand::Rng::with_seed(1);
    proxy.on_request(move |_| match random.u8(..100) {
        0 => Some(Fault::Hang),
        1..10 => Some(Fault::Delay(Duration::from_millis(20))),
        _ => None,
    });
    let_it_run(Duration::from_secs(2));
    proxy.heal();
    wait_for_more(&site);
    println!("hang and flap: {:?}", proxy.counts());
    finish("hang and flap", &site, nodes, 0, Memory::Keeps);
}
