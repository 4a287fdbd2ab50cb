//! Records: how attempts and events ended.

use std::sync::Arc;

use askama::Template;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use duly::event::Payload;
use duly::records::{Cause, Cursor, Format, Outcome, Page, Record};

use crate::access::Role;
use crate::app::App;
use crate::error::{PageError, Result, html};
use crate::file;
use crate::frame::Frame;
use crate::grant::{Extent, GrantEnd};
use crate::guard::Visit;
use crate::pages::dead::{SweepRow, sweep_rows};
use crate::pages::event::outcome;
use crate::pages::queue::name_of;
use crate::questions::in_time;
use crate::record_query::RecordQuery;
use crate::text::{self, Fields, Moment, cell, span};
use crate::turns::Work;

/// The rows of a page.
const ROWS: u32 = 50;
/// The most queues that are asked for records, where each keeps its own.
const QUEUES_MAX: usize = 500;
/// The records of an export, and about the most bytes of them: payloads may have 64 KiB each.
const EXPORT_RECORDS: usize = 10_000;
const EXPORT_BYTES: usize = 8 << 20;
/// How many records are read at a time: few while they are large, as each read may look through all that
/// waits for a journal.
const EXPORT_PAGE: (u32, u32) = (50, 400);
/// What is read at a time is less than this, as far as the read before tells.
const EXPORT_PAGE_BYTES: usize = 256 << 10;
/// How often fewer come although there are more, as few of those that were looked through match.
const EXPORT_SPARSE_PAGES: usize = 10;

#[derive(Template)]
#[template(path = "records.html")]
struct RecordsPage {
    frame: Frame,
    fields: Vec<Field>,
    outcome: String,
    cause: String,
    order: String,
    outcomes: Vec<&'static str>,
    causes: Vec<&'static str>,
    rows: Vec<Row>,
    query: String,
    next: Option<String>,
    is_first: bool,
    /// Why a queue has to be chosen, if that is so.
    choose: Option<String>,
    /// Whether what is found can be replayed, which is of one queue.
    replays: bool,
    sweeps: Vec<SweepRow>,
}

/// A field of text of the filter.
struct Field {
    name: &'static str,
    label: &'static str,
    value: String,
    hint: &'static str,
    kind: &'static str,
}

struct Row {
    id: String,
    queue: String,
    at: Moment,
    attempt: String,
    outcome: &'static str,
    class: &'static str,
    late: String,
    took: String,
    error: String,
}

/// Returns the query of a filter, oldest first. Who sees some queues only has to name one.
pub(crate) fn filtered(app: &App, visit: &Visit, fields: &Fields) -> Result<RecordQuery> {
    let (records, sees_all) = (app.bus.records(), visit.user.sees_all());
    match fields.get("queue") {
        Some(queue) => {
            let records = records.queue(&name_of(visit, queue)?);
            let read = if sees_all {
                RecordQuery::of_all
            } else {
                RecordQuery::of_one
            };
            read(records, fields)
        }
        None if sees_all => RecordQuery::of_all(records, fields),
        None => Err(PageError::invalid("choose a queue first")),
    }
}

/// Returns the query of a page, newest first unless it says otherwise, and where it begins.
fn records(app: &App, visit: &Visit, fields: &Fields) -> Result<(RecordQuery, Option<Cursor>)> {
    let mut records = filtered(app, visit, fields)?;
    if fields.get("order") != Some("oldest") {
        records = records.newest_first();
    }
    let after = fields.get("after").map(str::parse::<Cursor>).transpose()?;
    Ok((records, after))
}

pub(crate) async fn page(
    State(app): State<Arc<App>>,
    visit: Visit,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let _turn = app.reads.page(&visit.user, visit.is_live).await?;
    let fields = Fields::parse(query.as_deref().unwrap_or_default().as_bytes());
    let choose = choose(&app, &visit, &fields).await;
    let page = match choose {
        Some(_) => Page::new(Vec::new(), None),
        None => {
            let (query, after) = records(&app, &visit, &fields)?;
            in_time(query.page(after, ROWS)).await?
        }
    };
    let now = app.bus.store_time();
    let rows = page.items.into_iter().map(|record| {
        let stages = &record.stages;
        let (word, class) = outcome(record.outcome);
        let took = stages.finished_us.checked_sub(stages.started_us);
        let took = took.filter(|_| stages.started_us > 0);
        let cause = record.cause.map(|cause| cause.as_str().replace('_', " "));
        let by = record
            .by
            .as_deref()
            .map(|by| format!("by {}", text::visible(by)));
        let error = record.error.as_ref().map(|error| text::shown(error, 200));
        let error: Vec<String> = [cause, by, error].into_iter().flatten().collect();
        Row {
            id: record.id.to_string(),
            queue: record.queue.to_string(),
            at: Moment::new(
                duly::time::Timestamp::from_millis(stages.finished_us / 1_000),
                now,
            ),
            attempt: match record.attempt {
                0 => "–".to_owned(),
                attempt => attempt.to_string(),
            },
            outcome: word,
            class,
            late: record.lateness().map_or_else(|| "–".to_owned(), span),
            took: took.map_or_else(
                || "–".to_owned(),
                |us| span(std::time::Duration::from_micros(us)),
            ),
            error: error.join(" · "),
        }
    });
    let field = |name, label, hint, kind| Field {
        name,
        label,
        value: fields.text(name),
        hint,
        kind,
    };
    let time = |name, label| -> Result<Field> {
        let value = text::local(&fields, name)?;
        let field = field(name, label, "", "datetime-local");
        Ok(Field { value, ..field })
    };
    html(&RecordsPage {
        fields: vec![
            field("queue", "Queue", "", "text"),
            field("id", "Event", "", "text"),
            field("key", "Key", "", "text"),
            field("error", "Error contains", "", "text"),
            field("node", "Node", "16 digits", "text"),
            time("since", "Since, UTC")?,
            time("until", "Until, UTC")?,
        ],
        outcome: fields.text("outcome"),
        cause: fields.text("cause"),
        order: fields.text("order"),
        outcomes: Outcome::ALL.map(Outcome::as_str).to_vec(),
        causes: Cause::ALL.map(Cause::as_str).to_vec(),
        rows: rows.collect(),
        query: fields.with(&[("after", "")]),
        next: page
            .next
            .map(|next| format!("?{}", fields.with(&[("after", &next.to_string())]))),
        is_first: fields.get("after").is_none(),
        replays: fields.get("queue").is_some(),
        sweeps: sweep_rows(&app, &visit),
        choose,
        frame: app.frame(&visit, "records", "Records"),
    })
}

/// Returns why a queue has to be chosen, if so: of all queues it shows how far the records of others
/// reach, or each of too many would be asked.
pub(crate) async fn choose(app: &App, visit: &Visit, fields: &Fields) -> Option<String> {
    if fields.get("queue").is_some() {
        return None;
    }
    if !visit.user.sees_all() {
        return Some("you see some queues only, and records of one at a time.".to_owned());
    }
    let queues = too_many(app).await?;
    Some(format!(
        "each of the {} queues of this store keeps its own records, and too many would have to be \
         asked.",
        text::number(queues as u64)
    ))
}

/// Returns how many queues there are, if each keeps its own records and too many would be asked.
pub(crate) async fn too_many(app: &App) -> Option<usize> {
    if app.bus.keeps_records_together() {
        return None;
    }
    let queues = app.sampler.picture().await.queues.len();
    (queues > QUEUES_MAX).then_some(queues)
}

#[allow(clippy::needless_pass_by_value)] // as `map_err` passes it
fn ended(ended: GrantEnd) -> PageError {
    PageError::forbidden(format!("nothing is exported: {ended}"))
}

/// Returns a record whose texts no spreadsheet takes for a formula, and no terminal for a command:
/// anybody may have written them.
fn for_a_spreadsheet(record: &Record) -> Record {
    let mut record = record.clone();
    for text in [&mut record.key, &mut record.error, &mut record.by] {
        *text = text.take().map(|text| cell(&text));
    }
    let payload = record.payload.take();
    record.payload = payload.map(|payload| match std::str::from_utf8(payload.as_bytes()) {
        Ok(text) => Payload::from(cell(text).into_bytes()),
        Err(_) => payload,
    });
    record
}

/// Sends up to 10,000 records, of some MiB, as a file; its header `link` has the address of the rest.
pub(crate) async fn export(
    State(app): State<Arc<App>>,
    visit: Visit,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let fields = Fields::parse(query.as_deref().unwrap_or_default().as_bytes());
    let format: Format = fields.get("format").unwrap_or("jsonl").parse()?;
    if let Some(why) = choose(&app, &visit, &fields).await {
        return Err(PageError::invalid(format!("choose a queue: {why}")));
    }
    let turn = app.reads.take(Work::Export, &visit.user).await?;
    let (query, mut after) = records(&app, &visit, &fields)?;
    let queue = fields.get("queue").map(|queue| name_of(&visit, queue));
    let queue = queue.transpose()?;
    let extent = Extent::of(&visit.user, queue.as_deref(), &[]);
    let grant = visit.grant(&app, Role::View, extent);
    let mut bytes = format.head();
    let (mut written, mut sparse_pages) = (0, 0);
    let (least, most) = EXPORT_PAGE;
    let mut wanted = least;
    while written < EXPORT_RECORDS && bytes.len() < EXPORT_BYTES {
        let left = u32::try_from(EXPORT_RECORDS - written).unwrap_or(most);
        let (limit, before) = (wanted.min(left), bytes.len());
        let page = in_time(query.page(after, limit)).await?;
        for record in &page.items {
            match format {
                Format::Csv => format.write(&for_a_spreadsheet(record), &mut bytes),
                _ => format.write(record, &mut bytes),
            }
        }
        written += page.items.len();
        sparse_pages += usize::from(page.items.len() < limit as usize);
        wanted = if bytes.len() - before < EXPORT_PAGE_BYTES {
            (wanted * 2).min(most)
        } else {
            (wanted / 2).max(least)
        };
        after = page.next;
        if after.is_none() || sparse_pages >= EXPORT_SPARSE_PAGES {
            break;
        }
    }
    // Many pages take their time.
    grant.check().await.map_err(ended)?;
    let kind = match format {
        Format::Csv => "text/csv; charset=utf-8",
        _ => "application/jsonl",
    };
    let name = format!("attachment; filename=\"records.{format}\"");
    let body = Body::from_stream(file::parts(bytes, turn));
    let mut response = ([(header::CONTENT_TYPE, kind)], body).into_response();
    let headers = response.headers_mut();
    if let Ok(name) = HeaderValue::from_str(&name) {
        headers.insert(header::CONTENT_DISPOSITION, name);
    }
    if let Some(after) = after {
        let query = fields.with(&[("after", &after.to_string())]);
        let link = format!("<{}/records/export?{query}>; rel=\"next\"", app.base);
        if let Ok(link) = HeaderValue::from_str(&link) {
            headers.insert(header::LINK, link);
        }
    }
    Ok(response)
}
