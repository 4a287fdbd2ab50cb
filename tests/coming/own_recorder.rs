//! A program that has a recorder of its own.

use std::net::{SocketAddr, TcpListener};

use duly::ErrorKind;
use duly::metrics::{MetricsChoices, Prometheus};

use crate::kit::{ALONE, counting, stop};

#[tokio::test]
async fn a_program_with_a_recorder_keeps_it_and_nothing_listens() {
    let _alone = ALONE.lock().await;
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address: SocketAddr = free.local_addr().unwrap();
    drop(free);
    let choices = MetricsChoices {
        listen: Some(address),
        ..MetricsChoices::default()
    };
    let bus = counting("memory:")
        .metrics(choices)
        .publish_only()
        .start()
        .await
        .unwrap();
    TcpListener::bind(address).expect("nobody listens there");
    let error = Prometheus::install().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    stop(&bus).await;
}
