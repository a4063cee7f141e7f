// Metrics: charts of the last hour.

import { h, empty } from "../dom.js";
import { Problem, get } from "../api.js";
import { bytes, rate, short, zone } from "../format.js";
import { chart } from "../chart.js";

const SPANS = [["5", "5 minutes"], ["15", "15 minutes"], ["60", "an hour"]];

export const title = () => "Metrics";

export async function show(root, context) {
  const span = h("select", { "aria-label": "How long", onchange: () => { context.set({ minutes: span.value }); draw(); } },
    SPANS.map(([value, text]) => h("option", { value, selected: value === context.params.minutes }, text)));
  const charts = h("div", { class: "charts" });
  root.append(h("div", { class: "heading" }, h("div", null, h("h1", null, "Metrics"), h("p", { class: "note" }, `Counted since the server was started, ${zone}. For Prometheus: `, h("a", { href: "/metrics" }, "/metrics"))), h("div", { class: "actions" }, h("label", { class: "field" }, h("span", null, "The last"), span))), charts);
  let samples = [];

  // Unless one was chosen, the shortest that shows everything.
  function chooseSpan() {
    if (context.params.minutes || !samples.length) return;
    const minutes = (Date.now() - Date.parse(samples[0].at)) / 60000;
    span.value = (SPANS.find(([value]) => minutes <= Number(value)) ?? SPANS.at(-1))[0];
  }

  function draw() {
    const ms = Number(span.value) * 60000;
    const level = (name) => samples.map((each) => [Date.parse(each.at), each[name]]);
    const perSecond = (name) => samples.slice(1).map((each, index) => {
      const took = (Date.parse(each.at) - Date.parse(samples[index].at)) / 1000;
      return [Date.parse(each.at), took > 0 ? Math.max(0, each[name] - samples[index][name]) / took : 0];
    });
    charts.replaceChildren(
      chart({ title: "Records appended, by all processes", points: perSecond("records"), show: rate, span: ms }),
      chart({ title: "Lag of all consumers, records", points: level("lag"), show: short, span: ms }),
      chart({ title: "Bytes appended through this server", points: perSecond("bytes"), show: (value) => `${bytes(value)}/s`, span: ms }),
      chart({ title: "Requests answered", points: perSecond("requests"), show: rate, span: ms }),
      chart({ title: "Requests that failed (500 and more)", points: perSecond("failures"), show: rate, span: ms }),
      chart({ title: "Streams open", points: level("streams"), show: short, span: ms }));
  }

  await context.every(5000, async () => {
    try {
      samples = (await get("/v1/metrics/history", context.signal)).samples;
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 403) throw error;
      charts.replaceChildren(empty("This token may not see the metrics", "It takes a token without a tenant, for all topics: strandline token create --scope read,metrics"));
      return;
    }
    chooseSpan();
    draw();
  });
}
