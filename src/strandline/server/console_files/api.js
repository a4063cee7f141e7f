// Asks the server. Everything goes to the host that the page came from.

export class Problem extends Error {
  constructor(body, status) {
    super(body.detail ?? "the server has answered something else than expected");
    this.status = status;
    this.title = body.title ?? "Error";
    this.body = body;
  }
}

export class Unreachable extends Error {}

// "/v1/topics/{}/tail" with names that may hold anything.
export const path = (template, ...names) => names.reduce((text, name) => text.replace("{}", encodeURIComponent(name)), template);

export const query = (values) => {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) if (value !== null && value !== undefined && value !== "") found.set(name, value);
  const text = found.toString();
  return text ? `?${text}` : "";
};

let reached = true;
export const isReached = () => reached;

function note(now) {
  if (now !== reached) {
    reached = now;
    dispatchEvent(new CustomEvent("reached", { detail: now }));
  }
}

async function send(url, options) {
  let answer;
  try {
    answer = await fetch(url, { credentials: "same-origin", redirect: "error", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    note(false);
    throw new Unreachable("the server cannot be reached");
  }
  note(true);
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  if (answer.status === 401 && url !== "/console/session") dispatchEvent(new CustomEvent("unauthorized"));
  throw new Problem(body, answer.status);
}

export const get = async (url, signal) => (await send(url, { signal })).json();

export const getText = async (url, signal) => (await send(url, { signal })).text();

export async function post(url, body, options = {}) {
  const headers = { "content-type": "application/json", ...options.headers };
  const answer = await send(url, { method: options.method ?? "POST", headers, body: typeof body === "string" ? body : JSON.stringify(body) });
  return answer.status === 204 ? null : answer.json();
}

export async function everyTopic(signal) {
  const found = [];
  let after = "";
  do {
    const page = await get(`/v1/topics${query({ after, limit: 1000 })}`, signal);
    found.push(...page.topics);
    after = page.next;
  } while (after);
  return found;
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Reads a stream of lines, and hands them over in portions between which the page can draw.
export async function follow(url, onLines, signal) {
  const answer = await send(url, { signal, headers: { accept: "application/x-ndjson" } });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let began = performance.now();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      if (lines.length) onLines(lines);
      if (performance.now() - began > 10) { await pause(0); began = performance.now(); }
    }
  } catch (error) {
    if (signal.aborted) throw error;
    note(false);
    throw new Unreachable("the connection broke");
  }
}
