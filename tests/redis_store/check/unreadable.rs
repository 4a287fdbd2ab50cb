//! What cannot be read: keys of another type, entries of another form, damaged bodies.

use duly::admin::{Damage, DamageKind};

use super::Bucket;

#[tokio::test]
async fn what_cannot_be_read_is_damage_and_the_check_goes_on() {
    // Without it nothing of the bucket can be read.
    let bucket = Bucket::new().await;
    bucket.damage(
        bucket.dead,
        "c('DEL', k('meta')) c('SET', k('meta'), 'text')",
    );
    let found = bucket.check(false).await;
    let is_it = |damage: &Damage| damage.kind == DamageKind::Unreadable;
    assert!(
        (1..=2).contains(&found.len()) && found.iter().all(is_it),
        "{found:#?}"
    );

    let of_body = [
        "c('HSET', k('body'), id, c('HGET', k('body'), id):sub(1, -2))",
        "local b = c('HGET', k('body'), id) \
         c('HSET', k('body'), id, b:sub(1, -2) .. string.char((b:byte(-1) + 1) % 256))",
    ];
    let of_keys = [
        "c('DEL', k('dead')) c('SET', k('dead'), 'text')",
        "c('DEL', k('lease')) c('HSET', k('lease'), 'a', 'b')",
        "c('HSET', k('state'), 'short', 'x')",
        "c('HSET', k('state'), id, 'R')",
        "c('HSET', k('held'), 'short', 'x')",
        "c('HSET', k('body'), 'short', 'x')",
        "c('ZADD', k('delay'), 5, 'short')",
        "c('ZADD', k('by_key'), 5, 'short')",
        "c('ZADD', k('sizes'), 5, 'short')",
        "c('ZADD', k('requests'), 5, 'short')",
    ];
    for script in of_body.iter().chain(&of_keys) {
        let bucket = Bucket::new().await;
        // Something else, which is found all the same.
        bucket.damage(bucket.snoozed, "c('HDEL', k('body'), id)");
        bucket.damage(bucket.leased, script);
        let found = bucket.check(false).await;
        let other = found.iter().any(|damage| damage.id == Some(bucket.snoozed));
        assert!(other, "{script}: {found:#?}");
        let is_told = found.iter().any(|damage| damage.id != Some(bucket.snoozed));
        assert!(is_told, "{script}: {found:#?}");
        if of_body.contains(script) {
            let of_it = found.iter().find(|damage| damage.id == Some(bucket.leased));
            assert_eq!(of_it.unwrap().kind, DamageKind::Unreadable, "{script}");
        }
        // A repair ends, too, and says of what it cannot repair that it has not.
        let repaired = bucket.check(true).await;
        let unreadable = repaired
            .iter()
            .filter(|it| it.kind == DamageKind::Unreadable);
        assert!(
            unreadable.clone().all(|damage| !damage.repaired),
            "{script}"
        );
    }
}
