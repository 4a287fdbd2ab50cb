//! A file that is sent: it is in memory, and has its turn, until its last part is taken. One that is not
//! read is cut, so that the next one has its turn.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::body::Bytes;
use futures_util::stream::{self, Stream};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::turns::Turn;

/// How many bytes are sent at a time.
const PART_BYTES: usize = 64 << 10;
/// How long a part waits to be taken. A connection takes more only when much of what its buffers hold
/// is read, which may be megabytes: a slow reader has pauses of half a minute.
const WAITS_MAX: Duration = Duration::from_secs(60);

/// What is left of a file.
#[derive(Debug)]
enum Rest {
    Waiting {
        bytes: Bytes,
        /// When its next part has to be taken.
        until: Instant,
        _turn: Turn,
    },
    Sent,
    Cut,
}

/// The file was not read in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotRead;

impl fmt::Display for NotRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the file was not read for {WAITS_MAX:?}")
    }
}

impl std::error::Error for NotRead {}

/// Splits a file into parts; each has to be taken in time.
pub(crate) fn parts(bytes: Vec<u8>, turn: Turn) -> impl Stream<Item = Result<Bytes, NotRead>> {
    let rest = Arc::new(Mutex::new(Rest::Waiting {
        bytes: bytes.into(),
        until: Instant::now() + WAITS_MAX,
        _turn: turn,
    }));
    tokio::spawn(cut(Arc::downgrade(&rest)));
    stream::unfold(rest, |rest| async move {
        let part = next(&mut rest.lock())?;
        Some((part, rest))
    })
}

fn next(rest: &mut Rest) -> Option<Result<Bytes, NotRead>> {
    match rest {
        Rest::Waiting { bytes, until, .. } if bytes.len() > PART_BYTES => {
            *until = Instant::now() + WAITS_MAX;
            Some(Ok(bytes.split_to(PART_BYTES)))
        }
        Rest::Waiting { bytes, .. } => {
            // Nobody may ask for more once the last part is taken.
            let last = std::mem::take(bytes);
            *rest = Rest::Sent;
            (!last.is_empty()).then_some(Ok(last))
        }
        Rest::Sent => None,
        Rest::Cut => {
            *rest = Rest::Sent;
            Some(Err(NotRead))
        }
    }
}

/// Cuts a file off when its next part is not taken in time.
async fn cut(rest: Weak<Mutex<Rest>>) {
    loop {
        let ends = {
            let Some(rest) = rest.upgrade() else { return };
            let mut rest = rest.lock();
            match &*rest {
                Rest::Waiting { until, .. } if *until <= Instant::now() => {
                    *rest = Rest::Cut;
                    return;
                }
                Rest::Waiting { until, .. } => *until,
                Rest::Sent | Rest::Cut => return,
            }
        };
        sleep_until(ends).await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::StreamExt;

    use super::*;
    use crate::access::{Role, User};
    use crate::turns::{Turns, Work};

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_not_read_is_cut_and_passes_its_turn_on() {
        let turns = Turns::default();
        let user = User::new("ann", Role::View).only(|_| true);
        let take = || turns.take(Work::Export, &user);
        let file = async || parts(vec![7; 3 * PART_BYTES + 1], take().await.unwrap());
        let (mut slow, mut read) = (pin!(file().await), pin!(file().await));
        // Who reads a part now and then is not cut.
        for _ in 0..3 {
            tokio::time::sleep(WAITS_MAX - Duration::from_secs(1)).await;
            assert_eq!(read.next().await.unwrap().unwrap().len(), PART_BYTES);
            assert_eq!(slow.next().await.unwrap().unwrap().len(), PART_BYTES);
        }
        assert_eq!(read.next().await.unwrap().unwrap().len(), 1);
        // Its last part is taken, whether or not more is asked for.
        let third = tokio::time::timeout(Duration::from_secs(1), take()).await;
        let _third = third.expect("a file that is sent has no turn").unwrap();
        let most = Duration::from_secs(5);
        tokio::time::sleep(WAITS_MAX - most).await;
        let began = Instant::now();
        let _fourth = take().await.expect("the other file is cut");
        assert!(began.elapsed() <= most, "{:?}", began.elapsed());
        tokio::time::sleep(WAITS_MAX).await;
        assert_eq!(read.next().await, None);
        assert_eq!(slow.next().await, Some(Err(NotRead)));
        assert_eq!(slow.next().await, None);
    }
}
