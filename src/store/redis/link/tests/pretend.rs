//! A fake server: it greets like a real one and then acts as a test demands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// The action on a command other than the greeting.
#[derive(Clone, Debug)]
pub(in crate::store::redis) enum Act {
    /// Sends this reply, to every command.
    Say(&'static str),
    /// Closes the connection after reading the command.
    Close,
    /// Sends this much, and closes the connection.
    SayAndClose(&'static str),
    /// Sends nothing and stays connected.
    Hang,
    /// Sends this instead of a greeting.
    Greet(&'static str),
    /// Sends this to every further command of a connection that was open when this act came first,
    /// and `:1` on later ones.
    SayToOld(&'static str),
}

/// Returns the URL of a server that does `act` until the runtime ends.
pub(in crate::store::redis) async fn server(act: Act) -> String {
    let port = listen(vec![act]).await;
    format!("redis://127.0.0.1:{port}")
}

/// Returns the URL of a cluster of one node that does these acts, one for each command, and then
/// repeats the last.
pub(in crate::store::redis) async fn cluster(acts: Vec<Act>) -> String {
    let port = listen(acts).await;
    format!("redis-cluster://127.0.0.1:{port}")
}

async fn listen(acts: Vec<Act>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("it listens").port();
    let acts = Arc::new(Mutex::new(acts));
    tokio::spawn(async move {
        let has_come = Arc::new(AtomicBool::new(false));
        while let Ok((stream, _)) = listener.accept().await {
            let has_come = Arc::clone(&has_come);
            // Some acts end a connection in the middle of a command.
            tokio::spawn(serve(stream, port, Arc::clone(&acts), has_come));
        }
    });
    port
}

async fn serve(
    stream: TcpStream,
    port: u16,
    acts: Arc<Mutex<Vec<Act>>>,
    has_come: Arc<AtomicBool>,
) -> std::io::Result<()> {
    let is_old = !has_come.load(Ordering::Relaxed);
    let mut stream = BufReader::new(stream);
    let slots = format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:{port}\r\n");
    loop {
        let command = read(&mut stream).await?;
        let greeting = match &next(&acts, false) {
            Act::Greet(greeting) => greeting,
            _ => "%1\r\n+server\r\n+redis\r\n",
        };
        let reply = match command.as_str() {
            "HELLO" => greeting,
            "CLIENT" => "+OK\r\n",
            "PING" => "+PONG\r\n",
            "CLUSTER" => &slots,
            _ => match next(&acts, true) {
                Act::Say(reply) => reply,
                Act::Close | Act::Greet(_) => return Ok(()),
                Act::SayAndClose(reply) => {
                    stream.write_all(reply.as_bytes()).await?;
                    return Ok(());
                }
                Act::Hang => continue,
                Act::SayToOld(reply) if is_old => {
                    has_come.store(true, Ordering::Relaxed);
                    reply
                }
                Act::SayToOld(_) => ":1\r\n",
            },
        };
        stream.write_all(reply.as_bytes()).await?;
    }
}

/// Returns the next act, and removes it unless it is the last.
fn next(acts: &Mutex<Vec<Act>>, is_done: bool) -> Act {
    let mut acts = acts.lock();
    let act = acts[0].clone();
    if is_done && acts.len() > 1 {
        acts.remove(0);
    }
    act
}

/// Reads one command and returns its first word.
async fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    let parts = number(stream).await?;
    let mut first = None;
    for _ in 0..parts {
        let mut part = vec![0; number(stream).await? + 2];
        stream.read_exact(&mut part).await?;
        part.truncate(part.len() - 2);
        first.get_or_insert(part);
    }
    let first = first.unwrap_or_default();
    Ok(String::from_utf8_lossy(&first).to_ascii_uppercase())
}

/// Reads the number of a line like `*3` or `$5`.
async fn number(stream: &mut BufReader<TcpStream>) -> std::io::Result<usize> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let digits = line.trim_end().get(1..).unwrap_or_default();
    digits.parse().map_err(std::io::Error::other)
}
