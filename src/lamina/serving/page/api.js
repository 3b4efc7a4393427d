// Requests to the service, and what goes wrong with them, in words.

import { get } from "./dom.js";

let key = sessionStorage.getItem("lamina.key") ?? "";

/** A request that failed. `message` is for people. */
export class Failed extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Return the JSON of a path. `body` makes it a POST. */
export async function call(path, { body, method, raw } = {}) {
  const reply = await request(path, { body, method, raw });
  return reply.json();
}

/** Return the reply to a request; raise Failed for anything but success. */
export async function request(path, { body, method, raw } = {}) {
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  if (body !== undefined) headers["content-type"] = "application/json";
  if (raw !== undefined) headers["content-type"] = "application/octet-stream";
  const content = raw ?? (body === undefined ? undefined : JSON.stringify(body));
  let reply;
  try {
    reply = await fetch(path, { method: method ?? (content === undefined ? "GET" : "POST"), headers, body: content });
  } catch {
    throw new Failed(0, "The service does not answer. Is lamina serve still running?");
  }
  if (reply.status === 401) {
    await askForKey();
    return request(path, { body, method, raw });
  }
  if (!reply.ok) throw new Failed(reply.status, await said(reply));
  return reply;
}

async function said(reply) {
  let message = "";
  try {
    message = (await reply.json()).error.message;
  } catch { /* not from the service */ }
  if (reply.status === 429) return `Too many people are asking. Try again in ${reply.headers.get("retry-after") ?? "some"} seconds.`;
  if (reply.status === 413) return `That is too much at once. ${message}`;
  return message || `The service replied with status ${reply.status}.`;
}

function askForKey() {
  const dialog = get("key");
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      key = get("key-value").value.trim();
      sessionStorage.setItem("lamina.key", key);
      resolve();
    }, { once: true });
    if (!dialog.open) dialog.showModal();
  });
}

/** Call `heard` with each server-sent event of a path, until it ends. */
export async function listen(path, heard) {
  const reply = await request(path);
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) heard(JSON.parse(part.slice(6)));
  }
}
