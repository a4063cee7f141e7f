// Charts of a number over time, drawn as SVG.

import { h, svg } from "./dom.js";
import { timeOf } from "./format.js";

const pathOf = (points, x, y) => points.map(([at, value], index) => `${index ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("");

export function spark(values, label) {
  const width = 84;
  const height = 22;
  const most = Math.max(1, ...values);
  const points = values.map((value, index) => [index, value]);
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "spark", role: "img", "aria-label": label });
  if (points.length > 1) {
    const x = (at) => 1 + (at / (points.length - 1)) * (width - 2);
    drawing.append(svg("path", { d: pathOf(points, x, (value) => height - 2 - (value / most) * (height - 4)) }));
  }
  return drawing;
}

// points: [[milliseconds, number]]; show(number) gives it a unit.
export function chart({ title, points, show, span }) {
  const [width, height, left, bottom] = [560, 170, 8, 20];
  const until = Math.max(Date.now(), points.at(-1)?.[0] ?? 0);
  const from = until - span;
  const seen = points.filter(([at]) => at >= from);
  const most = Math.max(1e-9, ...seen.map(([, value]) => value));
  const x = (at) => left + ((at - from) / span) * (width - 2 * left);
  const y = (value) => height - bottom - (value / most) * (height - bottom - 12);
  const now = seen.length ? show(seen.at(-1)[1]) : "–";
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": `${title}: now ${now}, at most ${show(most < 1e-6 ? 0 : most)}` });
  drawing.append(svg("line", { x1: left, x2: width - left, y1: height - bottom, y2: height - bottom, class: "axis" }));
  drawing.append(svg("line", { x1: left, x2: width - left, y1: y(most), y2: y(most), class: "axis faint" }));
  for (const share of [0, 0.5, 1]) {
    const at = from + share * span;
    const label = svg("text", { x: x(at), y: height - 5, "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle" });
    label.textContent = timeOf(new Date(at).toISOString()).replace(/\.\d+$/, "");
    drawing.append(label);
  }
  if (seen.length > 1) {
    const line = pathOf(seen, x, y);
    drawing.append(svg("path", { d: `${line}L${x(seen.at(-1)[0])} ${height - bottom}L${x(seen[0][0])} ${height - bottom}Z`, class: "area" }));
    drawing.append(svg("path", { d: line, class: "line" }));
  }
  const dot = svg("circle", { r: 3.5, class: "dot", visibility: "hidden" });
  drawing.append(dot);
  const reading = h("output", { class: "reading" }, now);
  drawing.addEventListener("pointermove", (event) => {
    if (!seen.length) return;
    const box = drawing.getBoundingClientRect();
    const at = from + (((event.clientX - box.left) / box.width) * width - left) / (width - 2 * left) * span;
    const nearest = seen.reduce((best, each) => (Math.abs(each[0] - at) < Math.abs(best[0] - at) ? each : best));
    dot.setAttribute("cx", x(nearest[0]));
    dot.setAttribute("cy", y(nearest[1]));
    dot.setAttribute("visibility", "visible");
    reading.textContent = `${show(nearest[1])} at ${timeOf(new Date(nearest[0]).toISOString()).replace(/\.\d+$/, "")}`;
  });
  drawing.addEventListener("pointerleave", () => { dot.setAttribute("visibility", "hidden"); reading.textContent = now; });
  return h("figure", { class: "panel figure" },
    h("figcaption", null, h("span", null, title), reading),
    drawing,
    h("p", { class: "note" }, seen.length > 1 ? `At most ${show(most < 1e-6 ? 0 : most)}` : "The first samples come within seconds"));
}
