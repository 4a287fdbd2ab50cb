// How many jobs a second does the client for TypeScript push, and lease and settle? See ../throughput.sh.
import { Client, ack } from "duly";

const [url, token, many, atOnce] = process.argv.slice(2);
const client = new Client({ url, token, namespace: "shop" });

async function rate(work) {
  let left = Number(many);
  const loop = async () => {
    while (left-- > 0) await work();
  };
  const begin = performance.now();
  await Promise.all(Array.from({ length: Number(atOnce) }, loop));
  return (Number(many) / (performance.now() - begin)) * 1_000;
}

const pushed = await rate(() => client.push("typescript", { order: 7 }, { attempts: 3 }));
const consumed = await rate(async () => {
  const [lease] = await client.lease("typescript", { ttr: 60_000, wait: 5_000 });
  await client.settle(lease, ack());
});
console.log(pushed.toFixed(0), consumed.toFixed(0));
