// Bars, with their numbers beside them.

import { h } from "./elements.js";
import { percent } from "./format.js";

const COLOURS = 8;

/** An agent's colour; the same everywhere. */
export const colour = (k) => `var(--agent-${k % COLOURS})`;

export const swatch = (k) => h("span", { class: "swatch", "aria-hidden": "true", vars: { colour: colour(k) } });

export function bar(share, tint = null) {
  const vars = { share: Math.max(0, Math.min(1, share || 0)), ...(tint ? { colour: tint } : {}) };
  return h("span", { class: "bar", "aria-hidden": "true" }, h("i", { vars }));
}

/** A share as bar and number. */
export function shared(share, tint = null) {
  return h("span", { class: "barred" }, bar(share, tint), h("data", { value: share }, percent(share)));
}

/** A bar to either side of nought; `most` is as far as any goes. */
export function diverging(value, most) {
  const share = most > 0 && typeof value === "number" ? Math.min(1, Math.abs(value) / most) : 0;
  return h(
    "span",
    { class: "diverging", "aria-hidden": "true" },
    h("i", { class: value < 0 ? "minus" : "plus", vars: { share } }),
  );
}
