//! Damage of what has ended, of pages, and of what a bucket knows of itself.

use std::time::Duration;

use duly::admin::DamageKind::{Counts, Leftover, Misplaced, Stray};
use duly::store::operation::StoreOp;
use duly::store::{CheckTask, DedupWindow, RedisOptions, Store};
use duly::time::When;

use super::case;
use crate::redis_store::kit::{Bare, fresh, hex};
use crate::servers::shared;

#[tokio::test]
async fn each_event_that_has_ended_has_one_tombstone() {
    let gone = "c('LPOP', k('past'))";
    case(|b| b.done, gone, &[Misplaced, Counts], 0).await;
    let twice = "c('RPUSH', k('past'), c('LINDEX', k('past'), 0))";
    case(|b| b.done, twice, &[Stray, Counts], 0).await;
    let living = "c('RPUSH', k('past'), string.rep('\\0', 8) .. id)";
    case(|b| b.ready, living, &[Stray, Counts], 0).await;
    case(|b| b.paged[7], living, &[Stray, Counts], 0).await;
}

/// The oldest tombstones were of an event that has not ended, or there are none in their place.
#[tokio::test]
async fn a_bucket_whose_tombstones_were_repaired_goes_on_to_forget() {
    const CAP: usize = 2;
    let window = DedupWindow {
        max: CAP,
        cap: CAP,
        ..DedupWindow::default()
    };
    for tombstones in [
        "string.rep('\\0', 7) .. '\\1' .. ARGV[1]",
        "string.rep('\\0', 8)",
    ] {
        let server = shared();
        let (url, prefix) = fresh(&server.url());
        let bare = Bare::open_with(&url, RedisOptions::new().window(window)).await;
        let later = When::After(Duration::from_hours(1));
        let end = async || {
            let id = bare.new_id();
            bare.push(id, later).await.expect("a push");
            bare.apply(StoreOp::Cancel { id }).await.expect("a cancel");
        };
        let past = format!("{prefix}:{{letters:0}}:past");
        let len = || server.cli(&["LLEN", &past]).parse::<usize>().unwrap();
        let living = bare.new_id();
        bare.push(living, later).await.expect("a push");
        end().await;
        let script = format!(
            "ARGV[1] = ARGV[1]:gsub('%x%x', function(h) return string.char(tonumber(h, 16)) end) \
             return redis.call('LPUSH', KEYS[1], {tombstones})"
        );
        server.cli(&["EVAL", &script, "1", &past, &hex(living)]);
        assert_eq!(len(), 2);
        for repairs in [true, false] {
            let check = bare
                .store
                .check_bucket(&bare.bucket, CheckTask::new(repairs));
            let found = check.await.expect("a check");
            assert!(repairs || found.is_empty(), "{found:?}");
        }
        for _ in 0..4 * CAP {
            end().await;
        }
        assert_eq!(len(), CAP, "{tombstones}");
        assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0]);
    }
}

#[tokio::test]
async fn a_bucket_knows_what_is_in_it() {
    let longest = "c('HSET', k('meta'), 'longest', 1)";
    case(|b| b.ready, longest, &[Counts], 0).await;
    let records = "c('HSET', k('meta'), 'record', 1)";
    case(|b| b.ready, records, &[Counts], 0).await;
    let flag = "local state = c('HGET', k('state'), id) \
                c('HSET', k('state'), id, state:sub(1, 1) .. '\\4' .. state:sub(3))";
    case(|b| b.leased, flag, &[Counts], 0).await;
    let reaped = "local of = c('HGETALL', k('nodes'))[2] \
                  c('HSET', k('nodes'), 'somebody', \
                  of:sub(1, 24) .. string.rep('\\0', 9) .. '\\1' .. of:sub(35))";
    case(|b| b.ready, reaped, &[Counts], 0).await;
}

#[tokio::test]
async fn a_page_has_what_its_parts_say() {
    let empty = "c('HSET', k('state'), string.rep('p', 15), 'P' .. string.rep('\\0', 39))";
    case(|b| b.ready, empty, &[Leftover], 0).await;
    let inside = "c('HSET', k('state'), id, 'S' .. string.rep('\\0', 44))";
    case(|b| b.paged[12], inside, &[Leftover], 0).await;
    let delayed = "c('ZADD', k('delay'), 7, id)";
    case(|b| b.paged[7], delayed, &[Stray], 0).await;
}
