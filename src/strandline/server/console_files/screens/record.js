// One record: its payload, headers and identity; copies of it, and appending it again.

import { h, badge, code, confirmed, copy, link, section, toast } from "../dom.js";
import { get, getText, path, post, query } from "../api.js";
import { count, fullTime, timeOf } from "../format.js";
import { hashOf } from "../routes.js";
import { elements, indented, members, recordOf } from "../json_text.js";

export const title = (params) => `${params.topic} ${params.partition}:${params.offset}`;

export async function show(root, context) {
  const { topic, partition, offset } = context.params;
  const url = path("/v1/topics/{}/partitions/{}/records", topic, partition) + query({ start: offset, limit: 1 });
  const answer = members(await getText(url, context.signal));
  const found = elements(answer.records);
  const [oldest, end] = [Number(answer.oldest), Number(answer.end)];
  const to = (next) => hashOf("record", { topic, partition, offset: next });
  const step = (next) => { if (next >= oldest && next < end) location.hash = to(next); };
  const at = Number(offset);
  context.keys["["] = () => step(at - 1);
  context.keys["]"] = () => step(at + 1);
  root.append(heading(context.params, at, oldest, end, to));
  if (!found.length) {
    root.append(section("Nothing here yet", h("p", null, `The partition ends at ${count(end)}. This page shows the record once it is appended.`)));
    return context.every(2000, async () => {
      if (Number(members(await getText(url, context.signal)).end) > at) dispatchEvent(new HashChangeEvent("hashchange"));
    });
  }
  const record = recordOf(found[0]);
  const position = await get(path("/v1/topics/{}/partitions/{}/offset-at", topic, partition) + query({ place: offset }), context.signal);
  root.append(
    section(record.form === "payload" ? "Payload" : record.form === "rows" ? "Rows" : "Bytes, in base64", code(record.form === "value" ? JSON.parse(record.body) : indented(record.body))),
    headersPanel(record),
    identityPanel(record, position),
    usePanel(record, url));
  return null;
}

function heading({ topic, partition, offset }, at, oldest, end, to) {
  const neighbour = (next, text, label) => (next >= oldest && next < end ? h("a", { class: "button", href: to(next), "aria-label": label }, text) : h("span", { class: "button", "aria-disabled": "true" }, text));
  return h("div", { class: "heading" },
    h("div", null, h("p", { class: "crumbs" }, link("#/", "Log"), " / ", link(hashOf("topic", { topic }), topic), " / ", link(hashOf("tail", { topic, partition, start: offset }), "tail from here"), " /"), h("h1", null, `Record ${partition}:${offset}`)),
    h("div", { class: "actions" }, neighbour(at - 1, "← Before", "The record before"), neighbour(at + 1, "After →", "The record after")));
}

function headersPanel(record) {
  const names = Object.keys(record.headers);
  if (!names.length) return section("Headers", h("p", { class: "note" }, "It has none."));
  return section("Headers", h("dl", { class: "pairs" }, names.sort().flatMap((name) => [h("dt", null, name), h("dd", null, record.headers[name])])));
}

function identityPanel(record, { position }) {
  const pairs = [
    ["Appended", `${fullTime(record.timestamp)} (${timeOf(record.timestamp)})`],
    record.occurred_at ? ["Occurred", fullTime(record.occurred_at)] : null,
    ["Kind", record.kind ?? record.form],
    ["Key", record.key ?? badge("", "none")],
    ["Tenant", record.tenant ?? badge("", "none")],
    ["Place", `${record.topic}, partition ${record.partition}, offset ${record.offset}`],
    ["Position", JSON.stringify(position)],
  ].filter(Boolean);
  return section("Identity", h("dl", { class: "pairs" }, pairs.flatMap(([name, value]) => [h("dt", null, name), h("dd", null, value)])));
}

function usePanel(record, url) {
  const curl = `curl -H 'Accept: application/x-ndjson' '${location.origin}${url.replaceAll("'", "%27")}'`;
  const python = `import strandline as sl\n\nwith sl.open(${JSON.stringify(location.origin)}) as log:\n    (record,) = log.read(${JSON.stringify(record.topic)}, ${record.partition}, ${record.offset}, ${record.offset + 1})\n    print(record)`;
  return section("Use it",
    h("div", { class: "actions" },
      h("button", { type: "button", onclick: () => copy(location.href) }, "Copy the link"),
      h("button", { type: "button", onclick: () => copy(curl) }, "Copy as curl"),
      h("button", { type: "button", onclick: () => copy(python) }, "Copy as Python"),
      h("button", { type: "button", onclick: () => copy(record.body) }, "Copy the payload"),
      record.form === "payload" ? h("button", { type: "button", onclick: () => appendAgain(record) }, "Append again…") : null),
    h("details", null, h("summary", null, "As curl and Python"), code(curl), code(python)));
}

async function appendAgain(record) {
  const own = Object.fromEntries(Object.entries(record.headers).filter(([name]) => !name.startsWith("strandline.")));
  // The payload goes as the text that it is: parsing it might round its numbers.
  const body = `{"kind":${JSON.stringify(record.kind)},"key":${JSON.stringify(record.key)},"headers":${JSON.stringify(own)},"payload":${record.body}}`;
  const content = h("div", null, h("p", null, `A new record is appended to ${record.topic}, with a new offset and the time of now. Every consumer gets it; this one stays as it is.`), code(indented(body)));
  if (!(await confirmed("Append this record again?", content, "Append"))) return;
  try {
    const answer = await post(path("/v1/topics/{}/records", record.topic), body);
    const [receipt] = answer.receipts ?? [answer];
    toast(`Appended at ${receipt.partition}:${receipt.offset}`);
  } catch (error) {
    toast(error.message, "bad");
  }
}
