// How does a worker in Node lease and settle, with nothing but fetch?
//
//     duly serve & node server/examples/worker.mjs

const api = process.env.DULY_API ?? "http://127.0.0.1:7777";
const admin = process.env.DULY_ADMIN ?? "http://127.0.0.1:7778";

async function call(method, url, body, token) {
  const headers = { "Content-Type": "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  const response = await fetch(url, { method, headers, body: body && JSON.stringify(body) });
  if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${await response.text()}`);
  return response.status === 204 ? null : response.json();
}

const { token } = await call("POST", `${admin}/token/shop?description=node`);
const queue = `${api}/v1/shop/queues/node`;
const events = [{ payload: { order: 7 }, delay_ms: 200, attempts: 5 }];
const [pushed] = await call("POST", `${queue}/events`, { events }, token);
const [leased] = await call("POST", `${queue}/leases`, { ttr_ms: 30000, wait_ms: 10000 }, token);
if (leased.id !== pushed.id) throw new Error("another event was leased");
const payload = JSON.parse(Buffer.from(leased.payload_base64, "base64").toString());
await call("POST", `${api}/v1/shop/leases/${leased.token}/settle`, { outcome: "ack" }, token);
console.log("closed order", payload.order);
