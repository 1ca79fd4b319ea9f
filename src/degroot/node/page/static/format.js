// How numbers, bytes and times are written.

const significant = new Intl.NumberFormat("en", { maximumSignificantDigits: 5 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const NOTHING = "–";

/** Five digits that matter. */
export function number(x) {
  if (typeof x !== "number" || !Number.isFinite(x)) return x === null || x === undefined ? NOTHING : String(x);
  const size = Math.abs(x);
  return size !== 0 && (size < 1e-4 || size >= 1e7) ? x.toExponential(3) : significant.format(x);
}

const DIGITS = 3; // of the differences that matter
const MOST_DIGITS = 9;

/** How the numbers of one answer are written: all with as many decimals as tell the differences that matter. */
export function precision(values, differences = []) {
  const size = largest(values);
  const step = largest(differences) || size;
  if (size === 0 || size < 1e-4 || size >= 1e7) return number;
  const power = (x) => Math.floor(Math.log10(x));
  const digits = Math.max(0, Math.min(DIGITS - 1 - power(step), MOST_DIGITS - 1 - power(size)));
  const format = new Intl.NumberFormat("en", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
    signDisplay: "negative",
  });
  return (x) => (typeof x === "number" && Number.isFinite(x) ? format.format(x) : number(x));
}

const largest = (all) =>
  all.flat().reduce((most, each) => (Number.isFinite(each) ? Math.max(most, Math.abs(each)) : most), 0);

/** Four digits, where there is little room. */
export const brief = (x) => number(typeof x === "number" && Number.isFinite(x) ? Number(x.toPrecision(4)) : x);

/** Three digits, for differences. */
export const rough = (x) => number(typeof x === "number" && Number.isFinite(x) ? Number(x.toPrecision(3)) : x);

/** The entry of an object under a name that came from outside, such as __proto__. */
export const entry = (object, name) => (object && Object.hasOwn(object, name) ? object[name] : null);

/** A number with its unit, if it has one. */
export const measured = (text, unit) => (unit && text !== NOTHING ? `${text} ${unit}` : text);

/** A name with the unit of what it names, if it has one. */
export const united = (name, unit) => (unit ? `${name} (${unit})` : name);

/** A value of a point as it was asked about: a text by the schema, or a number. */
export const given = (value) => (typeof value === "string" ? value || NOTHING : number(value));

export const count = (n) => (typeof n === "number" ? whole.format(n) : NOTHING);

export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

export function percent(share) {
  if (typeof share !== "number") return NOTHING;
  const all = 100 * share;
  if (all === 0 || all === 100) return `${all} %`;
  if (all > 99.9) return "> 99.9 %";
  return all < 0.1 ? "< 0.1 %" : `${all.toFixed(all < 10 ? 1 : 0)} %`;
}

export function bytes(n) {
  if (typeof n !== "number") return NOTHING;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let k = 0;
  while (n >= 1000 && k < units.length - 1) {
    n /= 1000;
    k += 1;
  }
  return `${k === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[k]}`;
}

export function milliseconds(ms) {
  if (typeof ms !== "number") return NOTHING;
  if (ms >= 10000) return `${whole.format(ms / 1000)} s`;
  if (ms >= 1000) return `${(ms / 1000).toFixed(1)} s`;
  return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
}

export function seconds(s) {
  return milliseconds(typeof s === "number" ? 1000 * s : s);
}

/** "12 s", "3 min", "5 h", "2 days". */
export function span(s) {
  if (s < 90) return `${Math.max(0, Math.round(s))} s`;
  if (s < 90 * 60) return `${Math.round(s / 60)} min`;
  return s < 48 * 3600 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} days`;
}

/** How long ago; of the last seconds only that it was now. */
export function ago(when) {
  const s = (Date.now() - new Date(when).getTime()) / 1000;
  return s < 5 ? "now" : `${span(s)} ago`;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** The time today, or the day and the time. */
export function moment(iso) {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return NOTHING;
  return at.toDateString() === new Date().toDateString() ? clock.format(at) : `${day.format(at)} ${clock.format(at)}`;
}

/** A flag's kind as people read it: that nobody else has rows nearby is no fault of a model. */
export const flagged = (kind) => (kind === "unverified" ? "not cross-checked" : kind);

export const short = (version) => (version && version.length > 12 ? version.slice(0, 10) : version || NOTHING);

/** "a, b and c". */
export function listed(words) {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

/** The entry of an output or class, where there are several. */
export const pick = (value, output) => (Array.isArray(value) ? value[output] : value);
