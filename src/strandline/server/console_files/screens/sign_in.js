// Where a token is needed, and no session is open.

import { h, empty, field } from "../dom.js";
import { post } from "../api.js";

// `reason` is why a link was refused.
export function show(root, next, reason = "") {
  const token = h("input", { type: "password", autocomplete: "off", spellcheck: "false", placeholder: "slt_…" });
  const said = h("p", { class: "bad", role: "alert" }, reason);
  const form = h("form", {
    class: "sign-in",
    onsubmit: async (event) => {
      event.preventDefault();
      try {
        await post("/console/session", {}, { headers: { authorization: `Bearer ${token.value.trim()}` } });
        next();
      } catch (error) {
        said.textContent = error.message;
      }
    },
  }, field("Token", token, "It is exchanged for a cookie that scripts cannot read, and lasts 12 hours."),
  h("button", { class: "primary" }, "Sign in"), said);
  root.replaceChildren();
  root.append(empty("This server needs a token",
    "Make one with: strandline token create --scope read,consume,metrics",
    "Or, on the machine of the log, run: strandline console", form));
  token.focus();
}
