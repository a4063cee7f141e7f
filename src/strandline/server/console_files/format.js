// Numbers with units, and times in the reader's zone.

const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hour12: false });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

export const count = (number) => (number === null || number === undefined ? "–" : whole.format(number));

export const counted = (number, noun, many = `${noun}s`) => `${count(number)} ${number === 1 ? noun : many}`;

function scaled(number, step, units) {
  let unit = 0;
  let left = Math.abs(number);
  while (left >= step && unit < units.length - 1) { left /= step; unit += 1; }
  const text = left < 100 && unit > 0 ? one.format(left) : whole.format(left);
  return `${number < 0 ? "−" : ""}${text}${units[unit]}`;
}

export const short = (number) => scaled(number, 1000, ["", "k", "M", "G", "T"]);

export const bytes = (number) => (number === null || number === undefined ? "–" : scaled(number, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]));

export const rate = (number) => (number === null ? "–" : `${number > 0 && number < 10 ? one.format(number) : short(number)}/s`);

export function seconds(number) {
  if (number === null || number === undefined) return "–";
  if (number === 0) return "0 s";
  if (number < 1) return `${Math.max(1, Math.round(number * 1000))} ms`;
  if (number < 60) return `${one.format(number)} s`;
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([size]) => number >= size);
  const left = Math.floor(number / parts[first][0]);
  const rest = first < 3 ? Math.floor((number % parts[first][0]) / parts[first + 1][0]) : 0;
  return `${left} ${parts[first][1]}${rest ? ` ${rest} ${parts[first + 1][1]}` : ""}`;
}

export function timeOf(iso) {
  if (!iso) return "–";
  const moment = new Date(iso);
  const isToday = moment.toDateString() === new Date().toDateString();
  return isToday ? clock.format(moment) : `${day.format(moment)}, ${clock.format(moment)}`;
}

export const fullTime = (iso) => (iso ? full.format(new Date(iso)) : "–");

export function ago(iso) {
  if (!iso) return "never";
  const passed = (Date.now() - Date.parse(iso)) / 1000;
  return passed < 1 ? "just now" : `${seconds(Math.floor(passed))} ago`;
}

// By how much a lag grows: an arrow and a number, for people who cannot see colours, too.
export function trend(perSecond) {
  if (perSecond === null || perSecond === undefined) return { text: "–", kind: "", title: "Not known yet: it takes half a minute of acknowledgements" };
  if (Math.abs(perSecond) < 0.05) return { text: "→ steady", kind: "", title: "The lag stays as it is" };
  return perSecond > 0
    ? { text: `↑ ${rate(perSecond)}`, kind: "bad", title: "The lag grows" }
    : { text: `↓ ${rate(-perSecond)}`, kind: "good", title: "It catches up" };
}
