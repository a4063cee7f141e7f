// Triggers and views of the server's own process: cursor, failures, readiness.

import { h, badge, code, empty, link, section } from "../dom.js";
import { get } from "../api.js";
import { count } from "../format.js";
import { hashOf } from "../routes.js";
import { Table } from "../table.js";

export const title = () => "Triggers, views";

const EXAMPLE = `from strandline.server.running import Address, RunningServer

RunningServer(log, Address(), views={"totals": view}, triggers=[triggers]).run()`;

export async function show(root, context) {
  const triggers = new Table({
    label: "Triggers",
    key: (row) => `${row.topic}/${row.name}`,
    sort: context.params.sort ?? "",
    onSort: (sort) => context.set({ sort }),
    open: (row) => { location.hash = hashOf("consumers", { topic: row.topic, consumer: row.name }); },
    columns: [
      { id: "name", title: "Trigger", sort: (row) => row.name, show: (row) => link(hashOf("consumers", { topic: row.topic, consumer: row.name }), row.name) },
      { id: "topic", title: "Topic", sort: (row) => row.topic, show: (row) => link(hashOf("topic", { topic: row.topic }), row.topic) },
      { id: "state", title: "State", show: (row) => (row.is_running ? badge("good", "runs") : badge("warn", "stopped")) },
      { id: "lag", title: "Lag", kind: "num", sort: (row) => row.lag, show: (row) => count(row.lag) },
      { id: "handled", title: "Handled", kind: "num", sort: (row) => row.handled, show: (row) => count(row.handled) },
      { id: "in_flight", title: "In flight", kind: "num wide", sort: (row) => row.in_flight, show: (row) => count(row.in_flight) },
      { id: "retried", title: "Failures", kind: "num", sort: (row) => row.retried, show: (row) => count(row.retried) },
      { id: "dead", title: "Dead letters", kind: "num", sort: (row) => row.dead_lettered, show: (row) => (row.dead_lettered ? link(hashOf("dead-letters", { topic: row.topic, consumer: row.name }), count(row.dead_lettered)) : "0") },
    ],
  });
  const list = h("div");
  root.append(h("div", { class: "heading" }, h("h1", null, "Triggers and views")), list);
  await context.every(2000, async () => {
    const [work, views] = await Promise.all([get("/v1/triggers", context.signal), get("/v1/views", context.signal)]);
    if (!work.triggers.length && !views.views.length) return list.replaceChildren(none());
    triggers.show(work.triggers);
    return list.replaceChildren(
      section("Triggers", work.triggers.length ? triggers.element : h("p", { class: "note" }, "None run in the process of this server. Those of other processes are consumers: ", link("#/consumers", "look there"), ".")),
      ...views.views.map(viewPanel));
  });
}

function viewPanel(view) {
  const table = new Table({
    label: `Partitions of ${view.name}`,
    key: (row) => row.partition,
    columns: [
      { id: "p", title: "Partition", show: (row) => String(row.partition) },
      { id: "ready", title: "Readiness", show: (row) => badge(row.readiness === "ready" ? "good" : row.readiness === "stopped" ? "bad" : "warn", row.readiness) },
      { id: "applied", title: "Applied", kind: "num", show: (row) => (row.applied < 0 ? "nothing" : count(row.applied)) },
      { id: "saved", title: "In the snapshot", kind: "num wide", show: (row) => (row.committed < 0 ? "nothing" : count(row.committed)) },
      { id: "lag", title: "Lag", kind: "num", show: (row) => count(row.lag) },
      { id: "aside", title: "Set aside", kind: "num", show: (row) => count(Object.keys(row.quarantined).length) },
      { id: "fault", title: "Fault", show: (row) => row.fault ?? "–" },
    ],
  });
  table.show(view.partitions);
  return section(`View ${view.name}`, h("p", { class: "note" }, "of ", link(hashOf("topic", { topic: view.topic }), view.topic), " ", view.is_healthy ? badge("good", "healthy") : badge("warn", view.fault ?? (view.is_running ? "not ready" : "stopped"))), table.element);
}

function none() {
  return empty("No trigger and no view runs in the process of this server",
    h("p", null, "Triggers and views run in your own programs. Each trigger is a consumer there, with its lag: ", link("#/consumers", "Consumers"), ". To see more of them here, serve the log from that program:"),
    code(EXAMPLE));
}
