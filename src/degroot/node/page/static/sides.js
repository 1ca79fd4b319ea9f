// Side by side: what the own model, the collective for this node, and the consensus of all say of one row.

import { h } from "./elements.js";
import { listed, measured, percent, pick } from "./format.js";
import { best } from "./rows.js";

/** Cards for one output `q`; the one in front is marked. Why one is missing is said in its place. */
export function sides(about, row, q, node, write) {
  const { own, consensus } = row.views;
  if (!own && !about.lacking) return null; // an answer of an earlier version
  const alone = row.agents.find((each) => each.name === node);
  const front = about.asker ? "own" : "consensus";
  const cards = [
    ["model", `Own model of ${node}`, alone ? { value: alone.belief } : null],
    ["own", `Collective, for ${node}`, own],
    ["consensus", about.way === "rounds" ? "Consensus of all, by rounds" : "Consensus of all", consensus],
  ];
  return h(
    "ul",
    { class: "sides", "aria-label": "Side by side" },
    cards.map(([kind, label, told]) => card(about, kind, label, told, q, kind === front, write)),
  );
}

function card(about, kind, label, told, q, front, write) {
  return h(
    "li",
    { "data-side": kind, class: front ? "front" : null },
    h("p", { class: "muted" }, label, front ? h("span", { class: "unseen" }, ", explained below") : null),
    told ? said(about, told, q, write) : h("p", { class: "gap" }, kind === "consensus" ? "none" : "not known"),
    told ? within(about, told, q, write) : null,
    kind !== "model" && !front && about.lacking ? h("p", { class: "hint" }, about.lacking) : null,
  );
}

function said(about, told, q, write) {
  if (!about.classes.length) {
    const value = pick(told.value, q);
    return h("p", { class: "says" }, h("data", { value }, measured(write(value), about.target?.unit)));
  }
  const top = best(told.value);
  return h(
    "p",
    { class: "says" },
    `${about.classes[top]} `,
    h("data", { value: told.value[top], class: "muted" }, percent(told.value[top])),
  );
}

function within(about, told, q, write) {
  if (told.set?.length) return h("p", { class: "hint" }, `${percent(about.coverage)} set: ${listed(told.set)}`);
  const [lower, upper] = [pick(told.lower, q), pick(told.upper, q)];
  if (typeof lower !== "number") return null;
  const span = measured(`${write(lower)} to ${write(upper)}`, about.target?.unit);
  return h("p", { class: "hint" }, `${percent(about.coverage)}: ${span}`);
}
