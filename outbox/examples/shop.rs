//! How are an order and its time-out one transaction? A shop by axum and sqlx; needs PostgreSQL, by
//! `DATABASE_URL`.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Router, serve};
use duly::prelude::*;
use duly_outbox::{Database, FinishIn, PushIn, Relay, RelayOptions, schema};
use sqlx::{Executor, PgPool};

type Failed = Box<dyn std::error::Error + Send + Sync>;

#[delay_event(queue = "order-close", register = false, state(PgPool))]
async fn close_order(event: Event<i64>, cx: &Context) -> Result<(), Failure> {
    let mut tx = cx.state::<PgPool>().begin().await?;
    if cx.finish_in(&mut tx, &event).await?.is_again() {
        return Ok(()); // an attempt before this one has closed it
    }
    let close = sqlx::query("update orders set state = 'closed' where id = $1");
    close.bind(event.payload).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(())
}

#[derive(Clone)]
struct Shop {
    pool: PgPool,
    closes: Queue<i64>,
}

/// The order and its time-out, or neither.
async fn place(State(shop): State<Shop>, Path(id): Path<i64>) -> Result<(), StatusCode> {
    let placed = async {
        let mut tx = shop.pool.begin().await?;
        let order = sqlx::query("insert into orders (id, state) values ($1, 'open')");
        order.bind(id).execute(&mut *tx).await?;
        shop.closes
            .push_in(&mut tx, id, Duration::from_millis(200))
            .await?;
        tx.commit().await?;
        Ok::<_, Failed>(())
    };
    placed.await.map_err(|_| StatusCode::CONFLICT)
}

#[tokio::main]
#[allow(clippy::print_stdout)]
async fn main() -> Result<(), Failed> {
    let Ok(url) = std::env::var("DATABASE_URL") else {
        println!(
            "this example needs a PostgreSQL: set DATABASE_URL to postgres://user@host/database"
        );
        return Ok(());
    };
    run(&url).await
}

/// Takes an order, and waits until it is closed.
#[allow(clippy::print_stdout)]
pub(crate) async fn run(url: &str) -> Result<(), Failed> {
    let pool = PgPool::connect(url).await?;
    pool.execute(schema(Database::Postgres)).await?; // a migration's work
    pool.execute("create table if not exists orders (id bigint primary key, state text)")
        .await?;
    let builder = Bus::builder().only_registered().store_url("memory:");
    let bus = builder
        .register(close_order {})
        .state(pool.clone())
        .start()
        .await?;
    let relay = Relay::sqlx(&bus, pool.clone(), RelayOptions::default()).await?;

    let shop = Shop {
        pool: pool.clone(),
        closes: bus.queue::<close_order>(),
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let router = Router::new()
        .route("/orders/{id}", post(place))
        .with_state(shop);
    let server = tokio::spawn(async move { serve(listener, router).await });

    let id: i64 = sqlx::query_scalar("select coalesce(max(id), 0) + 1 from orders")
        .fetch_one(&pool)
        .await?;
    println!(
        "POST http://{address}/orders/{id}: {}",
        request(address, id).await?
    );
    println!("again: {}", request(address, id).await?); // refused, and so is its time-out
    let sql = "select state = 'closed' from orders where id = $1";
    while !sqlx::query_scalar::<_, bool>(sql)
        .bind(id)
        .fetch_one(&pool)
        .await?
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("order {id} was not paid in time, and is closed");
    server.abort();
    relay.stop().await;
    Ok(bus.shutdown(Duration::from_secs(5)).await?)
}

/// Returns the first line of the response.
async fn request(address: std::net::SocketAddr, id: i64) -> Result<String, Failed> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let head = format!("POST /orders/{id} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(response.lines().next().unwrap_or_default().to_owned())
}
