// JSON as text: exact, where parsing would round large numbers and drop repeated keys.

// Returns the end of the value that begins at `at`.
function valueEnd(text, at) {
  const first = text[at];
  if (first === '"') {
    for (let i = at + 1; i < text.length; i += 1) {
      if (text[i] === "\\") i += 1;
      else if (text[i] === '"') return i + 1;
    }
    return text.length;
  }
  if (first === "{" || first === "[") {
    let depth = 0;
    for (let i = at; i < text.length; i += 1) {
      const c = text[i];
      if (c === '"') i = valueEnd(text, i) - 1;
      else if (c === "{" || c === "[") depth += 1;
      else if (c === "}" || c === "]") { depth -= 1; if (depth === 0) return i + 1; }
    }
    return text.length;
  }
  let end = at;
  while (end < text.length && !",]} \n\r\t".includes(text[end])) end += 1;
  return end;
}

const isSpace = (c) => c === " " || c === "\n" || c === "\r" || c === "\t";

// Returns the members of an object, each as the text that it is.
export function members(text) {
  const found = {};
  let at = text.indexOf("{") + 1;
  while (at > 0 && at < text.length) {
    while (isSpace(text[at]) || text[at] === ",") at += 1;
    if (text[at] !== '"') break;
    const nameEnd = valueEnd(text, at);
    const name = JSON.parse(text.slice(at, nameEnd));
    at = nameEnd;
    while (isSpace(text[at]) || text[at] === ":") at += 1;
    const end = valueEnd(text, at);
    found[name] = text.slice(at, end);
    at = end;
  }
  return found;
}

// Returns the elements of an array, each as the text that it is.
export function elements(text) {
  const found = [];
  let at = text.indexOf("[") + 1;
  while (at > 0 && at < text.length) {
    while (isSpace(text[at]) || text[at] === ",") at += 1;
    if (at >= text.length || text[at] === "]") break;
    const end = valueEnd(text, at);
    found.push(text.slice(at, end));
    at = end;
  }
  return found;
}

// Returns the same JSON on several lines.
export function indented(text) {
  let out = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (let i = 0; i < text.length; i += 1) {
    const c = text[i];
    if (c === '"') {
      const end = valueEnd(text, i);
      out += text.slice(i, end);
      i = end - 1;
    } else if (c === "{" || c === "[") {
      let next = i + 1;
      while (isSpace(text[next])) next += 1;
      if (text[next] === "}" || text[next] === "]") { out += c + text[next]; i = next; continue; }
      depth += 1;
      out += c + line();
    } else if (c === "}" || c === "]") {
      depth -= 1;
      out += line() + c;
    } else if (c === ",") out += c + line();
    else if (c === ":") out += ": ";
    else if (!isSpace(c)) out += c;
  }
  return out;
}

// Returns a record of the log with its payload, value or rows as text.
export function recordOf(text) {
  const raw = members(text);
  const plain = (name) => (raw[name] === undefined ? null : JSON.parse(raw[name]));
  return {
    topic: plain("topic"),
    partition: plain("partition"),
    offset: plain("offset"),
    timestamp: plain("timestamp"),
    key: plain("key"),
    tenant: plain("tenant"),
    kind: plain("kind"),
    headers: plain("headers") ?? {},
    occurred_at: plain("occurred_at"),
    body: raw.payload ?? raw.rows ?? raw.value ?? "null",
    form: raw.payload !== undefined ? "payload" : raw.rows !== undefined ? "rows" : "value",
  };
}
