//! The server under load, in a process of its own, and a client of a kept connection.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

/// How long anything may take on a busy machine; what hangs takes for ever.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for something for a bounded time, and panics with its name when it does not come.
pub(crate) async fn within<F: Future>(what: &str, wait: F) -> F::Output {
    let waited = timeout(PATIENCE, wait).await;
    waited.unwrap_or_else(|_| panic!("not within {PATIENCE:?}: {what}"))
}

/// A server in a process of its own, which is killed at the end.
pub(crate) struct Server {
    process: Child,
    pub(crate) api: SocketAddr,
    admin: SocketAddr,
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
        within("the server listens", ready).await;
        let mut client = Client::new(admin, String::new()).await;
        let made = client.send("POST", "/token/ns?description=load", b"").await;
        let (status, body) = made;
        assert_eq!(status, 201, "a token");
        let token = text_after(&body, "\"token\"").expect("a token").to_owned();
        Self {
            process,
            api,
            admin,
            token,
            _folder: folder,
        }
    }

    /// Waits until so many polls wait.
    pub(crate) async fn wait_for_polls(&self, many: usize) {
        let mut client = Client::new(self.admin, String::new()).await;
        let mut last = String::new();
        let wait = async {
            while last.parse::<f64>().unwrap_or_default() < many as f64 {
                sleep(Duration::from_millis(50)).await;
                let (status, page) = client.send("GET", "/metrics", b"").await;
                assert_eq!(status, 200, "metrics");
                let mut lines = page.lines();
                let waiting = lines.find_map(|line| line.strip_prefix("duly_polls_waiting "));
                waiting.unwrap_or_default().clone_into(&mut last);
            }
        };
        if timeout(PATIENCE, wait).await.is_err() {
            panic!("not within {PATIENCE:?}: {many} polls wait; {last} do");
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
    /// The last request: its method and path.
    sent: String,
    read: Vec<u8>,
}

impl Client {
    pub(crate) async fn new(address: SocketAddr, token: String) -> Self {
        let connect = TcpStream::connect(address);
        Self::of(within("a connection", connect).await.unwrap(), token)
    }

    /// Connects from an address of this machine, so that ports do not run out.
    pub(crate) async fn from(source: SocketAddr, address: SocketAddr, token: String) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(source).unwrap();
        let connect = socket.connect(address);
        Self::of(within("a connection", connect).await.unwrap(), token)
    }

    fn of(stream: TcpStream, token: String) -> Self {
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            token,
            sent: String::new(),
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
        let (stream, read) = (&mut self.stream, &mut self.read);
        read.clear();
        let wait = async {
            loop {
                if let Some(reply) = reply(read) {
                    return reply;
                }
                let more = stream.read_buf(read).await.unwrap();
                assert_ne!(more, 0, "the server has closed the connection");
            }
        };
        within(&self.sent, wait).await
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
        self.sent = format!("{method} {path}");
        let write = self.stream.write_all(&request);
        within(&self.sent, write).await.unwrap();
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
