//! The check of a store: each kind of damage is found and repaired, and nothing is found on a healthy
//! store that is used.

mod bounds;
mod contradicting;
mod ended;
mod expiring;
mod healthy;
mod lost;
mod unique;
mod unreadable;
mod unregistered;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use duly::ErrorKind;
use duly::admin::{Damage, DamageKind};
use duly::prelude::*;
use duly::records::Outcome;
use duly::store::operation::{AttemptOutcome, Settlement, StartMark, StoreOp};
use duly::store::{CheckTask, Store};
use duly::time::{Timestamp, When};

use crate::redis_store::kit::{Bare, NODE, fresh, hex};
use crate::servers::{Redis, shared};

/// A bucket with an event in each place where one can be.
struct Bucket {
    bare: Bare,
    server: &'static Redis,
    base: String,
    /// Pushed for later and never touched.
    delayed: EventId,
    snoozed: EventId,
    ready: EventId,
    leased: EventId,
    dead: EventId,
    done: EventId,
    /// The first five are leased; the next five, which are ready, and the last five are in a page.
    paged: Vec<EventId>,
    /// Whether those before that are not over expire, in a day.
    expire: bool,
}

impl Bucket {
    async fn new() -> Self {
        Self::with_expiry(false).await
    }

    async fn with_expiry(expire: bool) -> Self {
        let server = shared();
        let (url, prefix) = fresh(&server.url());
        let bare = Bare::open(&url).await;
        let tomorrow = Timestamp::from_micros_up(bare.store.now_us()) + Duration::from_hours(24);
        let expires = expire.then_some(tomorrow);
        let dead = bare.push_with(|envelope| {
            (envelope.attempts, envelope.expires) = (1, expires);
        });
        let dead = dead.await;
        bare.bury(1).await;
        let done = bare.push_with(|_| ()).await;
        bare.fetch(2, 1).await.unwrap();
        bare.ack(2, &[done]).await.unwrap();
        let snoozed = bare.push_with(|envelope| envelope.expires = expires).await;
        bare.fetch(3, 1).await.unwrap();
        let settlement = Settlement {
            id: snoozed,
            request: 3,
            verdict: AttemptOutcome::Snooze(Duration::from_secs(3_600)),
            started_us: 1,
            fetched_us: 1,
        };
        let snooze = StoreOp::settle(NODE, vec![settlement], StartMark::default());
        assert_eq!(bare.typed(snooze).await.unwrap(), [true]);
        let leased = bare.push_with(|envelope| {
            (envelope.attempts, envelope.expires) = (3, expires);
        });
        let leased = leased.await;
        bare.fetch(4, 1).await.unwrap();
        let paged = bare.new_run(15);
        let later = When::After(Duration::from_secs(3_600));
        let whens = [When::Now, When::Now, later]
            .into_iter()
            .flat_map(|when| [when; 5]);
        let events = paged.iter().zip(whens);
        let mut first: Vec<_> = events.map(|(id, when)| bare.plain(*id, when)).collect();
        let others = first.split_off(5);
        for events in [first, others] {
            bare.apply(StoreOp::Push(events)).await.unwrap();
        }
        bare.fetch(5, 5).await.unwrap();
        let ready = bare
            .push_with(|envelope| {
                envelope.key = Some("order:7".to_owned());
                envelope.unique = Some("seven".to_owned());
                envelope.expires = expires;
            })
            .await;
        let mut event = bare.plain(bare.new_id(), later);
        Arc::make_mut(&mut event.envelope).expires = expires;
        let delayed = event.envelope.id;
        bare.apply(StoreOp::Push(vec![event])).await.unwrap();
        let base = format!("{prefix}:{{letters:0}}:");
        let bucket = Self {
            bare,
            server,
            base,
            delayed,
            snoozed,
            ready,
            leased,
            dead,
            done,
            paged,
            expire,
        };
        bucket.is_sound().await;
        assert_eq!(bucket.check(false).await, [], "nothing is damaged yet");
        bucket
    }

    /// Returns what is alone and not over.
    fn alone(&self) -> [EventId; 5] {
        [
            self.delayed,
            self.snoozed,
            self.ready,
            self.leased,
            self.dead,
        ]
    }

    /// Runs a script, in which `k` names a key, `c` is a command, and `id` the event.
    fn damage(&self, id: EventId, script: &str) {
        let script = format!(
            "local id = ARGV[1]:gsub('%x%x', function(h) return string.char(tonumber(h, 16)) end) \
             local c, k = redis.call, function(part) return ARGV[2] .. part end {script} return 'done'"
        );
        let words = ["EVAL", &script, "0", &hex(id), &self.base];
        assert_eq!(self.server.cli(&words), "done", "{script}");
    }

    async fn check(&self, repairs: bool) -> Vec<Damage> {
        let task = CheckTask::new(repairs);
        let found = self.bare.store.check_bucket(&self.bare.bucket, task);
        found.await.expect("a check")
    }

    /// Returns which events are looked at when they expire.
    fn expiring(&self) -> BTreeSet<EventId> {
        let script = "local ids = {} for i, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do \
                      ids[i] = id:gsub('.', function(c) return string.format('%02x', c:byte()) end) \
                      end return ids";
        let said = self
            .server
            .cli(&["EVAL", script, "1", &format!("{}expiry", self.base)]);
        let id =
            |hex: &str| EventId::from_bytes(u128::from_str_radix(hex, 16).unwrap().to_be_bytes());
        said.lines()
            .filter(|line| !line.is_empty())
            .map(id)
            .collect()
    }

    async fn is_sound(&self) {
        assert_eq!(self.bare.store.audit_whole().await.unwrap(), [""; 0]);
    }
}

/// Which event of the bucket is damaged.
type Which = fn(&Bucket) -> EventId;

/// The page of an event, in a script, and what its parts have: that is scheduled, and that is not.
const PAGE: &str = "local page = id:sub(1, 15) local body = page .. '\\133p' \
                    local later, its = page .. '\\138\\5', page .. '\\138p' ";
/// The counts of the bucket, in a script, with `n` more in one of them.
const COUNTS: &str = "local counts = {struct.unpack('>ddddd', c('HGET', k('meta'), 'counts'))} \
                      local function add(at, n) counts[at] = counts[at] + n \
                      c('HSET', k('meta'), 'counts', struct.pack('>ddddd', counts[1], counts[2], \
                      counts[3], counts[4], counts[5])) end ";

/// Damages `which` event by `script`, and expects to find these kinds, to repair them, and to find
/// nothing then; `lost` says of how many events nothing is left. Once where no event expires, and once
/// where all do that are alone.
async fn case(which: Which, script: &str, expected: &[DamageKind], lost: usize) {
    for expire in [false, true] {
        case_in(
            Bucket::with_expiry(expire).await,
            which,
            script,
            expected,
            lost,
        )
        .await;
    }
}

async fn case_in(bucket: Bucket, which: Which, script: &str, expected: &[DamageKind], lost: usize) {
    bucket.damage(which(&bucket), script);
    let seen = bucket.check(false).await;
    let kinds: BTreeSet<_> = seen.iter().map(|damage| damage.kind).collect();
    let expected: BTreeSet<_> = expected.iter().copied().collect();
    assert_eq!(kinds, expected, "{script}: {seen:#?}");
    assert!(seen.iter().all(|damage| !damage.repaired));
    let again = bucket.check(false).await;
    let what = |found: &[Damage]| -> Vec<_> {
        let found = found.iter(); // their words may tell a time
        found.map(|damage| (damage.kind, damage.id)).collect()
    };
    assert_eq!(what(&again), what(&seen), "a look changes nothing");

    let repaired = bucket.check(true).await;
    assert!(
        repaired.iter().all(|damage| damage.repaired),
        "{repaired:#?}"
    );
    assert_eq!(bucket.check(false).await, [], "{script}: {repaired:#?}");
    bucket.is_sound().await;

    if expected.contains(&DamageKind::LostLease) {
        let records = bucket.bare.records(bucket.leased).await;
        let outcomes: Vec<_> = records.iter().map(|record| record.outcome).collect();
        assert_eq!(
            outcomes,
            [Outcome::LeaseLost],
            "{script}: the attempt counts"
        );
    }

    let bare = &bucket.bare;
    let mut expiring = BTreeSet::new();
    for id in bucket.alone().into_iter().filter(|_| bucket.expire) {
        let found = bare.typed(StoreOp::get(id)).await.unwrap();
        expiring.extend(found.is_some_and(|it| it.body.is_some()).then_some(id));
    }
    assert_eq!(bucket.expiring(), expiring, "{script}: {repaired:#?}");

    // What is not lost is delivered, and what is lost has a record.
    let scheduled = [bucket.delayed, bucket.snoozed];
    for id in scheduled.iter().chain(&bucket.paged[10..]) {
        let (id, when) = (*id, When::Now);
        bare.apply(StoreOp::Reschedule { id, when }).await.unwrap();
    }
    let revive = StoreOp::Revive {
        ids: vec![bucket.dead],
        by: None,
    };
    bare.apply(revive).await.unwrap();
    let release = [(4, &[bucket.leased][..]), (5, &bucket.paged[..5])];
    for (request, ids) in release {
        let settlements = ids.iter().map(|id| Settlement {
            id: *id,
            request,
            verdict: AttemptOutcome::Release,
            started_us: 1,
            fetched_us: 1,
        });
        let settle = StoreOp::settle(NODE, settlements.collect(), StartMark::default());
        bare.typed(settle).await.unwrap();
    }
    let held = match bare.fetch(9, 100).await {
        // A node that was reaped hears of it once.
        Err(error) if error.kind() == ErrorKind::LeaseLost => bare.fetch(10, 100).await.unwrap(),
        held => held.unwrap(),
    };
    let held: BTreeSet<_> = held.into_iter().collect();
    let mut dropped = 0;
    for id in bucket.alone().iter().chain(&bucket.paged) {
        if !held.contains(id) {
            let last = bare.records(*id).await.last().map(|record| record.outcome);
            assert_eq!(last, Some(Outcome::Dropped), "{script}: {id}");
            dropped += 1;
        }
    }
    assert_eq!(dropped, lost, "{script}: {repaired:#?}");
    assert!(!held.contains(&bucket.done), "{script}: it was over");
}

#[tokio::test]
async fn events_without_a_body_end_with_a_record() {
    use DamageKind::NoBody;
    let body = "c('HDEL', k('body'), id)";
    let whiches: [Which; 4] = [|b| b.delayed, |b| b.snoozed, |b| b.leased, |b| b.dead];
    for which in whiches {
        case(which, body, &[NoBody], 1).await;
    }
    let and_keys = [NoBody, DamageKind::Stray];
    case(|b| b.ready, body, &and_keys, 1).await;
    let page = format!("{PAGE} c('HDEL', k('body'), body)");
    case(|b| b.paged[7], &page, &[NoBody], 5).await;
    let scheduled = format!("{PAGE} c('HDEL', k('body'), its)");
    case(|b| b.paged[12], &scheduled, &[NoBody], 5).await;
    let cut = format!("{PAGE} c('HSET', k('body'), its, c('HGET', k('body'), its):sub(1, -2))");
    case(|b| b.paged[12], &cut, &[NoBody], 1).await;
}

#[tokio::test]
async fn a_body_without_a_place_is_put_back() {
    use DamageKind::{Counts, Leftover, NoPlace, Stray};
    case(|b| b.delayed, "c('ZREM', k('delay'), id)", &[NoPlace], 0).await;
    case(
        |b| b.ready,
        "c('HDEL', k('state'), id)",
        &[NoPlace, Counts],
        0,
    )
    .await;
    let both = "c('HDEL', k('state'), id) c('ZREM', k('dead'), id)";
    case(|b| b.dead, both, &[NoPlace], 0).await;
    let half = "c('HDEL', k('state'), id)";
    case(|b| b.dead, half, &[NoPlace, Stray], 0).await;
    let page = format!("{PAGE} c('HDEL', k('state'), page)");
    let all = [NoPlace, Leftover, Counts, Stray];
    case(|b| b.paged[7], &page, &all, 0).await;
}

#[tokio::test]
async fn an_event_is_put_where_its_state_says() {
    use DamageKind::Misplaced;
    case(|b| b.snoozed, "c('ZREM', k('delay'), id)", &[Misplaced], 0).await;
    case(|b| b.dead, "c('ZREM', k('dead'), id)", &[Misplaced], 0).await;
    let list =
        "local state = c('HGET', k('state'), id) c('LREM', k('ready'), 0, id .. state:sub(46))";
    case(|b| b.ready, list, &[Misplaced, DamageKind::Counts], 0).await;
    let page = "for _, it in ipairs(c('LRANGE', k('ready'), 0, -1)) do \
                if it:sub(1, 15) == id:sub(1, 15) then c('LREM', k('ready'), 0, it) end end";
    case(|b| b.paged[7], page, &[Misplaced, DamageKind::Counts], 0).await;
    let scheduled = format!("{PAGE} c('ZREM', k('delay'), later)");
    case(
        |b| b.paged[12],
        &scheduled,
        &[Misplaced, DamageKind::Counts],
        0,
    )
    .await;
    case(|b| b.ready, "c('DEL', k('by_key'))", &[Misplaced], 0).await;
    case(|b| b.ready, "c('DEL', k('unique'))", &[Misplaced], 0).await;
    let sizes = "c('DEL', k('sizes'))";
    case(|b| b.ready, sizes, &[DamageKind::Counts], 0).await;
    let more = "c('ZADD', k('sizes'), 7, string.rep('p', 15) .. '\\128\\5\\0')";
    case(|b| b.ready, more, &[DamageKind::Counts], 0).await;
}

#[tokio::test]
async fn a_lease_that_nobody_holds_is_taken_back() {
    use DamageKind::{Counts, LostLease, SilentNode, Stray};
    let batch = "local batch = c('HGET', k('state'), id):sub(46, 61) ";
    let unknown = "c('DEL', k('requests'))";
    case(|b| b.leased, unknown, &[DamageKind::Misplaced], 0).await;
    let held = format!("{batch} c('HDEL', k('held'), batch, '#' .. batch)");
    case(|b| b.leased, &held, &[LostLease, Stray], 0).await;
    let half = format!("{batch} c('HDEL', k('held'), batch)");
    case(|b| b.leased, &half, &[LostLease, Stray], 0).await;
    let count = format!("{batch} c('HSET', k('held'), '#' .. batch, 7)");
    case(|b| b.leased, &count, &[Counts], 0).await;
    case(|b| b.leased, "c('DEL', k('nodes'))", &[LostLease], 0).await;
    let silent = "local nodes = c('HGETALL', k('nodes')) local of = nodes[2] \
                  c('HSET', k('nodes'), nodes[1], of:sub(1, 34) .. string.rep('\\0', 8) .. of:sub(43))";
    case(|b| b.leased, silent, &[SilentNode], 0).await;
}

#[tokio::test]
async fn entries_of_nothing_are_removed() {
    use DamageKind::{Leftover, Stray};
    let strays = [
        "c('ZADD', k('delay'), 7, id)",
        "c('ZADD', k('delay'), 7, string.rep('p', 15) .. '\\128\\5')",
        "c('ZADD', k('dead'), 0, id)",
        "c('ZADD', k('lease'), '9007199254740991', id)", // no look comes to its end
        "c('HSET', k('unique'), 'other', id)",
        "c('ZADD', k('holds'), 7, 'other')",
        "c('ZADD', k('by_key'), 0, 'other' .. id)",
        "c('HSET', k('held'), string.rep('h', 16), string.rep('i', 32))",
        "c('HSET', k('held'), '#' .. string.rep('h', 16), 3)",
        "c('ZADD', k('requests'), 0, string.rep('h', 16))",
        "c('ZADD', k('expiry'), '9007199254740991', string.rep('h', 16))",
    ];
    for stray in strays {
        case(|b| b.ready, stray, &[Stray], 0).await;
    }
    let of_another = "c('HSET', k('unique'), 'seven', id)";
    case(|b| b.delayed, of_another, &[Stray], 0).await;
    let body = "c('HSET', k('body'), id, 'a body')";
    case(|b| b.done, body, &[Leftover], 0).await;
    let page = "c('HSET', k('body'), string.rep('p', 15) .. '\\128p', 'a page')";
    case(|b| b.done, page, &[Leftover], 0).await;
}

#[tokio::test]
async fn counts_are_counted_anew() {
    for at in [2, 3, 5] {
        let script = format!("{COUNTS} add({at}, 3)");
        case(|b| b.ready, &script, &[DamageKind::Counts], 0).await;
    }
}
