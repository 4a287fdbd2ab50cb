//! A server that only pretends: it greets like one and then says what a test wants it to say.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What it does about the first command after the greeting.
#[derive(Clone, Debug)]
pub(in crate::store::redis) enum Act {
    /// Answers this, and goes on to answer it.
    Say(&'static str),
    /// Closes the connection, having read the command.
    Close,
    /// Answers this much, and closes the connection.
    SayAndClose(&'static str),
    /// Says nothing and stays.
    Hang,
    /// Answers this in the place of a greeting.
    Greet(&'static str),
}

/// The URL of a server that does `act` until the runtime ends.
pub(in crate::store::redis) async fn server(act: Act) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("it listens").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A connection that ends in the middle of a command is what some acts are about.
            tokio::spawn(serve(stream, act.clone()));
        }
    });
    format!("redis://127.0.0.1:{port}")
}

async fn serve(stream: TcpStream, act: Act) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let command = read(&mut stream).await?;
        let answer = match (command.as_str(), &act) {
            ("HELLO", Act::Greet(greeting)) => greeting,
            ("HELLO", _) => "%1\r\n+server\r\n+redis\r\n",
            ("CLIENT", _) => "+OK\r\n",
            (_, Act::Say(answer)) => answer,
            (_, Act::Close | Act::Greet(_)) => return Ok(()),
            (_, Act::SayAndClose(answer)) => {
                stream.write_all(answer.as_bytes()).await?;
                return Ok(());
            }
            (_, Act::Hang) => continue,
        };
        stream.write_all(answer.as_bytes()).await?;
    }
}

/// Reads one command and answers its first word.
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

/// The number of a line like `*3` or `$5`.
async fn number(stream: &mut BufReader<TcpStream>) -> std::io::Result<usize> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let digits = line.trim_end().get(1..).unwrap_or_default();
    digits.parse().map_err(std::io::Error::other)
}
