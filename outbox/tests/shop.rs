//! The example of a shop by axum and sqlx.

use crate::world::TestDatabase;

#[path = "../examples/shop.rs"]
#[allow(dead_code)] // a program by itself
mod example;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shop_closes_what_is_not_paid_in_time() {
    let database = TestDatabase::new().await;
    for closed in [1, 2] {
        example::run(&database.url).await.unwrap();
        let orders = "select count(*) from orders where state = 'closed'";
        assert_eq!(database.number(orders).await, closed);
        // The second request for an order is refused, and so is its time-out.
        let ends = "select count(*) from duly_done";
        assert_eq!(database.number(ends).await, closed);
    }
}
