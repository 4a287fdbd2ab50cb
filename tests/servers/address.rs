//! Where a server listens.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

/// A socket in a folder, or a port of 127.0.0.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Unix(PathBuf),
    Tcp(u16),
}

impl Address {
    pub(super) fn connect(&self) -> io::Result<Stream> {
        Ok(match self {
            Self::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
            Self::Tcp(port) => {
                let stream = TcpStream::connect(("127.0.0.1", *port))?;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
        })
    }

    /// Whether a server answers `PING` there, and not that it is still loading.
    pub(super) fn answers(&self) -> bool {
        let ping = || -> io::Result<bool> {
            let mut stream = self.connect()?;
            stream.patience(Duration::from_secs(1))?;
            stream.write_all(b"PING\r\n")?;
            let mut answer = [0; 5];
            stream.read_exact(&mut answer)?;
            Ok(answer == *b"+PONG")
        };
        ping().unwrap_or(false)
    }
}

/// A connection to an [`Address`].
#[derive(Debug)]
pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
        })
    }

    /// Ends one direction or both, for every clone.
    pub(super) fn shutdown(&self, how: Shutdown) {
        match self {
            Self::Unix(stream) => stream.shutdown(how).ok(),
            Self::Tcp(stream) => stream.shutdown(how).ok(),
        };
    }

    /// How long a read may take.
    pub(super) fn patience(&self, time: Duration) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(Some(time)),
            Self::Tcp(stream) => stream.set_read_timeout(Some(time)),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(into),
            Self::Tcp(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A port that nobody listens on, and never the same twice.
///
/// Below those that the kernel gives to outgoing connections. The port 10,000 above is free as
/// well: nodes of a cluster talk to each other there.
pub(super) fn free_port() -> u16 {
    static GIVEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);
    let mut given = GIVEN.lock().expect("nobody panics with it");
    let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
    (0..1_000)
        .map(|_| fastrand::u16(10_000..22_000))
        .find(|port| is_free(*port) && is_free(port + 10_000) && given.insert(*port))
        .expect("there are free ports")
}
