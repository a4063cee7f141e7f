// A table that can be sorted, and walked through with the keyboard. The order is part of the URL.

import { h } from "./dom.js";

export class Table {
  // columns: {id, title, kind, show(row), sort(row)}
  constructor({ label, columns, key, open, sort, onSort }) {
    Object.assign(this, { columns, key, open, onSort });
    this.sortedBy = sort ?? "";
    this.rows = [];
    this.head = h("tr", null, columns.map((each) => this.heading(each)));
    this.body = h("tbody");
    this.element = h("div", { class: "table", tabindex: "0", role: "region", "aria-label": label },
      h("table", null, h("caption", { class: "unseen" }, label), h("thead", null, this.head), this.body));
  }

  heading(column) {
    if (!column.sort) return h("th", { scope: "col", class: column.kind }, column.title);
    return h("th", { scope: "col", class: column.kind, "data-id": column.id },
      h("button", { type: "button", class: "sort", onclick: () => this.order(column.id) }, column.title));
  }

  order(id) {
    this.sortedBy = this.sortedBy === `-${id}` ? id : `-${id}`;
    this.onSort?.(this.sortedBy);
    this.show(this.rows);
  }

  sorted(rows) {
    const id = this.sortedBy.replace("-", "");
    const column = this.columns.find((each) => each.id === id && each.sort);
    if (!column) return rows;
    const sign = this.sortedBy.startsWith("-") ? -1 : 1;
    return [...rows].sort((a, b) => {
      const [left, right] = [column.sort(a), column.sort(b)];
      return left === right ? 0 : (left > right ? 1 : -1) * sign;
    });
  }

  show(rows) {
    this.rows = rows;
    const focused = document.activeElement?.closest?.("tr")?.dataset.key;
    for (const th of this.head.children) {
      const id = th.dataset.id;
      if (id) th.setAttribute("aria-sort", this.sortedBy === id ? "ascending" : this.sortedBy === `-${id}` ? "descending" : "none");
    }
    this.body.replaceChildren(...this.sorted(rows).map((row) => this.row(row)));
    if (focused !== undefined) [...this.body.children].find((each) => each.dataset.key === focused)?.focus();
  }

  row(row) {
    const cells = this.columns.map((each) => h("td", { class: each.kind }, each.show(row)));
    if (!this.open) return h("tr", { "data-key": this.key(row) }, cells);
    return h("tr", {
      "data-key": this.key(row), tabindex: "0", class: "opens",
      onclick: (event) => { if (!event.target.closest("a, button, input, label")) this.open(row); },
      onkeydown: (event) => this.walk(event, row),
    }, cells);
  }

  walk(event, row) {
    if (event.target.tagName !== "TR") return;
    const at = event.currentTarget;
    const next = { ArrowDown: at.nextElementSibling, j: at.nextElementSibling, ArrowUp: at.previousElementSibling, k: at.previousElementSibling };
    if (event.key === "Enter") this.open(row);
    else if (event.key in next) next[event.key]?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  focusFirst() {
    this.body.querySelector("tr")?.focus();
  }
}
