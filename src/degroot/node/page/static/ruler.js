// The ruler: every agent's belief on one line, the interval as a band, the collective's value as a mark.

import { colour } from "./bars.js";
import { h } from "./elements.js";

export function ruler({ value, lower, upper, agents, write }) {
  const beliefs = agents.map((each) => each.belief).filter((each) => typeof each === "number");
  const ends = [value, lower, upper, ...beliefs].filter((each) => typeof each === "number");
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const at = (x) => (high > low ? (x - low) / (high - low) : 0.5);
  const place = at(value);
  const side = place < 0.12 ? "name first" : place > 0.88 ? "name last" : "name";
  const said = beliefs.length
    ? `Agents believe from ${write(Math.min(...beliefs))} to ${write(Math.max(...beliefs))}. Larger dots weigh more.`
    : "";
  return h(
    "figure",
    {},
    h(
      "div",
      { class: "ruler", "aria-hidden": "true" },
      typeof lower === "number" ? h("span", { class: "band", vars: { from: at(lower), to: at(upper) } }) : null,
      h("span", { class: "axis" }),
      agents.map(
        (each, k) =>
          typeof each.belief === "number" &&
          h("span", {
            class: "dot",
            title: `${each.name}: ${write(each.belief)}`,
            vars: { at: at(each.belief), colour: colour(k), size: `${9 + 15 * Math.sqrt(each.weight || 0)}px` },
          }),
      ),
      h("span", { class: "mark", vars: { at: place } }),
      h("span", { class: side, vars: { at: place } }, write(value)),
      h("small", { class: "tick", vars: { at: 0 } }, write(low)),
      high > low ? h("small", { class: "tick", vars: { at: 1 } }, write(high)) : null,
    ),
    h("figcaption", { class: "hint" }, said),
  );
}
