import { createServer } from "node:http";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A server that responds as a test says, for what a real one does only on a bad day. */
export async function standIn(respond: RequestListener): Promise<{ readonly url: string } & AsyncDisposable> {
  const server = createServer(respond);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${port}`, [Symbol.asyncDispose]: close };
}

/** Sends a request on to a server, and returns what that responds. */
export async function forwarded(url: string, request: IncomingMessage): Promise<[number, string]> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  const headers = { Authorization: request.headers.authorization ?? "", "Content-Type": "application/json" };
  const init = { method: request.method ?? "GET", headers, body: Buffer.concat(parts) };
  const response = await fetch(url + (request.url ?? ""), init);
  return [response.status, await response.text()];
}

/** Responds with a lease of a stream, which stays open; it has lain in a socket for `age` milliseconds. */
export function streamLease(response: ServerResponse, payload: unknown, token = "lease-1", age = 0): void {
  const view = {
    id: "01KBKSY8Q3X4H1W9V0T5RZ7M2C",
    token,
    deadline_ms: Date.now() - age,
    attempt: 1,
    attempts_left: 0,
    headers: {},
    payload_base64: Buffer.from(JSON.stringify(payload)).toString("base64"),
  };
  if (!response.headersSent) response.writeHead(200);
  response.write(`event: lease\ndata: ${JSON.stringify(view)}\n\n`);
}
