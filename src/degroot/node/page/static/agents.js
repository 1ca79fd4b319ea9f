// Agents of one answered row: a bar each, belief and weight, and what is to be said of them.

import { diverging, shared, swatch, colour } from "./bars.js";
import { cell, figure, h } from "./elements.js";
import { flagged, percent } from "./format.js";
import { panel } from "./panel.js";

const MANY = 12;

export function agents({ agents: all, value, write }, about) {
  const most = Math.max(0, ...all.map((each) => Math.abs(each.influence ?? 0)));
  const [written, change] = about.classes.length ? [percent, percent] : [write, write];
  const lines = all
    .map((each, k) => ({ ...each, k }))
    .sort((a, b) => (b.weight ?? -1) - (a.weight ?? -1))
    .map((each) => line(each, most, value, written, change));
  const body = h("tbody", {}, lines.slice(0, MANY + 1));
  const table = h(
    "table",
    { class: "stack agents", "aria-labelledby": "bars-title" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("th", { scope: "col" }, "Agent"),
        h("th", { scope: "col", class: "number" }, believes(about)),
        h("th", { scope: "col" }, "Weight"),
        h("th", { scope: "col" }, "Influence"),
      ),
    ),
    body,
  );
  const more =
    lines.length > MANY + 1
      ? h(
          "button",
          {
            type: "button",
            class: "link",
            onclick: (event) => {
              body.replaceChildren(...lines);
              event.currentTarget.remove();
            },
          },
          `Show all ${lines.length} agents`,
        )
      : null;
  const whose = about.asker ? `weights for ${about.asker}; ` : "";
  return panel("bars-title", "Agents", `${whose}influence: how far each moves the answer by being there`, table, more);
}

const believes = ({ classes, target }) =>
  target?.unit && !classes.length ? `Believes (${target.unit})` : "Believes";

function line(agent, most, value, written, change) {
  return h(
    "tr",
    { class: agent.missing ? "absent" : null, "data-agent": agent.name },
    h(
      "th",
      { scope: "row" },
      h("span", { class: "name" }, swatch(agent.k), agent.name),
      agent.missing ? h("small", {}, `missing: ${agent.missing}`) : null,
      agent.flags?.length
        ? h(
            "div",
            {},
            agent.flags.map((each) => h("span", { class: "tag", title: each.reason }, flagged(each.kind))),
          )
        : null,
    ),
    figure(
      "Believes",
      h("data", { value: agent.belief }, written(agent.belief)),
      offset(agent.belief, value, change),
    ),
    cell("Weight", agent.missing ? "–" : shared(agent.weight, colour(agent.k))),
    cell(
      "Influence",
      typeof agent.influence === "number"
        ? h(
            "span",
            { class: "barred" },
            diverging(agent.influence, most),
            h("data", { value: agent.influence }, signed(agent.influence, change)),
          )
        : "–",
    ),
  );
}

function offset(belief, value, change) {
  if (typeof belief !== "number" || typeof value !== "number") return null;
  return h("small", {}, belief === value ? "as all" : signed(belief - value, change));
}

function signed(x, written) {
  const size = written(Math.abs(x));
  return /[1-9]/.test(size) ? `${x < 0 ? "−" : "+"}${size}` : size; // what rounds to nothing has no sign
}
