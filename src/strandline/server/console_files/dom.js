// Builds elements. Text is text: nothing here, or anywhere in the console, reads markup.

export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

export function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes ?? {})) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export const link = (href, ...children) => h("a", { href }, ...children);

export const badge = (kind, text, title) => h("span", { class: `badge ${kind}`, title }, text);

// What a screen shows when there is nothing: what it is, and what to do next.
export function empty(title, ...next) {
  // Below the heading of its screen, if there is one.
  const level = document.querySelector("main h1") ? "h2" : "h1";
  return h("div", { class: "empty" }, h(level, null, title), ...next.map((each) => typeof each === "string" ? h("p", null, each) : each));
}

export const code = (text) => h("pre", { class: "code", tabindex: "0" }, text);

export function tile(label, value, note, kind = "") {
  return h("div", { class: `tile ${kind}` }, h("dt", null, label), h("dd", null, value), note ? h("dd", { class: "note" }, note) : null);
}

export const tiles = (...each) => h("dl", { class: "tiles" }, ...each);

export function section(title, ...children) {
  return h("section", { class: "panel" }, title ? h("h2", null, title) : null, ...children);
}

export function field(label, control, hint) {
  return h("label", { class: "field" }, h("span", null, label), control, hint ? h("small", null, hint) : null);
}

// A dialog that asks before something happens; returns whether it was confirmed.
export function confirmed(title, content, action) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { "aria-label": title },
      h("h2", null, title),
      content,
      h("div", { class: "actions" },
        h("button", { type: "button", onclick: () => dialog.close("") }, action ? "Cancel" : "Close"),
        action ? h("button", { type: "button", class: "primary", onclick: () => dialog.close("yes") }, action) : null));
    dialog.addEventListener("close", () => { dialog.remove(); resolve(dialog.returnValue === "yes"); });
    document.body.append(dialog);
    dialog.showModal();
  });
}

export function toast(text, kind = "good") {
  document.querySelector(".toast")?.remove();
  const shown = h("div", { class: `toast ${kind}`, role: "status", onclick: () => shown.remove() }, text);
  document.body.append(shown);
  setTimeout(() => shown.remove(), 20_000);
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied");
  } catch {
    await confirmed("Copy this", code(text));
  }
}
