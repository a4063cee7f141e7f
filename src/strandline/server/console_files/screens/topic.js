// A topic: where its partitions begin and end, retention, schema versions, segments and proof.

import { h, badge, code, link, section, tile, tiles, toast } from "../dom.js";
import { get, path, post } from "../api.js";
import { ago, bytes, count, counted, fullTime, seconds, timeOf } from "../format.js";
import { hashOf } from "../routes.js";
import { Table } from "../table.js";

export const title = (params) => params.topic ?? "Topic";

export async function show(root, context) {
  const name = context.params.topic ?? "";
  const at = (more = "") => path(`/v1/topics/{}${more}`, name);
  const [topic, retention, schemas, log] = await Promise.all([at(), at("/retention"), at("/schemas"), "/v1/log"].map((url) => get(url, context.signal)));
  const marks = h("div");
  root.append(
    h("div", { class: "heading" },
      h("div", null, h("p", { class: "crumbs" }, link("#/", "Log"), " /"), h("h1", null, name), h("p", { class: "note" }, `${topic.kind} · created ${fullTime(topic.created_at)} · ${topic.id}`)),
      h("div", { class: "actions" }, link(hashOf("consumers", { topic: name }), "Consumers"), link(hashOf("dead-letters", { topic: name }), "Dead letters"), h("a", { class: "button primary", href: hashOf("tail", { topic: name, start: "-100" }) }, "Tail"))),
    marks,
    retentionPanel(topic, retention),
    schemaPanel(topic, schemas.versions),
    await segmentPanel(topic, at, context),
    proofPanel(topic, at));
  await context.every(2000, async () => marks.replaceChildren(...marksOf(await get(at(), context.signal), log)));
}

function marksOf(topic, log) {
  const lag = topic.partitions.reduce((sum, each) => sum + each.high - each.durable, 0);
  const table = new Table({
    label: "Partitions",
    key: (row) => row.partition,
    columns: [
      { id: "p", title: "Partition", show: (row) => link(hashOf("tail", { topic: topic.name, partition: row.partition, start: "-100" }), String(row.partition)) },
      { id: "low", title: "Oldest", kind: "num", show: (row) => (row.low < row.high ? link(hashOf("record", { topic: topic.name, partition: row.partition, offset: row.low }), count(row.low)) : count(row.low)) },
      { id: "durable", title: "Durable up to", kind: "num", show: (row) => count(row.durable) },
      { id: "high", title: "End", kind: "num", show: (row) => (row.low < row.high ? link(hashOf("record", { topic: topic.name, partition: row.partition, offset: row.high - 1 }), count(row.high)) : count(row.high)) },
      { id: "kept", title: "Records", kind: "num", show: (row) => count(row.high - row.low) },
    ],
  });
  table.show(topic.partitions);
  return [
    tiles(
      tile("Records kept", count(topic.records), counted(topic.partitions.length, "partition")),
      tile("Size", bytes(topic.size_bytes), topic.records ? `${bytes(topic.size_bytes / topic.records)} for each record` : ""),
      log.durability_max === "durable" ? tile("Not durable yet", count(lag), lag ? "records" : "everything is durable", lag ? "warn" : "") : tile("Level", log.durability_max, log.capabilities.durability_reason),
      tile("Proof", topic.proof ? "kept" : "none", topic.proof ? "each record is chained" : "create a topic with proof to have one")),
    section("Partitions", topic.records || topic.partitions.some((each) => each.high) ? table.element : h("div", null, h("p", null, "Nothing was appended yet. For a first record:"), code(example(topic)))),
  ];
}

const example = (topic) => `curl ${location.origin}${path("/v1/topics/{}/records", topic.name)} \\\n  -H 'content-type: application/json' -d '{"kind": "first", "payload": {"hello": "world"}}'`;

function retentionPanel(topic, retention) {
  const limits = [
    retention.retention_age_s === null ? null : `for ${seconds(retention.retention_age_s)}`,
    retention.retention_bytes === null ? null : `up to ${bytes(retention.retention_bytes)}`,
  ].filter(Boolean);
  const most = topic.limit_bytes;
  const held = retention.held.map((each) => h("li", null, `Partition ${each.partition} is held at offset ${count(each.offset)} by ${each.consumers.join(", ")}`));
  return section("Retention",
    h("p", null, limits.length ? `Records are kept ${limits.join(", ")}. ` : most === null ? "Records are kept for ever." : "", most === null ? "" : `Beyond ${bytes(most)} the oldest records are removed, even if a consumer has not acked them.`),
    retention.ran_at ? h("p", { class: "note" }, `Last run ${ago(retention.ran_at)}, ${counted(retention.removed, "record")} removed${retention.host ? `, by ${retention.host}:${retention.pid}` : ""}`) : h("p", { class: "note" }, limits.length || most !== null ? "Retention has not run yet." : `Change it with: strandline retention ${topic.name} --age 7d`),
    held.length ? h("ul", null, held) : null);
}

function schemaPanel(topic, versions) {
  const declared = topic.payload_schema ? Object.entries(topic.payload_schema) : [];
  if (!versions.length && !declared.length) return section("Schema", h("p", { class: "note" }, topic.kind === "event" ? "Payloads are any JSON: none are declared." : "This topic has no schema."));
  if (!versions.length) return section("Declared payload", h("ul", { class: "fields" }, declared.map(([name, type]) => h("li", null, h("code", null, name), ` ${type}`))));
  return section("Schema versions", [...versions].reverse().map((each, index) => h("details", { open: index === 0 },
    h("summary", null, `Version ${each.version}`, each.version === 1 ? h("small", null, " the first") : h("small", null, ` ${counted(each.added.length, "column")} added, ${Object.keys(each.widened).length} widened`)),
    h("ul", { class: "fields" }, each.fields.map((one) => h("li", { class: each.added.includes(one.name) ? "added" : each.widened[one.name] ? "widened" : "" },
      h("code", null, one.name), ` ${one.type}${one.nullable ? "" : ", never null"}`, each.added.includes(one.name) ? badge("good", "added") : null, each.widened[one.name] ? badge("warn", `was ${each.widened[one.name]}`) : null))))));
}

async function segmentPanel(topic, at, context) {
  const found = await Promise.all(topic.partitions.slice(0, 16).map(async (each) => (await get(at(`/partitions/${each.partition}/segments`), context.signal)).segments.map((one) => ({ partition: each.partition, ...one }))));
  const rows = found.flat();
  const table = new Table({
    label: "Segments",
    key: (row) => `${row.partition}-${row.start}`,
    sort: context.params.sort ?? "",
    onSort: (sort) => context.set({ sort }),
    columns: [
      { id: "partition", title: "Partition", sort: (row) => row.partition, show: (row) => String(row.partition) },
      { id: "start", title: "Offsets", kind: "num", sort: (row) => row.start, show: (row) => `${count(row.start)} – ${count(row.end)}` },
      { id: "size", title: "Size", kind: "num", sort: (row) => row.size_bytes, show: (row) => bytes(row.size_bytes) },
      { id: "from", title: "Times", kind: "wide", show: (row) => `${timeOf(row.first_timestamp)} – ${timeOf(row.last_timestamp)}` },
      { id: "state", title: "State", show: (row) => (row.is_sealed ? badge("", "sealed", "It gets no more records, and may be in the tier") : badge("good", "open")) },
    ],
  });
  table.show(rows.slice(-200));
  const sealed = rows.filter((each) => each.is_sealed);
  return section("Segments and tier",
    rows.length ? h("p", { class: "note" }, `${counted(rows.length, "segment")}, ${sealed.length} sealed (${bytes(sealed.reduce((sum, each) => sum + each.size_bytes, 0))}). Sealed ones can move to object storage: strandline tier.`) : h("p", { class: "note" }, "This store has no segments yet."),
    rows.length ? table.element : null);
}

function proofPanel(topic, at) {
  const result = h("div", { "aria-live": "polite" });
  const verify = h("button", {
    type: "button",
    onclick: async () => {
      verify.disabled = true;
      try {
        const reports = [];
        for (const each of topic.partitions) reports.push(await post(at(`/partitions/${each.partition}/verify`), {}));
        result.replaceChildren(...reports.map(reportOf));
      } catch (error) {
        toast(error.message, "bad");
      }
      verify.disabled = false;
    },
  }, "Verify now");
  const head = h("button", {
    type: "button",
    onclick: async () => {
      try {
        const heads = await Promise.all(topic.partitions.map((each) => get(at(`/partitions/${each.partition}/proof`))));
        result.replaceChildren(h("p", null, "Keep this elsewhere: a later check compares with it."), code(JSON.stringify(heads, null, 2)));
      } catch (error) {
        toast(error.message, "bad");
      }
    },
  }, "Show the heads");
  return section("Proof", h("p", { class: "note" }, topic.proof ? "Every record is chained to the one before it, so that a change of the past shows." : "This topic keeps no proof; verifying still reads every record and checks its checksum."),
    h("div", { class: "actions" }, verify, topic.proof ? head : null), result);
}

function reportOf(report) {
  const range = `Partition ${report.partition}: ${counted(report.records, "record")} from ${count(report.start)} to ${count(report.end)}`;
  return h("p", null, report.is_sound ? badge("good", report.is_proved ? "proved" : "sound") : badge("bad", "damaged"), ` ${range}`,
    report.findings.length ? h("ul", null, report.findings.map((each) => h("li", null, `${each.offset ?? ""} ${each.reason}`))) : null);
}
