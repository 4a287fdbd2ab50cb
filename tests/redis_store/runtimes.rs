//! A store that is used from several runtimes, of which one ends.

use std::time::Duration;

use duly::store::operation::Reply;
use duly::time::When;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::redis_store::kit::{Bare, fresh};
use crate::servers::Redis;

#[test]
fn a_push_that_its_runtime_takes_along_keeps_no_other_from_its_bucket() {
    let server = Redis::plain();
    let (url, _) = fresh(&server.url());
    let home = Runtime::new().unwrap();
    let bare = home.block_on(Bare::open(&url));
    home.block_on(bare.push(bare.new_id(), When::Now)).unwrap();

    server.stop_process();
    let other = Runtime::new().unwrap();
    let moment = Duration::from_millis(100);
    let unanswered =
        other.block_on(async { timeout(moment, bare.push(bare.new_id(), When::Now)).await });
    assert!(
        unanswered.is_err(),
        "a stopped server answered: {unanswered:?}"
    );
    drop(other);
    server.cont();

    let patience = Duration::from_secs(20);
    let push = async { timeout(patience, bare.push(bare.new_id(), When::Now)).await };
    let pushed = home.block_on(push).expect("it waits for nobody").unwrap();
    assert!(matches!(pushed, Reply::Pushed(_)), "{pushed:?}");
}
