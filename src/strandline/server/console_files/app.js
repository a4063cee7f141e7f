// The frame: which screen the URL names, the keys, light and dark, and whether the server is there.

import { h, confirmed, empty } from "./dom.js";
import { Problem, Unreachable, post } from "./api.js";
import { hashOf, parsed } from "./routes.js";
import * as log from "./screens/log.js";
import * as topic from "./screens/topic.js";
import * as tail from "./screens/tail.js";
import * as record from "./screens/record.js";
import * as consumers from "./screens/consumers.js";
import * as deadLetters from "./screens/dead_letters.js";
import * as work from "./screens/work.js";
import * as spark from "./screens/spark.js";
import * as metrics from "./screens/metrics.js";
import * as signIn from "./screens/sign_in.js";

const SCREENS = { "": log, topic, tail, record, consumers, "dead-letters": deadLetters, work, spark, metrics };
const NAV = [["", "Log"], ["tail", "Tail"], ["consumers", "Consumers"], ["dead-letters", "Dead letters"], ["work", "Triggers, views"], ["spark", "Spark"], ["metrics", "Metrics"]];
const WITHIN = { topic: "", record: "tail" };
const KEYS = [["1 … 7", "A screen of the menu"], ["/", "The filter, or the first field"], ["j, k, ↓, ↑", "Through rows"], ["Enter", "Open a row"], ["Space", "Pause and resume the tail"], ["[, ]", "The record before, and after"], ["t", "Light, dark, or as the system has it"], ["?", "This help"]];

const main = document.getElementById("main");
let current = { abort: new AbortController(), keys: {} };

// What a screen gets: its parameters, ways to change them, and work that ends with the screen.
function contextOf(name, params) {
  const abort = new AbortController();
  const context = {
    params,
    signal: abort.signal,
    keys: {},
    abort,
    // Changes the URL, and not the screen.
    set(changes) {
      for (const [key, value] of Object.entries(changes)) {
        if (value === "" || value === null || value === undefined) delete params[key];
        else params[key] = value;
      }
      history.replaceState(null, "", hashOf(name, params));
    },
    // Calls again and again, while the screen is open and in sight.
    async every(ms, call) {
      while (!abort.signal.aborted) {
        if (!document.hidden) {
          try {
            await call();
          } catch (error) {
            if (!abort.signal.aborted && !(error instanceof Unreachable)) return failed(error);
          }
        }
        await new Promise((resolve) => setTimeout(resolve, ms));
      }
      return null;
    },
  };
  return context;
}

function failed(error) {
  if (error.name === "AbortError") return;
  if (error instanceof Problem && error.status === 401) return;
  const next = error instanceof Problem
    ? h("p", null, h("a", { href: error.body.type ?? "/openapi.json" }, error.title), `: ${error.message}`)
    : h("p", null, error.message);
  main.replaceChildren();
  main.append(h("div", { role: "alert" }, empty("This cannot be shown", next,
    h("p", null, h("button", { type: "button", class: "primary", onclick: open }, "Try again"), " ", h("a", { href: "#/" }, "To the log")))));
  if (!(error instanceof Problem) && !(error instanceof Unreachable)) console.error(error);
}

async function open() {
  current.abort.abort();
  const { name, params } = parsed();
  const screen = SCREENS[name];
  current = contextOf(name, params);
  const mine = current;
  markNav(name);
  main.replaceChildren();
  if (!screen) return failed(new Problem({ title: "NotFound", type: "/errors/NotFound", detail: `there is no screen ${name}` }, 404));
  document.title = `${screen.title(params)} · Strandline`;
  try {
    await screen.show(main, mine);
  } catch (error) {
    if (mine === current) failed(error);
  }
  return null;
}

function markNav(name) {
  const within = WITHIN[name] ?? name;
  for (const each of document.querySelectorAll("#nav a")) {
    if (each.dataset.name !== within) each.removeAttribute("aria-current");
    else {
      each.setAttribute("aria-current", "page");
      // On a phone the menu is a row that scrolls.
      each.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  }
}

function showNav() {
  document.getElementById("nav").replaceChildren(...NAV.map(([name, title], index) =>
    h("a", { href: hashOf(name), "data-name": name }, h("span", null, title), h("kbd", { "aria-hidden": "true" }, String(index + 1)))));
}

// --- light and dark ---

const THEMES = ["system", "light", "dark"];

function applyTheme() {
  const chosen = localStorage.getItem("theme") ?? "system";
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  const button = document.getElementById("theme");
  button.textContent = { system: "Theme: system", light: "Theme: light", dark: "Theme: dark" }[chosen];
}

function nextTheme() {
  const now = THEMES.indexOf(localStorage.getItem("theme") ?? "system");
  localStorage.setItem("theme", THEMES[(now + 1) % THEMES.length]);
  applyTheme();
}

// --- keys ---

function showKeys() {
  confirmed("Keys", h("dl", { class: "keys" }, KEYS.flatMap(([key, text]) => [h("dt", null, h("kbd", null, key)), h("dd", null, text)])));
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.closest("input, textarea, select") && event.key !== "Escape") return;
  if (event.key === " " && event.target.closest("button, a, summary")) return;
  const number = Number(event.key);
  if (number >= 1 && number <= NAV.length) location.hash = hashOf(NAV[number - 1][0]);
  else if (event.key === "t") nextTheme();
  else if (event.key === "?") showKeys();
  else if (event.key === "/") main.querySelector("[data-filter], input")?.focus();
  else if (event.key === "Escape") { document.activeElement?.blur(); return; }
  else if (current.keys[event.key]) current.keys[event.key]();
  else if (event.key === "j" || event.key === "ArrowDown") { if (!focusRows()) return; }
  else return;
  event.preventDefault();
}

function focusRows() {
  const found = main.querySelector("tr.opens, .list");
  if (!found || main.contains(document.activeElement)) return false;
  found.focus();
  return true;
}

// --- the server ---

function showReached(is) {
  const state = document.getElementById("link");
  state.textContent = is ? "Connected" : "Server not reached, trying again";
  state.className = `link-state ${is ? "good" : "bad"}`;
}

async function begin() {
  showNav();
  applyTheme();
  showReached(true);
  document.getElementById("theme").addEventListener("click", nextTheme);
  document.getElementById("keys").addEventListener("click", showKeys);
  addEventListener("keydown", onKey);
  addEventListener("reached", (event) => showReached(event.detail));
  let refusal = "";
  addEventListener("unauthorized", () => { current.abort.abort(); signIn.show(main, open, refusal); refusal = ""; });
  const once = /^#once=([0-9a-f]+)$/.exec(location.hash);
  if (once) {
    history.replaceState(null, "", "#/");
    try {
      await post("/console/session", { once: once[1] });
    } catch (error) {
      if (!(error instanceof Problem)) return failed(error);
      refusal = error.message;
    }
  }
  addEventListener("hashchange", open);
  return open();
}

begin();
