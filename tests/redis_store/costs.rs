//! What a load costs its server and leaves behind, whatever its shape and whatever becomes of its
//! events: not much more than as many plain ones that are handled.
//!
//! `DULY_COSTS=all` takes every shape with every fate, and not only some.

#![allow(clippy::print_stdout)] // figures that are not printed show nothing

mod load;

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use duly::store::operation::{AttemptOutcome, NewEvent, StoreOp};
use duly::store::{Outbox, Store};
use duly::time::Timestamp;
use duly_conformance::store_contract::shapes::{Dues, Own, Shape};

use self::load::{FATES, Fate, Load};
use crate::redis_store::kit::{Bare, fresh};
use crate::redis_store::meter::processor_us;
use crate::servers::{Aof, Redis, RedisOptions};

const COUNT: usize = 512;
/// When those events expire of which this is the fate.
const EXPIRES: Duration = Duration::from_secs(2);
/// So many pairs of a shape and a fate are taken at random.
const SOME: usize = 20;
/// How many times as much plain events cost that are not only handled; what each does by itself is a
/// call of its own.
const OF_A_FATE: Times = Times {
    bytes: 4.0,
    us: 16.0,
};
/// How many times as much events of a shape cost as plain ones with the same fate.
const OF_A_SHAPE: Times = Times {
    bytes: 2.5,
    us: 6.0,
};

#[derive(Clone, Copy)]
struct Times {
    bytes: f64,
    us: f64,
}

/// What is there under a prefix.
#[derive(Clone, Debug, Default)]
struct Kept {
    /// Of each key, how many members it has; of the tombstones, how many ids.
    members: BTreeMap<String, usize>,
    bytes: usize,
}

fn kept(server: &Redis, prefix: &str) -> Kept {
    let script = "local out = {} for _, key in ipairs(redis.call('KEYS', ARGV[1] .. ':*')) do \
        local of = {hash='HLEN', zset='ZCARD', list='LLEN', set='SCARD', stream='XLEN'} \
        local count = redis.call(of[redis.call('TYPE', key).ok], key) \
        if key:sub(-5) == ':past' then count = 0 \
        for _, batch in ipairs(redis.call('LRANGE', key, 0, -1)) do \
        count = count + math.floor((#batch - 8) / 16) end end \
        out[#out + 1] = key:sub(#ARGV[1] + 2) .. ' ' .. count .. ' ' \
        .. redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0) end return out";
    let mut kept = Kept::default();
    for line in server.cli(&["EVAL", script, "0", prefix]).lines() {
        let words: Vec<_> = line.split(' ').collect();
        let [key, count, bytes] = words[..] else {
            continue; // nothing is there
        };
        let number = |word: &str| word.parse::<usize>().expect("a number");
        kept.members.insert(key.to_owned(), number(count));
        kept.bytes += number(bytes);
    }
    kept
}

/// What events have cost.
#[derive(Clone, Debug)]
struct Cost {
    /// Of memory while an event waits, and of the append-only file for all that happens to it.
    waiting_bytes: f64,
    file_bytes: f64,
    us: f64,
    left: Kept,
}

async fn cost(server: &Redis, shape: Shape, fate: Fate) -> Cost {
    let (url, prefix) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    let mut load = Load { bare, request: 0 };
    let created = Timestamp::from_micros_up(load.bare.store.now_us());
    let mut events = shape.events(&load.bare.bucket, created, 0, COUNT as u64);
    if fate == Fate::Expired {
        for event in &mut events {
            Arc::make_mut(&mut event.envelope).expires = Some(created + EXPIRES);
        }
    }
    let file = || fs::metadata(server.append_only_file()).map_or(0, |it| it.len());
    let before = (file(), processor_us(server));
    let push = |some: &[NewEvent]| StoreOp::Push(some.to_vec());
    load.all(events.chunks(shape.at_once).map(push)).await;
    let waiting = kept(server, &prefix);
    load.meet(fate, &events).await;
    load.settle(AttemptOutcome::Ack).await;
    let outbox = Outbox::Bucket(load.bare.bucket.clone());
    let trim = load.bare.store.trim_outbox(&outbox, u64::MAX >> 12);
    trim.await.expect("a trim");
    let (silent, limit) = (Vec::new(), 1);
    load.all([StoreOp::Reap { silent, limit }]).await;
    let each = |number: f64| number / COUNT as f64;
    Cost {
        waiting_bytes: each(waiting.bytes as f64),
        us: each(processor_us(server) - before.1),
        file_bytes: each((file() - before.0) as f64),
        left: kept(server, &prefix),
    }
}

/// Plain events, each of which is kept by itself.
fn plain() -> Shape {
    let all = Shape::all().into_iter();
    let mut plain =
        all.filter(|it| (it.own, it.dues, it.in_runs) == (Own::Nothing, Dues::Now, false));
    plain.next().expect("it is there")
}

/// What is too much in `cost` where `base` is usual and so many times as much is not: a body of
/// another length may be written as often as an event is changed.
fn excess(cost: &Cost, base: &Cost, times: Times, body_bytes: f64) -> Vec<String> {
    let mut wrong = Vec::new();
    let left = (cost.left.bytes as f64, base.left.bytes as f64);
    for (what, is, usual, times, free) in [
        (
            "bytes while it waits",
            cost.waiting_bytes,
            base.waiting_bytes,
            times.bytes,
            body_bytes,
        ),
        (
            "bytes of the file",
            cost.file_bytes,
            base.file_bytes,
            times.bytes,
            body_bytes * 3.0,
        ),
        ("us", cost.us, base.us, times.us, 0.0),
        ("bytes left", left.0, left.1, 1.2, 0.0),
    ] {
        if is > usual * times + free {
            wrong.push(format!("{is:.1} {what}, usual are {usual:.1}"));
        }
    }
    if cost.left.members != base.left.members {
        let (left, usual) = (&cost.left.members, &base.left.members);
        wrong.push(format!("left are {left:?} and not {usual:?}"));
    }
    wrong
}

/// Every fate of plain events, every shape that is handled, and some others, or all.
fn cells() -> Vec<(Shape, Fate)> {
    let pairs = |shape| FATES.map(move |fate| (shape, fate));
    let mut all: Vec<_> = Shape::all().into_iter().flat_map(pairs).collect();
    if std::env::var("DULY_COSTS").is_ok_and(|it| it == "all") {
        return all;
    }
    fastrand::shuffle(&mut all);
    let handled = Shape::all().into_iter().map(|shape| (shape, Fate::Handled));
    all.into_iter().take(SOME).chain(handled).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_shape_of_load_costs_much_more_than_plain_events() {
    let server = Redis::start(RedisOptions {
        aof: Aof::Everysec,
        // A sync that is under way puts off what is written of the next load.
        more: ["--auto-aof-rewrite-percentage", "0", "--appendfsync", "no"]
            .map(str::to_owned)
            .to_vec(),
        ..RedisOptions::default()
    });
    let mut usual = BTreeMap::new();
    for fate in FATES {
        usual.insert(fate, cost(&server, plain(), fate).await);
    }
    let handled = &usual[&Fate::Handled];
    let meta = [
        ("meta", 4),
        ("nodes", 1),
        ("outbox", 0),
        ("past", COUNT),
        ("state", COUNT),
    ];
    let left = meta.map(|(part, count)| (format!("{{letters:0}}:{part}"), count));
    let hub = ["hub", "members", "registered", "registry"].map(|it| (format!("{{hub}}:{it}"), 1));
    assert_eq!(handled.left.members, left.into_iter().chain(hub).collect());

    let mut wrong = Vec::new();
    for (fate, cost) in &usual {
        let excess = excess(cost, handled, OF_A_FATE, 0.0);
        wrong.extend(excess.iter().map(|what| format!("plain, {fate:?}: {what}")));
    }
    for (shape, fate) in cells() {
        let body_bytes = if shape.own == Own::Bytes {
            2_000.0
        } else {
            0.0
        };
        let mut excesses = Vec::new();
        // What is slow by itself is slow each time.
        for _ in 0..3 {
            let cost = cost(&server, shape, fate).await;
            println!("{shape:?}, {fate:?}: {cost:?}");
            excesses = excess(&cost, &usual[&fate], OF_A_SHAPE, body_bytes);
            if excesses.is_empty() {
                break;
            }
        }
        wrong.extend(
            excesses
                .iter()
                .map(|what| format!("{shape:?}, {fate:?}: {what}")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
