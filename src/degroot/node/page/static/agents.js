// Agents of one answered row: a bar each, belief and weight, and what is to be said of them.

import { diverging, shared, swatch, colour } from "./bars.js";
import { cell, h } from "./elements.js";
import { number, percent, rough } from "./format.js";

const MANY = 12;

export function agents({ agents: all, value }, q, about) {
  const most = Math.max(0, ...all.map((each) => Math.abs(each.influence ?? 0)));
  const written = about.classes?.length ? percent : number;
  const lines = all
    .map((each, k) => ({ ...each, k }))
    .sort((a, b) => (b.weight ?? -1) - (a.weight ?? -1))
    .map((each) => line(each, most, value, written, about.classes?.length ? percent : rough));
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
        h("th", { scope: "col", class: "number" }, "Believes"),
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
  return h(
    "section",
    { class: "panel", "aria-labelledby": "bars-title" },
    h(
      "div",
      { class: "head" },
      h("h2", { id: "bars-title" }, "Agents"),
      h("p", { class: "muted" }, "influence: how far each moves the answer by being there"),
    ),
    table,
    more,
  );
}

function line(agent, most, value, written, share) {
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
            agent.flags.map((each) => h("span", { class: "tag", title: each.reason }, each.kind)),
          )
        : null,
    ),
    h(
      "td",
      { "data-label": "Believes", class: "number" },
      h("data", { value: agent.belief }, written(agent.belief)),
      offset(agent.belief, value, share),
    ),
    cell("Weight", agent.missing ? "–" : shared(agent.weight, colour(agent.k))),
    cell(
      "Influence",
      typeof agent.influence === "number"
        ? h(
            "span",
            { class: "barred" },
            diverging(agent.influence, most),
            h("data", { value: agent.influence }, signed(agent.influence, share)),
          )
        : "–",
    ),
  );
}

function offset(belief, value, share) {
  if (typeof belief !== "number" || typeof value !== "number") return null;
  return h("small", {}, belief === value ? "as all" : signed(belief - value, share));
}

const signed = (x, written) => (x < 0 ? `−${written(-x)}` : `+${written(x)}`);
