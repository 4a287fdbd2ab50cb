//! Counts events by due time.

use std::time::Duration;

use crate::core::engine::check_spans;
use crate::core::op::Reply;
use crate::error::Result;
use crate::event::QueueName;
use crate::store::redis::op::reply::DecodedReply;
use crate::store::redis::script::call::{Call, CallContext, us_down};
use crate::store::redis::script::reader::ReplyReader;
use crate::store::redis::script::table::script;

script! {
    /// Counts the scheduled events that fall due within each span.
    FORECAST = "forecast", DRAINS, Bucket, ["bucket", "state", "page", "unreaped", "unexpired"];
    ForecastArguments {}
    each Span {
        /// From now, us; in ascending order.
        span: u64,
    }
    reply ForecastReply {
        /// Then the count of each span.
        now: u64,
    }
}

pub(super) fn call(context: &CallContext<'_>, within: &[Duration]) -> Result<Call> {
    check_spans(within)?;
    let spans = within.iter().map(|span| Span {
        span: us_down(*span),
    });
    Ok(context.call(ForecastArguments {}).with_rows(spans))
}

pub(super) fn read(
    _: &QueueName,
    mut parts: ReplyReader,
    within: &[Duration],
) -> Result<DecodedReply> {
    let reply = ForecastReply::read(&mut parts)?;
    let counts = within.iter().map(|_| parts.count()).collect::<Result<_>>();
    Ok(DecodedReply::new(reply.now, Reply::Forecast(counts?)))
}
