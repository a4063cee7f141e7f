// Spark: each query that is a consumer (option groupId), with its lag and its last batch.

import { h, badge, code, empty, link } from "../dom.js";
import { get } from "../api.js";
import { ago, count, seconds } from "../format.js";
import { hashOf } from "../routes.js";
import { Table } from "../table.js";
import { rowsOf, trendCell } from "./consumers.js";

export const title = () => "Spark";

const EXAMPLE = `spark.readStream.format("strandline")
    .option("url", url).option("subscribe", "orders")
    .option("groupId", "daily-report")
    .load()`;

export async function show(root, context) {
  const table = new Table({
    label: "Spark queries",
    key: (row) => `${row.topic}/${row.consumer}`,
    open: (row) => { location.hash = hashOf("consumers", { topic: row.topic, consumer: row.consumer }); },
    sort: context.params.sort ?? "-lag",
    onSort: (sort) => context.set({ sort }),
    columns: [
      { id: "consumer", title: "Query (groupId)", sort: (row) => row.consumer, show: (row) => link(hashOf("consumers", { topic: row.topic, consumer: row.consumer }), row.consumer) },
      { id: "topic", title: "Topic", sort: (row) => row.topic, show: (row) => link(hashOf("topic", { topic: row.topic }), row.topic) },
      { id: "lag", title: "Lag, records", kind: "num", sort: (row) => row.lag, show: (row) => count(row.lag) },
      { id: "age", title: "Lag, time", kind: "num", sort: (row) => row.lagSeconds, show: (row) => seconds(row.lagSeconds) },
      { id: "trend", title: "Trend", sort: (row) => row.trend ?? 0, show: trendCell },
      { id: "batch", title: "Last batch", sort: (row) => row.seen, show: (row) => ago(row.seen) },
      { id: "state", title: "State", show: (row) => (row.lag ? badge("warn", "behind") : badge("good", "caught up")) },
    ],
  });
  const list = h("div");
  root.append(h("div", { class: "heading" }, h("div", null, h("h1", null, "Spark"),
    h("p", { class: "note" }, "A query with groupId acknowledges each batch once the next one begins, and holds no partition. So do other programs that acknowledge by themselves: they are listed, too."))), list);
  await context.every(2000, async () => {
    const rows = rowsOf((await get("/v1/lag", context.signal)).topics).filter((each) => !each.members.length && each.generation === 0);
    if (!rows.length) return list.replaceChildren(none());
    if (list.firstChild !== table.element) list.replaceChildren(table.element);
    return table.show(rows);
  });
}

const none = () => empty("No Spark query is a consumer of this log", "Give a query the option groupId, and it shows here with its lag and its last batch:", code(EXAMPLE));
