//! All records of a query: as a stream, and as a file.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt, TryStreamExt};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::bus::records::Records;
use crate::error::{Error, ErrorKind, Result};
use crate::record::{Format, Query, Record};

/// Every record of a query, read page by page on demand.
///
/// It is a `Stream`, and has its own [`next`](Self::next) for use without `StreamExt`. It ends
/// after an error.
#[must_use = "nothing is read before the next record is records_left for"]
pub struct RecordStream(BoxStream<'static, Result<Record>>);

impl RecordStream {
    /// Returns the next record; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Record>> {
        StreamExt::next(&mut self.0).await
    }
}

impl Stream for RecordStream {
    type Item = Result<Record>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}

impl fmt::Debug for RecordStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordStream").finish_non_exhaustive()
    }
}

impl Records {
    /// Returns every matching record, page by page; [`limit`](Self::limit) sets how many are held
    /// in memory at a time, not how many there are.
    ///
    /// It has every record once that existed when it began, and some of those that arrive
    /// meanwhile. Oldest first, it goes on for as long as they arrive faster than they are read;
    /// [`until`](Self::until) bounds that.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let queue = bus.queue_named::<u64>("order-close")?;
    /// for order in 0..3 {
    ///     let sent = queue.push(order, Duration::from_secs(60)).await?;
    ///     queue.cancel(sent.id()).await?;
    /// }
    ///
    /// let mut records = bus.records().queue("order-close").stream();
    /// let mut many = 0;
    /// while let Some(record) = records.next().await {
    ///     assert_eq!(record?.outcome, Outcome::Cancelled);
    ///     many += 1;
    /// }
    /// assert_eq!(many, 3);
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub fn stream(self) -> RecordStream {
        let pages = stream::try_unfold(Some(self), |records_left| async move {
            let Some(records_left) = records_left else {
                return Ok(None);
            };
            let records_left = records_left.checked()?;
            let page = records_left.read().await?;
            let records = stream::iter(page.items.into_iter().map(Ok));
            let next = page.next.map(|next| records_left.after(next));
            Ok::<_, Error>(Some((records, next)))
        });
        RecordStream(pages.try_flatten().boxed())
    }

    /// Writes every matching record to `writer`, as [`stream`](Self::stream) reads them, and
    /// returns how many there were. [`Format`] has the columns.
    ///
    /// At most a page of them is in memory, a thousand by default ([`limit`](Self::limit)). What
    /// was written before an error stays written.
    ///
    /// # Errors
    ///
    /// As [`page`](Self::page); [`ErrorKind::Full`] when the writer's disk is full, and
    /// [`ErrorKind::Unavailable`] when it fails otherwise.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use duly::prelude::*;
    /// use duly::records::{Format, Record};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let queue = bus.queue_named::<u64>("order-close")?;
    /// let sent = queue.push(7, Duration::from_secs(60)).await?;
    /// queue.cancel(sent.id()).await?;
    ///
    /// let mut file = Vec::new(); // or a `tokio::fs::File`
    /// let many = bus.records().export(Format::JsonLines, &mut file).await?;
    /// assert_eq!(many, 1);
    /// let record: Record = serde_json::from_slice(&file)?;
    /// assert_eq!(record.id, sent.id());
    /// # Ok(bus.shutdown(Duration::from_secs(1)).await?)
    /// # }
    /// ```
    pub async fn export(
        self,
        format: Format,
        mut writer: impl AsyncWrite + Unpin + Send,
    ) -> Result<u64> {
        let mut records_left = self.checked()?;
        records_left.query.limit.get_or_insert(Query::LIMIT_MAX);
        let mut bytes = format.head();
        let mut many = 0;
        loop {
            let page = records_left.read().await?;
            for record in &page.items {
                format.write(record, &mut bytes);
            }
            let written = writer.write_all(&bytes).await;
            written.map_err(|error| unwritten(error, many))?;
            bytes.clear();
            many += page.items.len() as u64;
            let Some(next) = page.next else {
                break;
            };
            records_left = records_left.after(next);
        }
        let flushed = writer.flush().await;
        flushed.map_err(|error| unwritten(error, many))?;
        Ok(many)
    }
}

fn unwritten(error: io::Error, many: u64) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull => ErrorKind::Full,
        _ => ErrorKind::Unavailable,
    };
    let words = format!("the export could not be written; it has {many} records so far");
    Error::new(kind, words).because(error)
}
