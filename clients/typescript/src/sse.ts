/** Server-sent events. */

import { ConnectionError } from "./errors.js";

/** The longest event, in characters; no server sends a longer one. */
const EVENT_LEN_MAX = 32 << 20;

export interface ServerSentEvent {
  readonly name: string;
  readonly data: string;
  /** When the last part of it came, by `performance.now()`. */
  readonly at: number;
}

function eventOf(text: string, at: number): ServerSentEvent | undefined {
  let name = "";
  const data: string[] = [];
  for (const line of text.split("\n")) {
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") name = value;
    if (field === "data") data.push(value);
  }
  return name === "" ? undefined : { name, data: data.join("\n"), at };
}

/** Reads the events of a body; `heard` is called whenever something comes, comments included. */
export async function* serverSentEvents(
  body: AsyncIterable<Uint8Array>,
  heard: () => void,
): AsyncGenerator<ServerSentEvent> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const part of body) {
    heard();
    const at = performance.now();
    text += decoder.decode(part, { stream: true });
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const event = eventOf(text.slice(0, end), at);
      text = text.slice(end + 2);
      if (event) yield event;
    }
    if (text.length > EVENT_LEN_MAX) {
      throw new ConnectionError(`an event of the stream has more than ${EVENT_LEN_MAX} characters`);
    }
  }
}
