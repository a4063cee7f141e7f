// Dead letters: why, after how many deliveries; redriving one, some or all, after a dry run.

import { h, badge, code, confirmed, empty, link, section, tile, tiles, toast } from "../dom.js";
import { get, getText, path, post, query } from "../api.js";
import { count, counted, timeOf } from "../format.js";
import { hashOf } from "../routes.js";
import { elements, indented, members } from "../json_text.js";
import { Table } from "../table.js";

export const title = (params) => (params.topic ? `${params.topic} · dead letters` : "Dead letters");

export async function show(root, context) {
  return context.params.topic ? ofTopic(root, context) : ofAll(root, context);
}

async function ofAll(root, context) {
  const list = h("div");
  root.append(h("div", { class: "heading" }, h("h1", null, "Dead letters")), list);
  const table = new Table({
    label: "Topics with dead letters",
    key: (row) => row.topic,
    open: (row) => { location.hash = hashOf("dead-letters", { topic: row.topic }); },
    sort: context.params.sort ?? "-waiting",
    onSort: (sort) => context.set({ sort }),
    columns: [
      { id: "topic", title: "Topic", sort: (row) => row.topic, show: (row) => link(hashOf("dead-letters", { topic: row.topic }), row.topic) },
      { id: "waiting", title: "Waiting", kind: "num", sort: (row) => row.waiting, show: (row) => count(row.waiting) },
      { id: "redriven", title: "Redriven", kind: "num", sort: (row) => row.kept - row.waiting, show: (row) => count(row.kept - row.waiting) },
      { id: "state", title: "State", show: (row) => (row.waiting ? badge("bad", "look at it") : badge("good", "nothing waits")) },
    ],
  });
  await context.every(3000, async () => {
    const { topics } = await get("/v1/dead-letters", context.signal);
    if (!topics.length) return list.replaceChildren(none());
    if (list.firstChild !== table.element) list.replaceChildren(table.element);
    return table.show(topics);
  });
}

const none = () => empty("There are no dead letters", "A record that a consumer cannot handle is set aside here with the cause, after its deliveries_max, so that later records are not blocked. Nothing needs to be done.");

async function ofTopic(root, context) {
  const { topic, consumer } = context.params;
  const chosen = new Set();
  const redriveChosen = h("button", { type: "button", disabled: true, onclick: () => redrive([...chosen]) }, "Redrive chosen…");
  const redriveAll = h("button", { type: "button", class: "primary", onclick: () => redrive(null) }, "Redrive all…");
  const summary = h("div");
  const list = h("div");
  root.append(h("div", { class: "heading" },
    h("div", null, h("p", { class: "crumbs" }, link("#/dead-letters", "Dead letters"), " / ", link(hashOf("topic", { topic }), topic), " /"), h("h1", null, consumer ? `Dead letters of ${consumer}` : "Dead letters")),
    h("div", { class: "actions" }, redriveChosen, redriveAll)), summary, list);
  let known = "";

  async function load() {
    const text = await getText(path("/v1/topics/{}/dead-letters", topic) + query({ consumer, limit: 1000 }), context.signal);
    if (text === known) return;
    known = text;
    const found = JSON.parse(text);
    // Payloads are shown as the text that they are: parsing them might round their numbers.
    const raw = elements(members(text).dead_letters).map((each) => members(each).payload);
    const letters = found.dead_letters.map((each, index) => ({ ...each, body: indented(raw[index]) }));
    const waiting = letters.filter((each) => !each.is_redriven);
    redriveAll.disabled = !waiting.length;
    const causes = new Set(waiting.map((each) => each.reason));
    summary.replaceChildren(tiles(tile("Waiting", count(waiting.length), found.next === null ? "" : "of the first 1,000", waiting.length ? "bad" : ""), tile("Causes", count(causes.size), "that differ"), tile("Redriven", count(letters.length - waiting.length), "handed out once more")));
    list.replaceChildren(...(letters.length ? letters.map(card) : [none()]));
  }

  function card(letter) {
    const box = letter.is_redriven ? null : h("input", { type: "checkbox", checked: chosen.has(letter.offset), "aria-label": `Choose dead letter ${letter.offset}`, onchange: () => { if (box.checked) chosen.add(letter.offset); else chosen.delete(letter.offset); redriveChosen.disabled = !chosen.size; } });
    return section(null, h("div", { class: "letter-head" }, box, h("strong", null, letter.reason), letter.is_redriven ? badge("good", "redriven") : badge("bad", "waits"), letter.is_redriven ? null : h("button", { type: "button", class: "apart", onclick: () => redrive([letter.offset]) }, "Redrive…")),
      h("p", { class: "note" }, link(hashOf("record", { topic, partition: letter.partition, offset: letter.record_offset }), `Record ${letter.partition}:${letter.record_offset}`), ` · ${letter.kind}${letter.key ? ` · key ${letter.key}` : ""} · `, link(hashOf("consumers", { topic, consumer: letter.consumer }), letter.consumer), ` · ${counted(letter.deliveries, "delivery", "deliveries")} · ${timeOf(letter.dead_lettered_at)}`),
      h("details", null, h("summary", null, "Payload and headers"), code(letter.body), Object.keys(letter.headers).length ? code(JSON.stringify(letter.headers, null, 2)) : null));
  }

  async function redrive(offsets) {
    const wanted = { consumer: consumer ?? null, offsets };
    try {
      const plan = await post(path("/v1/topics/{}/dead-letters/redrive", topic), { ...wanted, dry_run: true });
      const to = [...new Set(plan.dead_letters.map((each) => each.consumer))];
      const content = h("div", null,
        h("p", null, `${counted(plan.dead_letters.length, "record")} will be delivered once more, to ${to.join(", ")} alone. One that fails again becomes a dead letter again. Other readers see nothing of it.`),
        h("ul", { class: "fields" }, plan.dead_letters.slice(0, 20).map((each) => h("li", null, `${each.partition}:${each.record_offset} ${each.kind} – ${each.reason}`))),
        plan.dead_letters.length > 20 ? h("p", { class: "note" }, `and ${count(plan.dead_letters.length - 20)} more`) : null);
      if (!(await confirmed("Redrive these?", content, `Redrive ${count(plan.dead_letters.length)}`))) return;
      // What was shown is what is done, and nothing that came meanwhile.
      const done = await post(path("/v1/topics/{}/dead-letters/redrive", topic), { consumer: wanted.consumer, offsets: plan.dead_letters.map((each) => each.offset), dry_run: false });
      toast(`${counted(done.dead_letters.length, "record")} redriven`);
      chosen.clear();
      redriveChosen.disabled = true;
      await load();
    } catch (error) {
      toast(error.message, "bad");
    }
  }

  await context.every(3000, load);
}
