// Follows a topic: live, from a time or an offset, with a predicate; paused and resumed without loss.

import { h, badge, empty, field, link, toast } from "../dom.js";
import { Problem, everyTopic, follow, path, query } from "../api.js";
import { count, counted, timeOf, zone } from "../format.js";
import { hashOf } from "../routes.js";
import { recordOf } from "../json_text.js";
import { VirtualList } from "../list.js";

const KEPT_MAX = 250_000;
const DROPPED = 50_000;
const PREVIEW = 400;
const COLUMNS = [{ title: "Time", kind: "time" }, { title: "Place", kind: "place" }, { title: "Kind", kind: "kind" }, { title: "Key", kind: "key" }, { title: "Payload", kind: "body" }];

export const title = (params) => (params.topic ? `${params.topic} · tail` : "Tail");

export async function show(root, context) {
  if (!context.params.topic) return choose(root, context);
  return new Tail(root, context).run();
}

async function choose(root, context) {
  const topics = await everyTopic(context.signal);
  root.append(h("div", { class: "heading" }, h("h1", null, "Tail")));
  if (!topics.length) return root.append(empty("There is no topic to follow", h("p", null, "The ", link("#/", "log"), " says how to append a first record.")));
  root.append(h("p", null, "Choose a topic to follow:"), h("ul", { class: "choices" }, topics.map((each) => h("li", null, link(hashOf("tail", { topic: each.name, start: "-100" }), each.name), h("small", null, ` ${counted(each.records, "record")}`)))));
  return null;
}

class Tail {
  constructor(root, context) {
    this.context = context;
    this.topic = context.params.topic;
    this.token = "";
    this.dropped = 0;
    this.isPaused = false;
    this.caughtUp = new Map();
    this.state = h("span", { role: "status", class: "tail-state" });
    this.counter = h("span", { class: "note", "aria-live": "off" });
    this.note = h("div");
    this.pauseButton = h("button", { type: "button", class: "primary", onclick: () => this.toggle() }, "Pause");
    this.list = new VirtualList({ label: `Records of ${this.topic}`, columns: COLUMNS, render: fill, open: (line) => this.open(line) });
    this.list.body.addEventListener("scroll", () => this.showState());
    this.end = h("button", { type: "button", class: "to-end", hidden: true, onclick: () => { this.list.follows = true; this.list.draw(); this.showState(); } }, "To the newest ↓");
    context.keys[" "] = () => this.toggle();
    root.append(this.heading(), this.filters(), this.note, h("div", { class: "tail" }, this.list.body, this.end));
  }

  heading() {
    return h("div", { class: "heading" },
      h("div", null, h("p", { class: "crumbs" }, link("#/", "Log"), " / ", link(hashOf("topic", { topic: this.topic }), this.topic), " /"), h("h1", null, "Tail"), h("p", { class: "tail-line" }, this.state, " ", this.counter)),
      h("div", { class: "actions" }, h("button", { type: "button", onclick: () => this.clear() }, "Clear"), this.pauseButton));
  }

  filters() {
    const { params } = this.context;
    const where = h("input", { type: "search", "data-filter": true, name: "where", spellcheck: "false", autocomplete: "off", placeholder: "payload.total > 100", value: params.where ?? "", list: "saved" });
    const start = h("select", { name: "start" }, startsOf(params.start ?? "latest"));
    const time = h("input", { type: "datetime-local", name: "time", step: "1", value: localTime(params.start), onchange: () => { if (time.value) { start.append(h("option", { value: new Date(time.value).toISOString(), selected: true }, timeOf(new Date(time.value).toISOString()))); restart(); } } });
    const restart = () => {
      this.context.set({ where: where.value.trim(), start: start.value });
      this.clear();
      this.restart();
    };
    start.addEventListener("change", restart);
    const saved = h("div", { class: "chips" });
    const show = () => {
      const known = savedFilters(this.topic);
      saved.replaceChildren(h("datalist", { id: "saved" }, known.map((each) => h("option", { value: each }))), ...known.map((each) => h("span", { class: "chip" },
        h("button", { type: "button", onclick: () => { where.value = each; restart(); } }, each),
        h("button", { type: "button", "aria-label": `Forget the filter ${each}`, onclick: () => { saveFilters(this.topic, known.filter((one) => one !== each)); show(); } }, "×"))));
    };
    show();
    const save = () => {
      const text = where.value.trim();
      if (!text) return;
      saveFilters(this.topic, [...new Set([...savedFilters(this.topic), text])]);
      show();
    };
    return h("form", { class: "filters", onsubmit: (event) => { event.preventDefault(); restart(); } },
      field("SQL predicate", where), field("From", start), field(`Jump to a time (${zone})`, time),
      h("div", { class: "actions" }, h("button", null, "Apply"), h("button", { type: "button", onclick: save }, "Save filter")), saved);
  }

  // --- the stream ---

  async run() {
    this.showState("Connecting");
    while (!this.context.signal.aborted) {
      this.attempt = new AbortController();
      this.context.signal.addEventListener("abort", () => this.attempt.abort(), { once: true });
      let wait = 1000;
      try {
        if (this.isPaused) { await aborted(this.attempt.signal); continue; }
        await follow(this.url(), (lines) => this.take(lines), this.attempt.signal);
        this.showState("Connecting again");
      } catch (error) {
        if (this.context.signal.aborted) return;
        if (this.attempt.signal.aborted) wait = 0;
        else if (error instanceof Problem && !error.body.retryable) { this.failed(error); wait = null; }
        else this.showState("Server not reached, trying again");
      }
      if (wait === null) await aborted(this.attempt.signal);
      else if (wait) await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  url() {
    const { where, start, partition } = this.context.params;
    const place = this.token ? { after: this.token } : { start: start ?? "latest", partition };
    return path("/v1/topics/{}/tail", this.topic) + query({ ...place, predicate: where });
  }

  take(lines) {
    const records = [];
    for (const line of lines) {
      const at = line.lastIndexOf('"id":"');
      if (line.startsWith('{"event":"record"')) { records.push(line); this.caughtUp.clear(); }
      else this.marker(JSON.parse(line));
      if (at > 0) this.token = line.slice(at + 6, line.lastIndexOf('"'));
    }
    if (!records.length) return;
    this.list.append(records);
    if (this.list.items.length > KEPT_MAX) { this.list.drop(DROPPED); this.dropped += DROPPED; }
    this.showState();
  }

  marker({ event, data }) {
    if (event === "caught_up") { this.caughtUp.set(data.partition, data.offset); this.caughtUpAt = new Date().toISOString(); }
    if (event === "error") toast(data.detail ?? "the stream has failed", "bad");
    this.showState();
  }

  toggle() {
    this.isPaused = !this.isPaused;
    this.pauseButton.textContent = this.isPaused ? "Resume" : "Pause";
    this.attempt?.abort();
    this.showState();
  }

  restart() {
    this.token = "";
    this.caughtUp.clear();
    this.note.replaceChildren();
    this.attempt?.abort();
  }

  clear() {
    this.list.clear();
    this.dropped = 0;
    this.showState();
  }

  failed(problem) {
    const again = (start) => { this.context.set({ start }); this.restart(); };
    const lost = problem.status === 410 || problem.status === 409;
    this.note.replaceChildren(h("div", { class: "panel warn", role: "alert" }, h("p", null, `${problem.title}: ${problem.message}`),
      lost ? h("div", { class: "actions" }, h("button", { type: "button", onclick: () => again("earliest") }, "Read on from the oldest record"), h("button", { type: "button", onclick: () => again("latest") }, "Read on from now")) : h("p", { class: "note" }, "Change the predicate or the place above, and apply it.")));
    this.showState("Stopped");
  }

  // --- what is shown ---

  showState(said) {
    const number = this.list.items.length;
    let shown;
    if (this.isPaused) shown = badge("warn", "Paused", "Nothing is lost: it continues where it was");
    else if (said) shown = badge(said === "Stopped" ? "bad" : "warn", said);
    else if (this.caughtUp.size) shown = badge("good", `Caught up · ${timeOf(this.caughtUpAt).replace(/\.\d+$/, "")}`);
    else shown = badge("", "Live");
    this.state.replaceChildren(shown);
    this.counter.textContent = `${counted(number, "record")}${this.dropped ? `, ${count(this.dropped)} older ones left this page` : ""}`;
    if (!number && (this.context.params.start ?? "latest") === "latest") this.counter.textContent += ": new ones appear here, for older ones choose the oldest record under From";
    this.end.hidden = this.list.follows;
  }

  open(line) {
    const record = recordOf(lineData(line));
    location.hash = hashOf("record", { topic: this.topic, partition: record.partition, offset: record.offset });
  }
}

// The record within a line {"event":"record","data":{…},"id":"…"}.
const lineData = (line) => line.slice(line.indexOf('"data":') + 7, line.lastIndexOf(',"id":"'));

function fill(line, row) {
  const record = recordOf(lineData(line));
  const cell = (kind, text, title) => h("span", { role: "gridcell", class: `cell ${kind}`, title }, text);
  row.append(
    cell("time", timeOf(record.timestamp), record.timestamp),
    cell("place", `${record.partition}:${record.offset}`),
    cell("kind", record.kind ?? record.form),
    cell("key", record.key ?? ""),
    cell("body", record.body.slice(0, PREVIEW)));
}

const aborted = (signal) => new Promise((resolve) => {
  if (signal.aborted) resolve();
  signal.addEventListener("abort", resolve, { once: true });
});

function startsOf(chosen) {
  const known = [["latest", "now on"], ["-100", "the last 100 of each partition"], ["-10000", "the last 10,000 of each"], ["earliest", "the oldest record"]];
  if (!known.some(([value]) => value === chosen)) known.push([chosen, Number.isNaN(Date.parse(chosen)) ? `offset ${chosen}` : timeOf(chosen)]);
  return known.map(([value, text]) => h("option", { value, selected: value === chosen }, text));
}

function localTime(start) {
  const at = /^\d{4}-/.test(start ?? "") ? new Date(start) : null;
  if (!at || Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}

const savedFilters = (topic) => JSON.parse(localStorage.getItem(`filters:${topic}`) ?? "[]");

const saveFilters = (topic, found) => localStorage.setItem(`filters:${topic}`, JSON.stringify(found));
