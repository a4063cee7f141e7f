() => {
  const problems = [];
  const isSeen = (e) => e.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })
    && e.getClientRects().length > 0;
  const shown = (e) => `${e.tagName.toLowerCase()} ${(e.textContent || "").trim().slice(0, 40)}`;
  const every = (selector) => [...document.querySelectorAll(selector)].filter(isSeen);

  // Names.
  const named = (e) => (e.getAttribute("aria-label") || e.getAttribute("title")
    || (e.labels && [...e.labels].map((l) => l.textContent.trim()).join("")) || e.textContent || "").trim()
    || [...e.querySelectorAll("img")].map((i) => i.alt).join("");
  for (const e of every("a[href], button, input, select, textarea, summary, dialog, [role=grid], [role=region], [role=img]")) {
    if (!named(e)) problems.push(`no name: ${shown(e)}`);
  }
  for (const e of every("img")) if (!e.hasAttribute("alt")) problems.push("no alt: img");

  // Ids, headings, landmarks.
  const ids = new Map();
  for (const e of document.querySelectorAll("[id]")) ids.set(e.id, (ids.get(e.id) || 0) + 1);
  for (const [id, count] of ids) if (count > 1) problems.push(`id twice: ${id}`);
  let level = 0;
  for (const e of every("h1, h2, h3, h4, h5, h6")) {
    const now = Number(e.tagName[1]);
    if (now > level + 1) problems.push(`heading jumps: ${shown(e)}`);
    level = now;
  }
  if (!document.documentElement.lang) problems.push("no language");
  if (document.querySelectorAll("main").length !== 1) problems.push("not one main");
  for (const e of document.querySelectorAll("[aria-activedescendant]")) {
    if (!document.getElementById(e.getAttribute("aria-activedescendant"))) problems.push("no active descendant");
  }

  // Roles that need another around them.
  const around = { row: "[role=grid], [role=rowgroup], [role=table]", gridcell: "[role=row]", columnheader: "[role=row]", rowgroup: "[role=grid], [role=table]" };
  for (const [role, wanted] of Object.entries(around)) {
    for (const e of document.querySelectorAll(`[role=${role}]`)) {
      if (!e.parentElement.closest(wanted)) problems.push(`not within its role: ${role}`);
    }
  }

  // Contrast of every text.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const ground = (e) => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  for (const e of every("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.closest("[disabled], [aria-disabled], svg, .unseen, .skip")) continue;
    const style = getComputedStyle(e);
    const back = ground(e);
    const front = over(rgba(style.color), back);
    const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize);
    if (size === 0) continue;
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < (isLarge ? 3 : 4.5)) problems.push(`contrast ${ratio.toFixed(2)}: ${shown(e)}`);
  }
  return problems;
}
