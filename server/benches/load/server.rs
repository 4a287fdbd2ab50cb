//! The server under load, in a process of its own, and a client of a kept connection.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server in a process of its own, which is killed at the end.
pub(crate) struct Server {
    process: Child,
    pub(crate) api: SocketAddr,
    pub(crate) token: String,
    _folder: tempfile::TempDir,
}

impl Server {
    pub(crate) async fn start(store: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = match store {
            None => format!("sqlite:{}", folder.path().join("jobs.db").display()),
            Some(url) => format!("{url}?prefix=duly-load-{:016x}", fastrand::u64(..)),
        };
        let (api, admin) = (free_address().await, free_address().await);
        let mut server = Command::new(env!("CARGO_BIN_EXE_duly"));
        server.args(["serve", "--log-level", "error", "--store", &store]);
        server.args(["--listen", &api.to_string()]);
        server.args(["--admin-listen", &admin.to_string()]);
        let server = server.current_dir(folder.path()).stdout(Stdio::null());
        let process = server.spawn().unwrap();
        let ready = async {
            while TcpStream::connect(admin).await.is_err() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, ready).await.unwrap();
        let mut client = Client::new(admin, String::new()).await;
        let made = client.send("POST", "/token/ns?description=load", b"").await;
        let (status, body) = made;
        assert_eq!(status, 201, "a token");
        let token = text_after(&body, "\"token\"").expect("a token").to_owned();
        Self {
            process,
            api,
            token,
            _folder: folder,
        }
    }

    /// Returns how much of the memory of the machine it has, in bytes; 0 where that is not known.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) * 1_024
    }

    /// Returns how much time of processors it has used, in seconds; 0 where that is not known.
    pub(crate) fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id()));
        let stat = stat.unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let ticks = fields.split_whitespace().skip(11).take(2);
        ticks.filter_map(|it| it.parse::<f64>().ok()).sum::<f64>() / 100.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

/// A connection that is kept open.
pub(crate) struct Client {
    stream: TcpStream,
    token: String,
    read: Vec<u8>,
}

impl Client {
    pub(crate) async fn new(address: SocketAddr, token: String) -> Self {
        Self::of(TcpStream::connect(address).await.unwrap(), token)
    }

    /// Connects from an address of this machine, so that ports do not run out.
    pub(crate) async fn from(source: SocketAddr, address: SocketAddr, token: String) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(source).unwrap();
        Self::of(socket.connect(address).await.unwrap(), token)
    }

    fn of(stream: TcpStream, token: String) -> Self {
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            token,
            read: Vec::new(),
        }
    }

    /// Sends a request; returns the status and the body of the reply.
    pub(crate) async fn send(&mut self, method: &str, path: &str, body: &[u8]) -> (u16, String) {
        self.request(method, path, body).await;
        self.reply().await
    }

    /// Waits for the reply to a request.
    pub(crate) async fn reply(&mut self) -> (u16, String) {
        self.read.clear();
        loop {
            if let Some(reply) = reply(&self.read) {
                return reply;
            }
            let read = self.stream.read_buf(&mut self.read).await.unwrap();
            assert_ne!(read, 0, "the server has closed the connection");
        }
    }

    /// Sends a request, and waits for nothing.
    pub(crate) async fn request(&mut self, method: &str, path: &str, body: &[u8]) {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: load\r\nX-Token: {}\r\nContent-Length: {}\r\n\r\n",
            self.token,
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.stream.write_all(&request).await.unwrap();
    }
}

/// Returns the status and the body of a reply that is here as a whole.
fn reply(bytes: &[u8]) -> Option<(u16, String)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    });
    (body.len() >= length.unwrap_or(0)).then(|| (status, body.to_owned()))
}

/// Returns the text of a field of JSON.
pub(crate) fn text_after<'a>(body: &'a str, field: &str) -> Option<&'a str> {
    let (_, rest) = body.split_once(field)?;
    rest.split('"').nth(1)
}
