//! A connection that breaks where a test wants it to.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::address::{Address, Stream};

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection ends; the server never sees the request.
    CutBefore,
    /// The server carries the request out; the connection ends before the answer.
    CutAfter,
    /// The server carries the request out; the connection ends in the middle of the answer.
    CutWithin,
    /// The request is passed on after this time.
    Delay(Duration),
    /// Nothing is passed on in either direction any more, and the connection stays.
    Hang,
    /// The server never sees the request; the client gets this for each command in it. Nothing of
    /// the connection must be on its way.
    Say(&'static str),
    /// The piece waits, and it is asked again what shall happen to it; others are passed on.
    Wait,
}

/// What a proxy has seen and done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) connections: u64,
    /// Pieces that clients sent; a piece may hold several commands.
    pub(crate) requests: u64,
    /// Connections that were cut.
    pub(crate) cuts: u64,
    /// Connections that were turned away.
    pub(crate) refused: u64,
}

type Choose = dyn FnMut(&[u8]) -> Option<Fault> + Send;

/// A port of 127.0.0.1 before a server.
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    port: u16,
}

struct OpenConnection {
    number: u64,
    client: TcpStream,
    answers: Arc<Mutex<Answers>>,
}

struct Shared {
    server: Address,
    choose: Mutex<Box<Choose>>,
    /// Bytes of requests, and as many that the server gets in their place.
    swaps: Mutex<Vec<(String, String)>>,
    open: Mutex<Vec<OpenConnection>>,
    /// What clients sent on connections that were forgotten.
    swallowed: Mutex<Vec<Vec<u8>>>,
    is_closed: AtomicBool,
    refuses: AtomicBool,
    connections: AtomicU64,
    requests: AtomicU64,
    cuts: AtomicU64,
    refused: AtomicU64,
}

impl Proxy {
    /// Passes on whatever comes, until it is told otherwise.
    pub(crate) fn before(server: Address) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it listens").port();
        let shared = Arc::new(Shared {
            server,
            choose: Mutex::new(Box::new(|_| None)),
            swaps: Mutex::default(),
            open: Mutex::default(),
            swallowed: Mutex::default(),
            is_closed: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            cuts: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Self { shared, port }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Asks for each piece that a client sends what shall happen to it.
    pub(crate) fn on_request(&self, choose: impl FnMut(&[u8]) -> Option<Fault> + Send + 'static) {
        *lock(&self.shared.choose) = Box::new(choose);
    }

    /// From now on replaces the one text of each pair by the other, of the same length, in requests.
    pub(crate) fn swap(&self, swaps: Vec<(String, String)>) {
        assert!(swaps.iter().all(|(one, other)| one.len() == other.len()));
        *lock(&self.shared.swaps) = swaps;
    }

    /// Passes everything on again. A connection that hangs goes on hanging.
    pub(crate) fn heal(&self) {
        self.refuse(false);
        self.on_request(|_| None);
    }

    /// From now on turns new connections away, or no longer does.
    pub(crate) fn refuse(&self, refuses: bool) {
        self.shared.refuses.store(refuses, Ordering::Relaxed);
    }

    /// Cuts every connection there is.
    pub(crate) fn cut_all(&self) {
        let open = std::mem::take(&mut *lock(&self.shared.open));
        let cuts = open.len() as u64;
        self.shared.cuts.fetch_add(cuts, Ordering::Relaxed);
        for connection in open {
            connection.client.shutdown(Shutdown::Both).ok();
        }
    }

    /// Forgets every connection there is, as a NAT does that has seen nothing on it for long: neither
    /// side is told, and nothing arrives any more. Returns how many there are.
    pub(crate) fn forget_all(&self) -> usize {
        let open = lock(&self.shared.open);
        for connection in open.iter() {
            *lock(&connection.answers) = Answers::Swallow;
        }
        open.len()
    }

    /// What clients have sent on connections that were forgotten, since the last call.
    pub(crate) fn take_swallowed(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut *lock(&self.shared.swallowed))
    }

    /// Cuts every connection and turns new ones away for a while, again and again.
    pub(crate) fn flap(&self, times: u32, down: Duration, up: Duration) {
        for _ in 0..times {
            self.refuse(true);
            self.cut_all();
            thread::sleep(down);
            self.refuse(false);
            thread::sleep(up);
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Counts {
            connections: read(&self.shared.connections),
            requests: read(&self.shared.requests),
            cuts: read(&self.shared.cuts),
            refused: read(&self.shared.refused),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        TcpStream::connect(("127.0.0.1", self.port)).ok(); // wakes who accepts
        self.cut_all();
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.is_closed.load(Ordering::Relaxed) {
            return;
        }
        let Ok(client) = client else { continue };
        let server = if shared.refuses.load(Ordering::Relaxed) {
            None
        } else {
            shared.server.connect().ok()
        };
        let Some(server) = server else {
            shared.refused.fetch_add(1, Ordering::Relaxed);
            continue; // dropped, and so closed
        };
        client.set_nodelay(true).ok();
        let number = shared.connections.fetch_add(1, Ordering::Relaxed);
        let clones = (client.try_clone(), client.try_clone(), server.try_clone());
        let (Ok(kept), Ok(to_client), Ok(from_server)) = clones else {
            continue;
        };
        let answers = Arc::new(Mutex::new(Answers::Pass));
        lock(&shared.open).push(OpenConnection {
            number,
            client: kept,
            answers: Arc::clone(&answers),
        });
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            let seen = Arc::clone(&answers);
            let back = thread::spawn(move || pass_answers(from_server, to_client, &seen));
            let cuts = pass_requests(&client, &server, &shared, &answers);
            if cuts {
                shared.cuts.fetch_add(1, Ordering::Relaxed);
            } else {
                server.shutdown(Shutdown::Both);
            }
            back.join().ok();
            server.shutdown(Shutdown::Both);
            client.shutdown(Shutdown::Both).ok();
            lock(&shared.open).retain(|other| other.number != number);
        });
    }
}

/// What becomes of the answers of one connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answers {
    Pass,
    Swallow,
    /// They are passed on when the server has sent the last of them, and only the first half.
    Halve,
}

/// Passes on what the client sends until either side ends or a fault cuts; answers whether one did.
///
/// After a cut the server has seen the end of the requests, and what it still answers is its last.
fn pass_requests(
    mut client: &TcpStream,
    server: &Stream,
    shared: &Shared,
    answers: &Mutex<Answers>,
) -> bool {
    let Ok(mut server) = server.try_clone() else {
        return false;
    };
    let mut piece = vec![0; 256 * 1024];
    // The beginning of a command whose rest has not come yet, where commands are answered here.
    let mut begun = Vec::new();
    while let Ok(length @ 1..) = client.read(&mut piece) {
        shared.requests.fetch_add(1, Ordering::Relaxed);
        if *lock(answers) == Answers::Swallow {
            lock(&shared.swallowed).push(piece[..length].to_vec());
            continue; // it hangs
        }
        let mut fault = lock(&shared.choose)(&piece[..length]);
        while matches!(fault, Some(Fault::Wait)) {
            thread::sleep(Duration::from_millis(1));
            fault = lock(&shared.choose)(&piece[..length]);
        }
        match fault {
            Some(Fault::CutBefore) => {
                server.shutdown(Shutdown::Both);
                return true;
            }
            Some(Fault::Hang) => {
                *lock(answers) = Answers::Swallow;
                continue;
            }
            Some(Fault::Say(answer)) => {
                begun.extend_from_slice(&piece[..length]);
                let (many, used) = commands(&begun);
                begun.drain(..used);
                let answers = answer.repeat(many);
                if client.write_all(answers.as_bytes()).is_err() {
                    return false;
                }
                continue;
            }
            Some(Fault::Delay(time)) => thread::sleep(time),
            Some(Fault::CutAfter) => *lock(answers) = Answers::Swallow,
            Some(Fault::CutWithin) => *lock(answers) = Answers::Halve,
            Some(Fault::Wait) | None => {}
        }
        begun.extend_from_slice(&piece[..length]);
        for (one, other) in lock(&shared.swaps).iter() {
            while let Some(at) = begun.windows(one.len()).position(|it| it == one.as_bytes()) {
                begun[at..at + one.len()].copy_from_slice(other.as_bytes());
            }
        }
        if server.write_all(&begun).is_err() {
            return false;
        }
        begun.clear();
        if matches!(fault, Some(Fault::CutAfter | Fault::CutWithin)) {
            // A server carries out all that was sent before it sees the end.
            server.shutdown(Shutdown::Write);
            return true;
        }
    }
    false
}

/// How many whole commands the bytes begin with, and how long those are.
fn commands(bytes: &[u8]) -> (usize, usize) {
    let (mut many, mut used) = (0, 0);
    while let Some(length) = command(&bytes[used..]) {
        (many, used) = (many + 1, used + length);
    }
    (many, used)
}

/// How long the command is that the bytes begin with, if it is whole.
fn command(bytes: &[u8]) -> Option<usize> {
    let line = |from: usize| {
        let end = from
            + bytes
                .get(from..)?
                .windows(2)
                .position(|two| two == b"\r\n")?;
        let number = std::str::from_utf8(bytes.get(from + 1..end)?).ok()?;
        Some((number.parse::<usize>().ok()?, end + 2))
    };
    let (parts, mut at) = line(0)?;
    for _ in 0..parts {
        let (length, begins) = line(at)?;
        at = begins + length + 2;
    }
    (at <= bytes.len()).then_some(at)
}

/// Passes on what the server answers, or less, until it ends.
fn pass_answers(mut server: Stream, mut client: TcpStream, answers: &Mutex<Answers>) {
    let mut piece = vec![0; 256 * 1024];
    let mut held = Vec::new();
    while let Ok(length @ 1..) = server.read(&mut piece) {
        let mode = *lock(answers);
        match mode {
            Answers::Pass if client.write_all(&piece[..length]).is_err() => break,
            Answers::Halve => held.extend_from_slice(&piece[..length]),
            Answers::Pass | Answers::Swallow => {}
        }
    }
    client.write_all(&held[..held.len() / 2]).ok();
    client.shutdown(Shutdown::Both).ok();
}
