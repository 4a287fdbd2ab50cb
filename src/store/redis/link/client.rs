//! A client of the servers of a URL, for a program that keeps values of its own beside its store.

use std::fmt;

use redis::Value;
pub use redis::{Cmd, FromRedisValue, Pipeline, cmd, pipe};

use super::managed::ManagedConnection;
use super::masters;
pub use super::masters::Master;
use super::options::ConnectionOptions;
use super::preflight::{self, Needs, Permission, Permissions};
use super::reads::read;
use super::startup;
use super::url::Target;
use crate::error::{Error, Result};

/// What a client is, and needs.
#[derive(Clone, Copy, Debug)]
pub struct ClientOptions {
    /// The name of its connection in the server's `CLIENT LIST`.
    pub name: &'static str,
    /// What all its keys begin with, behind the prefix of the URL and before a colon. A cluster has
    /// them in one slot if it is in braces.
    pub tag: &'static str,
    /// What is lost when a server evicts its keys: `tokens`.
    pub values: &'static str,
    /// The commands that it sends, each on one key that comes first, by itself or in scripts.
    pub commands: &'static [&'static str],
}

/// A script of a client.
#[derive(Debug)]
pub struct ClientScript {
    text: &'static str,
    hash: String,
}

impl ClientScript {
    /// Creates a script from its text.
    #[must_use]
    pub fn new(text: &'static str) -> Self {
        let hash = redis::Script::new(text).get_hash().to_owned();
        Self { text, hash }
    }
}

/// A connection with the URLs, the checks, the recovery and the errors of a store. Its clones share
/// it.
#[derive(Clone)]
pub struct Client {
    link: ManagedConnection,
    prefix: String,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("link", &self.link)
            .field("prefix", &self.prefix)
            .finish()
    }
}

impl Client {
    /// Connects to the servers of `url`, and verifies that they can be used, as
    /// [`RedisStore::open`](crate::store::RedisStore::open) does; it waits where that waits.
    ///
    /// # Errors
    ///
    /// As [`RedisStore::open`](crate::store::RedisStore::open).
    pub async fn open(url: &str, options: ClientOptions) -> Result<Self> {
        let target = Target::parse(url)?;
        startup::repeat(&target, || Self::try_open(&target, options)).await
    }

    async fn try_open(target: &Target, options: ClientOptions) -> Result<Self> {
        let connection = ConnectionOptions::of(target).named(options.name);
        let link = ManagedConnection::open(target, &connection).await?;
        let prefix = match &target.choices.prefix {
            Some(prefix) => format!("{prefix}:{}", options.tag),
            None => options.tag.to_owned(),
        };
        let key = format!("{prefix}:check");
        let commands = options.commands.iter();
        let permissions = Permissions {
            needed: commands.map(|it| Permission::on_key(it, &key)).collect(),
            prefix: prefix.clone(),
            optional: Vec::new(),
            untested: &[],
        };
        let needs = Needs {
            values: options.values,
            permissions,
        };
        preflight::check(&link, target, |_| std::future::ready(needs)).await?;
        Ok(Self { link, prefix })
    }

    /// Returns the whole name of a key.
    #[must_use]
    pub fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.prefix)
    }

    /// Sends a command that changes nothing; it is repeated once when its reply is lost.
    ///
    /// # Errors
    ///
    /// Any kind but [`Unknown`](crate::ErrorKind::Unknown).
    pub async fn read<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
        // Boxed, here and below: callers are large already, and a call is far larger.
        value(Box::pin(read(|| self.link.send(command))).await?)
    }

    /// Sends a command.
    ///
    /// # Errors
    ///
    /// [`Unknown`](crate::ErrorKind::Unknown) when it may have happened; any other kind when it has
    /// not.
    pub async fn send<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
        value(Box::pin(self.link.send(command)).await?)
    }

    /// Returns whether the servers are a cluster.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        self.link.is_cluster()
    }

    /// Returns the server that has a key, which is a whole name.
    #[must_use]
    pub fn master_of(&self, key: &str) -> Master {
        Master::of(&self.link, key)
    }

    /// Returns all servers that take writes.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub async fn masters(&self) -> Result<Vec<Master>> {
        Box::pin(masters::masters(&self.link)).await
    }

    /// Sends several commands in one pipeline; their replies come in order.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send); the first of the commands that is refused is the error.
    pub async fn send_all<T: FromRedisValue>(
        &self,
        master: Master,
        commands: &Pipeline,
    ) -> Result<T> {
        let replies = Box::pin(master.send_all(&self.link, commands)).await?;
        value(Value::Array(replies))
    }

    /// Sends several commands that change nothing, as [`send_all`](Self::send_all) does; they are
    /// repeated once when their replies are lost.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub async fn read_all<T: FromRedisValue>(
        &self,
        master: Master,
        commands: &Pipeline,
    ) -> Result<T> {
        let replies = Box::pin(read(|| master.send_all(&self.link, commands))).await?;
        value(Value::Array(replies))
    }

    /// Runs a script on keys, which are whole names.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub async fn run<T: FromRedisValue>(
        &self,
        script: &ClientScript,
        keys: &[String],
        arguments: &[&[u8]],
    ) -> Result<T> {
        let mut call = cmd("EVALSHA");
        call.arg(&script.hash).arg(keys.len()).arg(keys);
        call.arg(arguments);
        value(Box::pin(self.link.run_text(script.text, &call)).await?)
    }
}

fn value<T: FromRedisValue>(value: Value) -> Result<T> {
    redis::from_redis_value(value)
        .map_err(|error| Error::corrupt("a reply of Redis could not be decoded").because(error))
}
