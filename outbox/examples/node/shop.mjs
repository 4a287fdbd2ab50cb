// How do an order and its time-out become one transaction in Node? With `pg`.
//
//     npm install
//     DATABASE_URL=postgresql://user@host/shop node shop.mjs

import process from "node:process";
import pg from "pg";

const delay = process.env.DELAY ?? "30 minutes";
const client = new pg.Client({ connectionString: process.env.DATABASE_URL });

// Inserts the order and its event, or neither; returns the id of the event. A server hands the
// queue `orders` of the namespace `shop` to workers.
async function place(order, number) {
  await client.query("begin");
  try {
    const push = "select duly_push($1, $2::json, $3::interval) as id";
    const payload = JSON.stringify({ number });
    const { rows } = await client.query(push, ["shop.orders", payload, delay]);
    await client.query("insert into orders (number) values ($1)", [order]);
    await client.query("commit");
    return rows[0].id;
  } catch (error) {
    await client.query("rollback");
    throw error;
  }
}

await client.connect();
const { rows } = await client.query("select coalesce(max(number), 0) as last from orders");
let order = Number(rows[0].last);
for (let placed = 0; placed < 3; placed += 1) {
  order += 1;
  console.log(`order ${order}: event ${await place(order, order)}`);
}
const unique = "23505";
const refused = await place(order, 1000 + order).then(
  () => false, // there is one already: the event is undone with the insert
  (error) => error.code === unique,
);
const words = refused ? "refused, and no event" : "it was placed twice";
console.log(`order ${order} again: ${words}`);
await client.end();
process.exitCode = refused ? 0 : 1;
