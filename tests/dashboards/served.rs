//! What is answered at the address of `metrics.listen`.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::dashboards::load::PROGRAM;
use crate::servers::get;

/// The head and the body of the answer to one request.
fn asked(method: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(PROGRAM.address).unwrap();
    let patience = Some(Duration::from_secs(60));
    stream.set_read_timeout(patience).unwrap();
    write!(stream, "{method} {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), body.to_owned())
}

#[test]
fn the_page_says_what_format_it_has() {
    let (head, body) = asked("GET", "/metrics");
    assert!(head.starts_with("http/1.0 200 "), "{head}");
    assert!(head.contains("content-type: text/plain"), "{head}");
    assert!(body.contains("# TYPE duly_lateness_seconds histogram\n"));
}

#[test]
fn a_check_of_health_costs_no_page() {
    let (status, body) = get(PROGRAM.address, "/health").unwrap();
    assert_eq!((status, body.trim_end()), (200, "OK"));
}

#[test]
fn who_says_nothing_or_nonsense_keeps_nobody_else_from_the_page() {
    let silent: Vec<_> = (0..16)
        .map(|_| TcpStream::connect(PROGRAM.address).unwrap())
        .collect();
    let mut loud = TcpStream::connect(PROGRAM.address).unwrap();
    loud.write_all(&[0xFF; 200_000]).ok(); // it may hang up before all is written
    assert_eq!(
        asked("GET", "/metrics").0.lines().next(),
        Some("http/1.0 200 ok")
    );
    drop(silent);
}

/// Connects with room for next to nothing, so that an answer is soon in the way.
fn connected_narrowly() -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(2_048).unwrap();
        let stream = socket.connect(PROGRAM.address).await.unwrap();
        let stream = stream.into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        stream
    })
}

#[test]
fn who_asks_and_never_reads_keeps_nobody_else_from_the_page() {
    let patience = Some(Duration::from_secs(60));
    let asking: Vec<_> = (0..64)
        .map(|_| {
            let mut stream = connected_narrowly();
            stream.set_read_timeout(patience).unwrap();
            let asked = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(20);
            stream.write_all(asked.as_bytes()).ok(); // it may have had to make room already
            stream
        })
        .collect();
    let silent: Vec<_> = (0..64)
        .map(|_| TcpStream::connect(PROGRAM.address).unwrap())
        .collect();
    for stream in &asking {
        // Answered, and stuck, unless it had to make room for others.
        if let Err(error) = stream.peek(&mut [0]) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
        }
    }
    for _ in 0..3 {
        let (head, body) = asked("GET", "/metrics");
        assert!(head.starts_with("http/1.0 200 "), "{head}");
        assert!(body.contains("# TYPE duly_lateness_seconds histogram\n"));
    }
    drop((asking, silent));
}
