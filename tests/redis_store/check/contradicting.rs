//! Pages whose parts contradict each other or their bodies: nothing says what is right, so all is left.

use std::sync::Arc;

use duly::admin::DamageKind;
use duly::event::Payload;
use duly::store::operation::StoreOp;
use duly::store::{CheckTask, Store};
use duly::time::When;

use crate::redis_store::kit::{Bare, fresh, hex};
use crate::servers::shared;

const LATER: When = When::After(std::time::Duration::from_secs(3_600));

/// How many events of each of the two parts there are.
const EACH: usize = 5;

/// A byte of the state of a page: of which part, and which of its fields.
const FIELDS: [(usize, &str); 4] = [(1, "first"), (2, "count"), (3, "base"), (0, "kind")];

/// Changes of a byte, modulo 256.
const CHANGES: [u8; 7] = [1, 2, 5, 64, 251, 254, 255];

#[tokio::test]
async fn no_payload_of_a_page_is_lost_whatever_byte_of_its_parts_is_damaged() {
    for left in [0, 2] {
        for (field, name) in FIELDS {
            for change in CHANGES {
                // Another kind that there is contradicts nothing: it is put where it says.
                if field == 0 && [1, 255].contains(&change) {
                    continue;
                }
                for part in 0..2 {
                    let what = format!("{name} of part {part} + {change}, {left} have left");
                    nothing_is_lost(left, 41 + 28 * part + field, change, &what).await;
                }
            }
        }
    }
}

/// Changes a byte of a page whose first part `left` events have left, repairs, and undoes the change.
async fn nothing_is_lost(left: usize, at: usize, change: u8, what: &str) {
    let server = shared();
    let (url, prefix) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    let ids = bare.new_run(2 * EACH);
    let events = ids.iter().enumerate().map(|(number, id)| {
        let when = if number < EACH { When::Now } else { LATER };
        let mut event = bare.plain(*id, when);
        let envelope = Arc::get_mut(&mut event.envelope).expect("nobody else has it");
        envelope.payload = Payload::from(format!("\"letter {number};\"").into_bytes());
        event
    });
    bare.apply(StoreOp::Push(events.collect()))
        .await
        .expect("a push");
    if left > 0 {
        assert_eq!(bare.fetch(1, left).await.expect("a fetch"), ids[..left]);
    }
    let eval = |script: &str, change: u8| {
        let page = hex(ids[0])[..30].to_owned();
        let script = format!(
            "local page = ARGV[1]:gsub('%x%x', function(h) return string.char(tonumber(h, 16)) end) \
             local state, body = ARGV[2] .. 'state', ARGV[2] .. 'body' {script}"
        );
        let base = format!("{prefix}:{{letters:0}}:");
        let (at, change) = (at.to_string(), change.to_string());
        server.cli(&["EVAL", &script, "0", &page, &base, &at, &change])
    };
    let missing = || {
        let script = "local all, missing = table.concat(redis.call('HVALS', body), '|'), '' \
                      for number = 0, 9 do \
                          if not all:find('letter ' .. number .. ';', 1, true) then \
                              missing = missing .. number \
                          end \
                      end return missing";
        eval(script, 0)
    };
    let add = "local was, at = redis.call('HGET', state, page), tonumber(ARGV[3]) \
               local is = string.char((was:byte(at) + ARGV[4]) % 256) \
               redis.call('HSET', state, page, was:sub(1, at - 1) .. is .. was:sub(at + 1)) \
               return 'done'";
    let check = async |repairs| {
        let task = CheckTask::new(repairs);
        let found = bare.store.check_bucket(&bare.bucket, task);
        found.await.expect("a check")
    };
    assert_eq!(missing(), "", "{what}: before");
    assert_eq!(eval(add, change), "done", "{what}");
    for repairs in [true, false, true] {
        let found = check(repairs).await;
        assert_eq!(missing(), "", "{what}: repairs {repairs}");
        let of_page = found
            .iter()
            .find(|damage| damage.words.contains("contradicts"));
        let of_page = of_page.unwrap_or_else(|| panic!("{what}: {found:#?}"));
        assert_eq!(of_page.kind, DamageKind::Unreadable, "{what}");
        assert!(!of_page.repaired, "{what}");
    }
    // What was left is sound once the key is restored.
    assert_eq!(eval(add, change.wrapping_neg()), "done", "{what}");
    let _counts = check(true).await;
    assert_eq!(check(false).await, [], "{what}");
    assert_eq!(
        bare.store.audit_whole().await.expect("an audit"),
        [""; 0],
        "{what}"
    );
    let stats = bare.typed(StoreOp::stats()).await.expect("counts");
    let counts = (stats.scheduled, stats.ready, stats.leased);
    assert_eq!(counts, (EACH, EACH - left, left), "{what}");
}
