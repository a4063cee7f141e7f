// The log: every topic with its rate, size, consumers and health.

import { h, badge, code, empty, link, tile, tiles } from "../dom.js";
import { everyTopic, get, isReached } from "../api.js";
import { bytes, count, counted, rate, seconds, short, trend } from "../format.js";
import { hashOf } from "../routes.js";
import { Table } from "../table.js";
import { spark } from "../chart.js";

const KEPT = 40;

export const title = () => "Log";

const endOf = (topic) => topic.partitions.reduce((sum, each) => sum + each.high, 0);
const behindOf = (topic) => topic.partitions.reduce((sum, each) => sum + each.high - each.durable, 0);

export async function show(root, context) {
  const about = await get("/v1/log", context.signal);
  const rates = new Rates();
  const filter = h("input", { type: "search", "data-filter": true, placeholder: "Filter topics", "aria-label": "Filter topics", value: context.params.filter ?? "", oninput: () => { context.set({ filter: filter.value }); draw(); } });
  const table = new Table({
    label: "Topics",
    columns: columns(about),
    key: (row) => row.name,
    open: (row) => { location.hash = hashOf("topic", { topic: row.name }); },
    sort: context.params.sort ?? "name",
    onSort: (sort) => context.set({ sort }),
  });
  const summary = h("div");
  const list = h("div");
  root.append(heading(about, filter), summary, list);
  let rows = [];

  function draw() {
    const shown = rows.filter((each) => each.name.includes(filter.value));
    summary.replaceChildren(totals(rows, about));
    if (!rows.length) return list.replaceChildren(noTopics());
    if (list.firstChild !== table.element) list.replaceChildren(table.element);
    return table.show(shown);
  }

  await context.every(2000, async () => {
    const [topics, lag, letters] = await Promise.all([everyTopic(context.signal), get("/v1/lag", context.signal), get("/v1/dead-letters", context.signal)]);
    rows = joined(topics, lag.topics, letters.topics, rates);
    draw();
  });
}

// Rates of records, from one look to the next.
class Rates {
  constructor() { this.before = new Map(); this.at = 0; this.history = new Map(); }

  add(topics) {
    const now = performance.now();
    for (const each of topics) {
      const last = this.before.get(each.id);
      if (last !== undefined && isReached()) {
        const values = this.history.get(each.id) ?? [];
        values.push(Math.max(0, (endOf(each) - last) / ((now - this.at) / 1000)));
        this.history.set(each.id, values.slice(-KEPT));
      }
    }
    this.before = new Map(topics.map((each) => [each.id, endOf(each)]));
    this.at = now;
  }
}

function joined(topics, lags, letters, rates) {
  rates.add(topics);
  const consumersOf = new Map(lags.map((each) => [each.topic, each.consumers]));
  const lettersOf = new Map(letters.map((each) => [each.topic, each]));
  return topics.map((topic) => {
    const consumers = consumersOf.get(topic.name) ?? [];
    const history = rates.history.get(topic.id) ?? [];
    return {
      ...topic,
      history,
      rate: history.length ? history.at(-1) : null,
      consumers: new Set(consumers.map((each) => each.consumer)).size,
      lag: consumers.reduce((most, each) => Math.max(most, each.lag), 0),
      lagSeconds: consumers.reduce((most, each) => Math.max(most, each.lag_s ?? 0), 0),
      growing: consumers.some((each) => (each.trend ?? 0) > 0.05 && each.lag > 0),
      letters: lettersOf.get(topic.name)?.waiting ?? 0,
      unsynced: behindOf(topic),
    };
  });
}

function health(row) {
  if (row.letters) return badge("bad", counted(row.letters, "dead letter"), "Records that a consumer could not handle");
  if (row.growing) return badge("warn", "lag grows", trend(1).title);
  return badge("good", "healthy", "No dead letters wait, and no lag grows");
}

function columns(about) {
  return [
    { id: "name", title: "Topic", sort: (row) => row.name, show: (row) => [link(hashOf("topic", { topic: row.name }), row.name), row.kind === "event" ? null : badge("", row.kind)] },
    { id: "rate", title: "Rate", kind: "num", sort: (row) => row.rate ?? 0, show: (row) => h("span", { class: "with-spark" }, spark(row.history, `Rate of ${row.name}`), h("span", null, rate(row.rate))) },
    { id: "records", title: "Records", kind: "num", sort: (row) => row.records, show: (row) => count(row.records) },
    { id: "size", title: "Size", kind: "num wide", sort: (row) => row.size_bytes, show: (row) => bytes(row.size_bytes) },
    { id: "consumers", title: "Consumers", kind: "num", sort: (row) => row.consumers, show: (row) => (row.consumers ? link(hashOf("consumers", { topic: row.name }), count(row.consumers)) : h("span", { class: "note" }, "none")) },
    { id: "lag", title: "Lag", kind: "num", sort: (row) => row.lag, show: (row) => (row.consumers ? h("span", { title: "Of the consumer that is furthest behind" }, short(row.lag), h("small", null, ` ${row.lag ? seconds(row.lagSeconds) : ""}`)) : "–") },
    { id: "level", title: "Level", kind: "wide", show: (row) => (about.durability_max === "durable" && row.unsynced ? badge("warn", `${short(row.unsynced)} not durable`, "Written, and not synced yet") : badge("good", about.durability_max, "Everything has reached the highest level of this log")) },
    { id: "health", title: "Health", sort: (row) => row.letters * 1e6 + row.lag, show: health },
    { id: "go", title: "Live", kind: "end", show: (row) => link(hashOf("tail", { topic: row.name }), "Tail") },
  ];
}

function heading(about, filter) {
  return h("div", { class: "heading" },
    h("div", null, h("h1", null, "Log"), h("p", { class: "note" }, `${about.backend ?? "log"} · ${about.mode} · ${about.id}`)),
    h("div", { class: "actions" }, filter));
}

function totals(rows, about) {
  const sum = (pick) => rows.reduce((all, each) => all + pick(each), 0);
  const letters = sum((each) => each.letters);
  const measured = rows.some((each) => each.rate !== null);
  return tiles(
    tile("Topics", count(rows.length), counted(sum((each) => each.partitions.length), "partition")),
    tile("Records kept", count(sum((each) => each.records)), bytes(sum((each) => each.size_bytes))),
    tile("Appended now", measured ? rate(sum((each) => each.rate ?? 0)) : "–", "by all processes"),
    tile("Largest lag", count(Math.max(0, ...rows.map((each) => each.lag))), seconds(Math.max(0, ...rows.map((each) => each.lagSeconds)))),
    tile("Dead letters", count(letters), letters ? link("#/dead-letters", "Look at them") : "none wait", letters ? "bad" : ""),
    tile("Highest level", about.durability_max, about.capabilities.durability_reason));
}

function noTopics() {
  return empty("There is no topic yet", "Append a first record, and it shows here within two seconds:",
    code("strandline append orders '{\"total\": 12}' --kind order.placed"),
    code(`curl -X PUT ${location.origin}/v1/topics/orders -H 'content-type: application/json' -d '{}'`));
}
