// Consumers: lag in records and seconds, its trend, members and deliveries; seeking with a preview.

import { h, badge, code, empty, field, link, section, tile, tiles, toast, confirmed } from "../dom.js";
import { get, path, post } from "../api.js";
import { ago, count, counted, seconds, timeOf, trend, zone } from "../format.js";
import { hashOf } from "../routes.js";
import { Table } from "../table.js";
import { spark } from "../chart.js";

const KEPT = 60;

export const title = (params) => params.consumer ?? "Consumers";

export async function show(root, context) {
  if (context.params.topic && context.params.consumer) return one(root, context);
  return all(root, context);
}

// One row for each consumer of a topic, over its partitions.
export function rowsOf(lags) {
  return lags.flatMap(({ topic, consumers }) => {
    const byName = Map.groupBy ? Map.groupBy(consumers, (each) => each.consumer) : grouped(consumers);
    return [...byName].map(([consumer, parts]) => ({
      topic,
      consumer,
      parts,
      lag: parts.reduce((sum, each) => sum + each.lag, 0),
      lagSeconds: parts.reduce((most, each) => Math.max(most, each.lag_s ?? 0), 0),
      trend: parts.every((each) => each.trend === null) ? null : parts.reduce((sum, each) => sum + (each.trend ?? 0), 0),
      members: [...new Set(parts.filter((each) => each.member).map((each) => each.member))],
      isLive: parts.some((each) => each.is_live),
      seen: parts.map((each) => each.seen_at).sort().at(-1),
      generation: Math.max(...parts.map((each) => each.generation)),
    }));
  });
}

function grouped(consumers) {
  const found = new Map();
  for (const each of consumers) found.set(each.consumer, [...(found.get(each.consumer) ?? []), each]);
  return found;
}

export const trendCell = (row) => { const { text, kind, title: why } = trend(row.trend); return h("span", { class: kind, title: why }, text); };

async function all(root, context) {
  const chosen = context.params.topic;
  const histories = new Map();
  const table = new Table({
    label: "Consumers",
    key: (row) => `${row.topic}/${row.consumer}`,
    open: (row) => { location.hash = hashOf("consumers", { topic: row.topic, consumer: row.consumer }); },
    sort: context.params.sort ?? "-lag",
    onSort: (sort) => context.set({ sort }),
    columns: [
      { id: "consumer", title: "Consumer", sort: (row) => row.consumer, show: (row) => link(hashOf("consumers", { topic: row.topic, consumer: row.consumer }), row.consumer) },
      { id: "topic", title: "Topic", sort: (row) => row.topic, show: (row) => link(hashOf("topic", { topic: row.topic }), row.topic) },
      { id: "lag", title: "Lag, records", kind: "num", sort: (row) => row.lag, show: (row) => h("span", { class: "with-spark" }, spark(row.history, `Lag of ${row.consumer}`), count(row.lag)) },
      { id: "age", title: "Lag, time", kind: "num", sort: (row) => row.lagSeconds, show: (row) => seconds(row.lagSeconds) },
      { id: "trend", title: "Trend", kind: "wide", sort: (row) => row.trend ?? 0, show: trendCell },
      { id: "members", title: "Members", kind: "wide", sort: (row) => row.members.length, show: (row) => (row.members.length ? row.members.join(", ") : h("span", { class: "note" }, "none now")) },
      { id: "seen", title: "Last seen", sort: (row) => row.seen, show: (row) => ago(row.seen) },
      { id: "state", title: "State", show: (row) => (row.isLive ? badge("good", "live") : row.lag ? badge("warn", "idle") : badge("", "caught up")) },
    ],
  });
  const list = h("div");
  const summary = h("div");
  root.append(h("div", { class: "heading" }, h("div", null, chosen ? h("p", { class: "crumbs" }, link("#/", "Log"), " / ", link(hashOf("topic", { topic: chosen }), chosen), " /") : null, h("h1", null, "Consumers")), chosen ? h("div", { class: "actions" }, link("#/consumers", "Of all topics")) : null), summary, list);
  await context.every(2000, async () => {
    const lags = chosen ? [await get(path("/v1/topics/{}/consumers", chosen), context.signal)] : (await get("/v1/lag", context.signal)).topics;
    const rows = rowsOf(lags).map((row) => {
      const key = `${row.topic}/${row.consumer}`;
      const history = [...(histories.get(key) ?? []), row.lag].slice(-KEPT);
      histories.set(key, history);
      return { ...row, history };
    });
    summary.replaceChildren(totals(rows));
    if (!rows.length) return list.replaceChildren(none(chosen));
    if (list.firstChild !== table.element) list.replaceChildren(table.element);
    return table.show(rows);
  });
}

function totals(rows) {
  const growing = rows.filter((each) => (each.trend ?? 0) > 0.05 && each.lag > 0).length;
  return tiles(
    tile("Consumers", count(rows.length), `${rows.filter((each) => each.isLive).length} live`),
    tile("Largest lag", count(Math.max(0, ...rows.map((each) => each.lag))), "records"),
    tile("Longest lag", seconds(Math.max(0, ...rows.map((each) => each.lagSeconds))), "since the oldest record not handled"),
    tile("Growing", count(growing), growing ? "they do not keep up" : "all keep up", growing ? "bad" : ""));
}

function none(topic) {
  return empty("No consumer has acknowledged anything yet", "A consumer shows here with its first acknowledgement:",
    code(`import strandline as sl\n\nwith sl.open(url) as log, log.consumer(${JSON.stringify(topic ?? "orders")}, "mailer") as consumer:\n    for delivery in consumer:\n        handle(delivery.record)\n        consumer.ack(delivery)`));
}

// --- one consumer ---

async function one(root, context) {
  const { topic, consumer } = context.params;
  const at = (more) => path(`/v1/topics/{}/consumers/{}${more}`, topic, consumer);
  const now = h("div");
  const seeking = h("div");
  root.append(h("div", { class: "heading" }, h("div", null, h("p", { class: "crumbs" }, link("#/consumers", "Consumers"), " / ", link(hashOf("topic", { topic }), topic), " /"), h("h1", null, consumer)),
    h("div", { class: "actions" }, link(hashOf("dead-letters", { topic, consumer }), "Its dead letters"), h("button", { type: "button", class: "danger", onclick: () => forget(topic, consumer, at) }, "Forget…"))), now, seeking);
  let first = true;
  await context.every(2000, async () => {
    const [found, deliveries] = await Promise.all([get(at(""), context.signal), get(at("/deliveries"), context.signal)]);
    now.replaceChildren(...standing(rowsOf([found])[0], deliveries.outstanding));
    if (first) { seeking.replaceChildren(seekPanel(found.consumers, at)); first = false; }
  });
}

function standing(row, outstanding) {
  const table = new Table({
    label: "Partitions",
    key: (part) => part.partition,
    columns: [
      { id: "p", title: "Partition", show: (part) => String(part.partition) },
      { id: "cursor", title: "Next offset", kind: "num", show: (part) => link(hashOf("record", { topic: row.topic, partition: part.partition, offset: part.cursor }), count(part.cursor)) },
      { id: "lag", title: "Lag, records", kind: "num", show: (part) => count(part.lag) },
      { id: "age", title: "Lag, time", kind: "num", show: (part) => seconds(part.lag_s) },
      { id: "trend", title: "Trend", show: trendCell },
      { id: "member", title: "Member", kind: "wide", show: (part) => part.member ?? "–" },
      { id: "since", title: "Held since", kind: "wide", show: (part) => (part.held_since ? `${timeOf(part.held_since)} ${part.reason}` : "–") },
      { id: "keeps", title: "Retention", kind: "wide", show: (part) => (part.holds_retention ? "held back at its cursor" : "not held back") },
    ],
  });
  table.show(row.parts);
  const most = outstanding.reduce((top, each) => Math.max(top, each.deliveries), 0);
  const { text, kind, title: why } = trend(row.trend);
  return [
    tiles(tile("Lag", count(row.lag), "records"), tile("Lag in time", seconds(row.lagSeconds), "of the oldest record not handled"), tile("Trend", text, why, kind),
      tile("Members", count(row.members.length), row.isLive ? "live" : `last seen ${ago(row.seen)}`), tile("Outstanding", count(outstanding.length), most > 1 ? `one was delivered ${most} times` : "delivered, not settled", most > 3 ? "warn" : "")),
    section("Partitions", table.element),
    outstanding.length ? section("Delivered, not settled", h("ul", { class: "fields" }, outstanding.slice(0, 50).map((each) => h("li", null, link(hashOf("record", { topic: row.topic, partition: each.partition, offset: each.offset }), `${each.partition}:${each.offset}`), ` ${counted(each.deliveries, "delivery", "deliveries")}`)))) : null,
  ].filter(Boolean);
}

function seekPanel(lags, at) {
  const inputs = lags.map((each) => h("input", { type: "text", inputmode: "numeric", name: `p${each.partition}`, value: String(each.cursor), "aria-label": `Next offset of partition ${each.partition}` }));
  const preview = h("div", { "aria-live": "polite" });
  const places = () => Object.fromEntries(lags.map((each, index) => [String(each.partition), inputs[index].value.trim()]));
  const fillAll = (text) => { for (const each of inputs) each.value = text; preview.replaceChildren(); };
  const time = h("input", { type: "datetime-local", step: "1", onchange: () => { if (time.value) fillAll(new Date(time.value).toISOString()); } });
  for (const each of inputs) each.addEventListener("input", () => preview.replaceChildren());
  const look = async (event) => {
    event?.preventDefault();
    try {
      const wanted = places();
      const found = await post(at("/seek"), { places: wanted, dry_run: true });
      preview.replaceChildren(movesTable(found.moves), h("div", { class: "actions" }, h("button", { type: "button", class: "primary", onclick: () => go(found.moves) }, "Seek")));
    } catch (error) {
      preview.replaceChildren(h("p", { class: "bad", role: "alert" }, error.message));
    }
  };
  // What was shown is what is done: offsets, and not a time that may mean another by now.
  const go = async (moves) => {
    try {
      await post(at("/seek"), { places: Object.fromEntries(moves.map((each) => [String(each.partition), each.offset])) });
      toast("The consumer continues from there");
      preview.replaceChildren();
    } catch (error) {
      toast(error.message, "bad");
    }
  };
  return section("Seek",
    h("p", { class: "note" }, "The fields hold where it is now. An offset, earliest, latest, -100 or a time may be written; nothing happens before you have seen what will."),
    h("form", { class: "seek", onsubmit: look },
      h("div", { class: "seek-fields" }, lags.map((each, index) => field(`Partition ${each.partition}`, inputs[index]))),
      h("div", { class: "actions" }, h("button", { type: "button", onclick: () => fillAll("earliest") }, "Earliest"), h("button", { type: "button", onclick: () => fillAll("latest") }, "Latest"), field(`A time (${zone})`, time), h("button", { class: "primary" }, "Preview"))),
    preview);
}

function movesTable(moves) {
  const table = new Table({
    label: "What the seek will do",
    key: (row) => row.partition,
    columns: [
      { id: "p", title: "Partition", show: (row) => String(row.partition) },
      { id: "from", title: "From", kind: "num", show: (row) => count(row.cursor) },
      { id: "to", title: "To", kind: "num", show: (row) => count(row.offset) },
      { id: "what", title: "What will happen", show: (row) => (row.again ? badge("warn", `${counted(row.again, "record")} again`) : row.skipped ? badge("bad", `${counted(row.skipped, "record")} skipped`) : badge("", "nothing")) },
      { id: "lag", title: "Lag then", kind: "num", show: (row) => count(row.lag) },
    ],
  });
  table.show(moves);
  return table.element;
}

async function forget(topic, consumer, at) {
  const content = h("p", null, `The cursors of ${consumer} in ${topic} are removed, and it no longer holds retention back. If it runs again it begins at its start. No record is removed.`);
  if (!(await confirmed(`Forget ${consumer}?`, content, "Forget"))) return;
  try {
    await post(at(""), {}, { method: "DELETE" });
    location.hash = hashOf("consumers", { topic });
  } catch (error) {
    toast(error.message, "bad");
  }
}
