// A list of any length, of which only what is in sight has elements.

import { h } from "./dom.js";

export const ROW_HEIGHT = 30;
const AHEAD = 12;

export class VirtualList {
  // `render(item, row)` fills the element of a row; `open(item)` is for Enter and clicks.
  constructor({ label, columns, render, open }) {
    this.items = [];
    this.follows = true;
    this.selected = -1;
    this.render = render;
    this.open = open;
    this.rows = new Map();
    this.canvas = h("div", { class: "list-canvas", role: "rowgroup" });
    this.body = h("div", {
      class: "list", role: "grid", tabindex: "0", "aria-label": label, "aria-rowcount": "0",
      onscroll: () => this.scrolled(), onkeydown: (event) => this.key(event),
    }, h("div", { role: "rowgroup", class: "list-head-group" },
      h("div", { class: "list-head row", role: "row" }, columns.map((each) => h("span", { role: "columnheader", class: `cell ${each.kind}` }, each.title)))),
    this.canvas);
    this.pending = false;
    new ResizeObserver(() => this.draw()).observe(this.body);
  }

  append(items) {
    for (const each of items) this.items.push(each);
    this.draw();
  }

  clear() {
    this.items = [];
    this.selected = -1;
    this.follows = true;
    this.forget();
    this.draw();
  }

  // Leaves out the oldest items, so that a page that is open for days does not fill the memory.
  drop(number) {
    this.items.splice(0, number);
    this.selected = Math.max(-1, this.selected - number);
    if (!this.follows) this.body.scrollTop = Math.max(0, this.body.scrollTop - number * ROW_HEIGHT);
    this.forget();
    this.draw();
  }

  forget() {
    for (const row of this.rows.values()) row.remove();
    this.rows.clear();
  }

  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.body;
    this.follows = scrollTop + clientHeight >= scrollHeight - ROW_HEIGHT;
    this.draw();
  }

  draw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; this.paint(); });
  }

  paint() {
    const total = this.items.length;
    this.canvas.style.height = `${total * ROW_HEIGHT}px`;
    this.body.setAttribute("aria-rowcount", String(total));
    if (this.follows) this.body.scrollTop = this.body.scrollHeight;
    const first = Math.max(0, Math.floor(this.body.scrollTop / ROW_HEIGHT) - AHEAD);
    const last = Math.min(total, Math.ceil((this.body.scrollTop + this.body.clientHeight) / ROW_HEIGHT) + AHEAD);
    for (const [index, row] of this.rows) {
      if (index < first || index >= last) { row.remove(); this.rows.delete(index); }
    }
    for (let index = first; index < last; index += 1) {
      let row = this.rows.get(index);
      if (!row) {
        row = h("div", { class: "row", role: "row", id: `row-${index}`, "aria-rowindex": String(index + 1), onclick: () => { this.select(index); this.open(this.items[index]); } });
        row.style.transform = `translateY(${index * ROW_HEIGHT}px)`;
        this.render(this.items[index], row);
        this.rows.set(index, row);
        this.canvas.append(row);
      }
      row.classList.toggle("selected", index === this.selected);
    }
    if (this.selected >= 0) this.body.setAttribute("aria-activedescendant", `row-${this.selected}`);
  }

  select(index) {
    if (!this.items.length) return;
    this.selected = Math.max(0, Math.min(this.items.length - 1, index));
    const top = this.selected * ROW_HEIGHT;
    const { scrollTop, clientHeight } = this.body;
    if (top < scrollTop) this.body.scrollTop = top;
    else if (top + 2 * ROW_HEIGHT > scrollTop + clientHeight) this.body.scrollTop = top + 2 * ROW_HEIGHT - clientHeight;
    this.follows = this.selected === this.items.length - 1;
    this.draw();
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.body.clientHeight / ROW_HEIGHT) - 2);
    const at = this.selected < 0 ? this.items.length : this.selected;
    const moves = { ArrowDown: at + 1, j: at + 1, ArrowUp: at - 1, k: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: this.items.length - 1 };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in moves) this.select(moves[event.key]);
    else if (event.key === "Enter" && this.selected >= 0) this.open(this.items[this.selected]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
