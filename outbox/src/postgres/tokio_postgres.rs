//! PostgreSQL by tokio-postgres.

use std::error::Error as _;
use std::sync::Arc;

use duly::{Error, ErrorKind, Result};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, GenericClient, SimpleQueryMessage, Socket, Transaction};

use crate::postgres::session::Session;
use crate::postgres::{INSERT_DONE, INSERT_EVENT, INSERT_EVENTS};
use crate::session::{SqlError, SqlResult, TextRow};
use crate::transaction::Done;

/// Opens a connection.
type Connect = Arc<dyn Fn() -> BoxFuture<'static, SqlResult<Connection>> + Send + Sync>;

/// A connection, whose task ends with it.
enum Connection {
    Own(Client, AbortHandle),
    #[cfg(feature = "url")]
    OfUrl(duly::__outbox::postgres::PgConnection),
}

impl Connection {
    fn client(&self) -> &Client {
        match self {
            Self::Own(client, _) => client,
            #[cfg(feature = "url")]
            Self::OfUrl(connection) => &connection.client,
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        match self {
            Self::Own(_, task) => task.abort(),
            #[cfg(feature = "url")]
            Self::OfUrl(_) => {}
        }
    }
}

/// A session of its own, opened again when it is lost.
pub(crate) struct TokioSession {
    connect: Connect,
    /// Taken out while a request is under way, so that one that is dropped loses it.
    open: Mutex<Option<Connection>>,
}

impl TokioSession {
    pub(crate) fn new<T>(config: Config, tls: T) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + 'static,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let connect = move || -> BoxFuture<'static, SqlResult<Connection>> {
            let (config, tls) = (config.clone(), tls.clone());
            Box::pin(async move {
                let (client, connection) = config.connect(tls).await.map_err(|it| of(&it))?;
                let task = tokio::spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!(%error, "the connection of a relay has ended");
                    }
                });
                Ok(Connection::Own(client, task.abort_handle()))
            })
        };
        Self::by(Arc::new(connect))
    }

    /// A session on connections of a URL.
    #[cfg(feature = "url")]
    pub(crate) fn of_url(connector: duly::__outbox::postgres::Connector) -> Self {
        let connector = Arc::new(connector);
        Self::by(Arc::new(move || {
            let connector = Arc::clone(&connector);
            Box::pin(async move {
                let connection = connector.connect().await.map_err(|it| of(&it))?;
                Ok(Connection::OfUrl(connection))
            })
        }))
    }

    fn by(connect: Connect) -> Self {
        let open = Mutex::new(None);
        Self { connect, open }
    }
}

impl Session for TokioSession {
    fn run<'a>(&'a mut self, sql: &'a str) -> BoxFuture<'a, SqlResult<Vec<TextRow>>> {
        let open = self.open.get_mut().take();
        Box::pin(async move {
            let connection = match open.filter(|it| !it.client().is_closed()) {
                Some(connection) => connection,
                None => (self.connect)().await?,
            };
            let reply = connection.client().simple_query(sql).await;
            let rows = match reply {
                Ok(messages) => texts(messages),
                Err(error) => {
                    let error = of(&error);
                    let is_usable = error.code.is_some()
                        && !error.is_read_only()
                        && !connection.client().is_closed();
                    if !is_usable || connection.client().simple_query("rollback").await.is_err() {
                        return Err(error);
                    }
                    Err(error)
                }
            };
            *self.open.get_mut() = Some(connection);
            rows
        })
    }
}

fn texts(messages: Vec<SimpleQueryMessage>) -> SqlResult<Vec<TextRow>> {
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let columns = |row: tokio_postgres::SimpleQueryRow| {
        let text = |at: usize| {
            let text = row.try_get(at).map_err(|it| of(&it))?;
            Ok(text.map(str::to_owned))
        };
        (0..row.len()).map(text).collect()
    };
    rows.map(columns).collect()
}

fn of(error: &tokio_postgres::Error) -> SqlError {
    SqlError {
        code: error.code().map(|code| code.code().to_owned()),
        text: match error.as_db_error() {
            Some(error) => error.message().to_owned(),
            None => match error.source() {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            },
        },
    }
}

async fn insert_events<C: GenericClient>(client: &C, events: Vec<Vec<u8>>) -> Result<()> {
    let inserted = match events.as_slice() {
        [event] => {
            let params: [(&(dyn ToSql + Sync), Type); 1] = [(event, Type::BYTEA)];
            client.query_typed(INSERT_EVENT, &params).await
        }
        _ => {
            let params: [(&(dyn ToSql + Sync), Type); 1] = [(&events, Type::BYTEA_ARRAY)];
            client.query_typed(INSERT_EVENTS, &params).await
        }
    };
    inserted.map(drop).map_err(|error| failed(&error))
}

async fn insert_done<C: GenericClient>(client: &C, done: Done) -> Result<bool> {
    let params: [(&(dyn ToSql + Sync), Type); 3] = [
        (&done.event, Type::TEXT),
        (&done.attempt, Type::INT4),
        (&done.lease, Type::TEXT),
    ];
    let sql = format!("{INSERT_DONE} returning 1");
    let rows = client.query_typed(&sql, &params).await;
    Ok(!rows.map_err(|error| failed(&error))?.is_empty())
}

fn failed(error: &tokio_postgres::Error) -> Error {
    let SqlError { code, text } = of(error);
    let error = SqlError { code, text };
    match error.code.as_deref() {
        // It may be tried again as a whole, as any transaction.
        Some("40001" | "40P01") => Error::new(ErrorKind::Unavailable, error.text),
        _ => error.into(),
    }
}

impl crate::transaction::Transaction for Transaction<'_> {
    async fn insert_events(&mut self, events: Vec<Vec<u8>>) -> Result<()> {
        insert_events(&*self, events).await
    }

    async fn insert_done(&mut self, done: Done) -> Result<bool> {
        insert_done(&*self, done).await
    }
}

impl crate::transaction::Transaction for Client {
    async fn insert_events(&mut self, events: Vec<Vec<u8>>) -> Result<()> {
        insert_events(&*self, events).await
    }

    async fn insert_done(&mut self, done: Done) -> Result<bool> {
        insert_done(&*self, done).await
    }
}
