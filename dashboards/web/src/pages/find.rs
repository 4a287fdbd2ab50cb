//! Finds events: by an id alone, or by what an operator knows of them.

use std::sync::Arc;

use askama::Template;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Redirect, Response};
use duly::admin::{EventListCursor, Events};
use duly::event::State as EventState;
use duly::{Bus, EventId, QueueName};

use crate::access::User;
use crate::app::App;
use crate::error::{PageError, Result, html};
use crate::event_rows::{EventRow, rows};
use crate::frame::Frame;
use crate::guard::Visit;
use crate::pages::dead::{SweepRow, sweep_rows};
use crate::pages::locate::{self, Location};
use crate::pages::queue::name_of;
use crate::questions::in_time;
use crate::text::{self, Fields, count, number};
use crate::turns::Work;

/// The rows of a page.
const ROWS: usize = 50;
/// How many queues are named in one question.
const QUEUES_MAX: usize = 1_000;
/// The longest text to look for, in characters.
const TEXT_MAX: usize = 1_024;

/// Where a text is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A key, or else a unique key, or else any text.
    Any,
    Key,
    Unique,
    Text,
}

impl Place {
    const ALL: [(&'static str, Self, &'static str); 4] = [
        ("", Self::Any, "key, or any text"),
        ("key", Self::Key, "key, whole"),
        ("unique", Self::Unique, "unique key, whole"),
        ("text", Self::Text, "key, headers or payload"),
    ];

    fn read(word: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|(name, ..)| *name == word);
        let (_, place, _) = found
            .ok_or_else(|| PageError::invalid("a text is looked for in: key, unique, text"))?;
        Ok(place)
    }
}

/// A filter of events that are not over, as it stands in a query.
#[derive(Clone, Debug)]
pub(crate) struct EventFilter {
    pub(crate) queue: Option<String>,
    pub(crate) state: Option<EventState>,
    text: Option<String>,
    place: Place,
    since: Option<duly::time::Timestamp>,
    until: Option<duly::time::Timestamp>,
}

/// The states of events that are not over.
const STATES: [EventState; 4] = [
    EventState::Scheduled,
    EventState::Ready,
    EventState::Leased,
    EventState::Dead,
];

impl EventFilter {
    pub(crate) fn read(fields: &Fields, visit: &Visit) -> Result<Self> {
        let queue = fields.get("queue");
        let queue = queue.map(|queue| name_of(visit, queue)).transpose()?;
        let state = match fields.get("state") {
            None => None,
            Some(word) => {
                let found = STATES.into_iter().find(|state| state.as_str() == word);
                let wrong = || PageError::invalid("a state is scheduled, ready, leased or dead");
                Some(found.ok_or_else(wrong)?)
            }
        };
        let text = fields.get("q").map(|text| text::cut(text, TEXT_MAX));
        Ok(Self {
            queue: queue.map(|queue| queue.to_string()),
            state,
            text,
            place: Place::read(fields.get("in").unwrap_or_default())?,
            since: text::instant(fields, "since")?,
            until: text::instant(fields, "until")?,
        })
    }

    /// Whether nothing is looked for in particular.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_none()
            && self.text.is_none()
            && self.state.is_none()
            && self.since.is_none()
            && self.until.is_none()
    }

    /// Returns the one place where a text is looked for.
    pub(crate) fn exact_place(&self) -> Result<Place> {
        match (&self.text, self.place) {
            (Some(_), Place::Any) => Err(PageError::invalid(
                "say where the text is looked for: a key, a unique key, or any text",
            )),
            (_, place) => Ok(place),
        }
    }

    /// The filter in words.
    pub(crate) fn words(&self, user: &User) -> String {
        let mut words = vec![user.queues_in_words(self.queue.as_deref())];
        words.extend(self.text.as_ref().map(|text| {
            let text = text::shown(text, 80);
            match self.place {
                Place::Key => format!("with key {text}"),
                Place::Unique => format!("with unique key {text}"),
                Place::Any | Place::Text => format!("that contain “{text}”"),
            }
        }));
        words.extend(self.state.map(|state| format!("that are {state}")));
        words.extend(self.since.map(|at| format!("due since {at}")));
        words.extend(self.until.map(|at| format!("due before {at}")));
        words.join(", ")
    }

    /// Returns the queries that are tried one after the other, until one finds something.
    fn places(&self) -> &'static [Place] {
        match (&self.text, self.place) {
            (None, _) => &[Place::Any],
            (Some(_), Place::Any) => &[Place::Key, Place::Unique, Place::Text],
            (Some(_), Place::Key) => &[Place::Key],
            (Some(_), Place::Unique) => &[Place::Unique],
            (Some(_), Place::Text) => &[Place::Text],
        }
    }

    /// Returns the page, and its query, where the error or the node of an attempt is looked for: the
    /// dead letters, which have the error that they died of, or the records. What neither can look for
    /// is refused.
    fn attempts(&self, fields: &Fields) -> Result<String> {
        let key = fields.text("q");
        let refused = |why: &str| {
            Err(PageError::invalid(format!(
                "errors and nodes are those of attempts that are over: {why}"
            )))
        };
        if !key.is_empty() && matches!(self.place, Place::Unique | Place::Text) {
            return refused("they are found by a key, and by no unique key and no text");
        }
        if self.since.is_some() || self.until.is_some() {
            return refused("they are found by no due time; the records have when attempts ended");
        }
        let page = match self.state {
            None => "records",
            Some(EventState::Dead) => "dead",
            Some(_) => {
                return refused("of events that wait or run they are not known; choose no state");
            }
        };
        let query = fields.with(&[("q", ""), ("in", ""), ("state", ""), ("key", &key)]);
        Ok(format!("/{page}?{query}"))
    }

    /// Returns the query of a place; `queues` are those that may have such events.
    pub(crate) fn events<'a>(
        &self,
        bus: &Bus,
        place: Place,
        queues: impl IntoIterator<Item = &'a QueueName>,
    ) -> Events {
        let mut events = bus.events();
        for queue in queues {
            events = events.queue(queue);
        }
        if let Some(state) = self.state {
            events = events.state(state);
        }
        if let Some(since) = self.since {
            events = events.since(since);
        }
        if let Some(until) = self.until {
            events = events.until(until);
        }
        match (&self.text, place) {
            (None, _) | (_, Place::Any) => events,
            (Some(text), Place::Key) => events.key(text),
            (Some(text), Place::Unique) => events.unique(text),
            (Some(text), Place::Text) => events.contains(text),
        }
    }

    /// Returns the queues that may have such events: the one that is chosen, or those that the user
    /// sees, of very many those that had events when they were counted.
    pub(crate) async fn queues(&self, app: &App, user: &User) -> Result<Vec<QueueName>> {
        if let Some(queue) = &self.queue {
            return Ok(vec![QueueName::new(queue)?]);
        }
        queues_of(app, user).await
    }
}

/// Returns the queues that a user sees, of very many those that had events when they were counted.
pub(crate) async fn queues_of(app: &App, user: &User) -> Result<Vec<QueueName>> {
    let mut known = in_time(app.bus.queues()).await?;
    known.retain(|name| user.sees(name));
    if known.len() <= QUEUES_MAX {
        return Ok(known);
    }
    let picture = app.sampler.picture().await;
    let used = picture.queues.iter().filter(|(name, of)| {
        let stats = &of.stats;
        user.sees(name) && stats.scheduled + stats.ready + stats.leased + stats.dead > 0
    });
    let used: Vec<QueueName> = used.map(|(name, _)| name.clone()).collect();
    if used.len() > QUEUES_MAX {
        return Err(PageError::invalid(format!(
            "choose a queue: {} have events, and {} are looked through at once",
            count(used.len(), "queue", "queues"),
            number(QUEUES_MAX as u64)
        )));
    }
    Ok(used)
}

#[derive(Template)]
#[template(path = "find.html")]
struct FindPage {
    frame: Frame,
    q: String,
    place: String,
    queue: String,
    state: String,
    error: String,
    node: String,
    since: String,
    until: String,
    places: Vec<(&'static str, &'static str)>,
    states: Vec<&'static str>,
    /// Whether something was looked for.
    is_asked: bool,
    /// Whether what is found stays as it is: the page would scan anew each time that it keeps itself
    /// current.
    is_still: bool,
    /// Whether a sweep is under way.
    goes_on: bool,
    rows: Vec<EventRow>,
    /// What the scan covered, if it is worth a word.
    scanned: Option<String>,
    next: Option<String>,
    is_first: bool,
    /// The same filter of records.
    records: String,
    /// The filter, for actions on what it finds.
    query: String,
    sweeps: Vec<SweepRow>,
}

/// Goes to the page of an event whose id is given, or lists those that match.
pub(crate) async fn find(
    State(app): State<Arc<App>>,
    visit: Visit,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let fields = Fields::parse(query.as_deref().unwrap_or_default().as_bytes());
    if visit.is_live {
        // Of what was found nothing is shown anew, and so nothing is looked for.
        let filter = EventFilter::read(&fields, &visit)?;
        return list(&app, &visit, &fields, &filter).await;
    }
    let _turn = app.reads.take(Work::Page, &visit.user).await?;
    let entered = fields.get("id").or_else(|| fields.get("q"));
    let id: Option<EventId> = entered.and_then(|text| text.trim().parse().ok());
    // What looks like an id may be a key.
    let may_be_key = fields.get("id").is_none();
    let is_key = may_be_key && fields.get("in").is_some();
    if let Some(id) = id.filter(|_| !is_key) {
        if let Some(queue) = fields.get("queue") {
            let queue = name_of(&visit, queue)?;
            if !may_be_key || locate::is_known(&app, &queue, id).await? {
                return Ok(to(&app, &queue, id));
            }
        } else {
            match locate::queue_of(&app, &visit, id).await? {
                Location::Queue(queue) => return Ok(to(&app, &queue, id)),
                Location::Unknown(_) if may_be_key => {}
                Location::Unknown(why) => return Err(PageError::not_found(why)),
            }
        }
    } else if let Some(text) = fields.get("id") {
        text.parse::<EventId>()?;
    }
    let filter = EventFilter::read(&fields, &visit)?;
    if fields.get("error").is_some() || fields.get("node").is_some() {
        let to = format!("{}{}", app.base, filter.attempts(&fields)?);
        return Ok(Redirect::to(&to).into_response());
    }
    list(&app, &visit, &fields, &filter).await
}

async fn list(
    app: &Arc<App>,
    visit: &Visit,
    fields: &Fields,
    filter: &EventFilter,
) -> Result<Response> {
    let is_asked = !filter.is_empty();
    let mut found: Option<duly::admin::EventList> = None;
    let after = fields.get("after").map(str::parse::<EventListCursor>);
    let after = after.transpose()?;
    let is_first = after.is_none();
    let mut place = fields.get("in").unwrap_or_default();
    if is_asked && !visit.is_live {
        let queues = filter.queues(app, &visit.user).await?;
        for tried in filter.places() {
            if queues.is_empty() {
                break;
            }
            let events = filter.events(&app.bus, *tried, &queues).limit(ROWS);
            let list = in_time(events.list(after.clone())).await?;
            let is_found = !list.items.is_empty() || list.next.is_some();
            let named = Place::ALL.into_iter().find(|(_, it, _)| it == tried);
            if let (true, Some((name, ..))) = (is_found, named) {
                // The pages after this one look in the same place.
                place = name;
            }
            found = Some(list);
            if is_found {
                break;
            }
        }
    }
    let found = found.as_ref();
    let scanned = found.filter(|list| list.is_partial);
    let next = found.and_then(|list| list.next.as_ref());
    let next = next.map(|next| {
        format!(
            "?{}",
            fields.with(&[("in", place), ("after", &next.to_string())])
        )
    });
    // Records have keys, and no unique keys or texts; their times are those of ends.
    let key = filter.text.clone().filter(|_| matches!(place, "" | "key"));
    let key = key.unwrap_or_default();
    let sweeps = sweep_rows(app, visit);
    html(&FindPage {
        q: fields.text("q"),
        place: fields.text("in"),
        queue: fields.text("queue"),
        state: fields.text("state"),
        error: fields.text("error"),
        node: fields.text("node"),
        since: text::local(fields, "since")?,
        until: text::local(fields, "until")?,
        places: Place::ALL.map(|(name, _, words)| (name, words)).to_vec(),
        states: STATES.map(EventState::as_str).to_vec(),
        is_still: is_asked,
        goes_on: sweeps.iter().any(|sweep| !sweep.is_over),
        is_asked,
        rows: rows(
            found.map_or(&[][..], |list| &list.items),
            app.bus.store_time(),
        ),
        scanned: scanned.map(|list| number(list.scanned as u64)),
        next,
        is_first,
        records: fields.with(&[
            ("q", ""),
            ("in", ""),
            ("state", ""),
            ("after", ""),
            ("since", ""),
            ("until", ""),
            ("key", &key),
        ]),
        query: fields.with(&[("in", place), ("after", "")]),
        sweeps,
        frame: app.frame(visit, "find", "Events"),
    })
}

fn to(app: &App, queue: &QueueName, id: EventId) -> Response {
    let to = format!("{}/queues/{queue}/events/{id}", app.base);
    Redirect::to(&to).into_response()
}
