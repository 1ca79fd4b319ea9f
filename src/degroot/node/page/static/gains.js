// Gains: errors on this node's own rows, alone and with the collective; what was mixed, and whose models help.

import { colour, diverging, swatch } from "./bars.js";
import { byId, cell, fill, h } from "./elements.js";
import { count, listed, number, plural, rough } from "./format.js";
import "./frame.js";
import { onState } from "./live.js";
import { mixed } from "./mixed.js";
import { get } from "./service.js";

const LABELS = {
  own: "Own model",
  control: "Own model, corrected on our own rows, without peers",
  collective: "Collective, for us",
};
let known = null; // the models that were scored when it was fetched

async function look() {
  byId("refresh").hidden = true;
  try {
    draw(await get("/api/gains"));
    byId("complaint").textContent = "";
  } catch (error) {
    byId("basis").textContent = "";
    byId("complaint").textContent = error.message;
  }
}

function draw(told) {
  byId("none").hidden = !told.reason;
  byId("gains").hidden = Boolean(told.reason);
  if (told.reason) {
    byId("basis").textContent = "";
    fill(byId("none"), h("p", {}, h("strong", {}, "Nothing to measure. "), `This node: ${told.reason}.`));
    return;
  }
  const units = told.units ? ` of ${plural(told.units, "unit")}` : "";
  byId("basis").textContent =
    `on ${plural(told.rows, "own row")}${units}, left out in folds; with the models of ${listed(told.members)}`;
  byId("measure").textContent = `${told.measure}, ± one standard error; lower is better`;
  fill(byId("errors"), bars(told.errors));
  fill(
    byId("words"),
    told.words.map((line) => h("p", {}, line)),
  );
  fill(byId("mixed"), mixed(told.mixed));
  members(told);
}

function bars(errors) {
  const most = Math.max(...Object.values(errors).map((each) => each.value + (each.standard_error ?? 0)));
  return h(
    "ul",
    { class: "errors", "aria-labelledby": "errors-title" },
    Object.entries(errors).map(([kind, each]) => {
      const share = (x) => (most > 0 ? Math.max(0, Math.min(1, x / most)) : 0);
      const spread = each.standard_error ?? 0;
      return h(
        "li",
        { "data-kind": kind },
        h("span", { class: "what" }, LABELS[kind]),
        h(
          "span",
          { class: "bar tall", "aria-hidden": "true" },
          h("i", { vars: { share: share(each.value) } }),
          h("b", { vars: { from: share(each.value - spread), to: share(each.value + spread) } }),
        ),
        h("span", { class: "number" }, h("data", { value: each.value }, number(each.value)), ` ± ${rough(spread)}`),
      );
    }),
  );
}

function members({ contributions, members: names }) {
  const all = contributions ?? [];
  const most = Math.max(0, ...all.map((each) => Math.abs(each.gain)));
  byId("members").closest("table").hidden = !all.length;
  fill(
    byId("members"),
    all.map(({ name, own, gain, standard_error: error }) => {
      const k = names.indexOf(name);
      return h(
        "tr",
        { "data-agent": name },
        h(
          "th",
          { scope: "row" },
          h("span", { class: "name" }, swatch(k), name),
          own ? h("small", {}, "our own rows, without any peer") : null,
        ),
        cell(
          "Lowers our mean squared error by",
          h(
            "span",
            { class: "barred", vars: { colour: colour(k) } },
            diverging(gain, most),
            h("span", { class: "number" }, h("data", { value: gain }, rough(gain)), ` ± ${rough(error)}`),
          ),
        ),
      );
    }),
  );
  byId("members-hint").textContent = contributions
    ? "Measured on our own rows: nothing that a member says of itself enters. They sum to the gain."
    : `With ${count(names.length)} members this takes long; Collective.gains(shapley=True) measures it.`;
}

onState(({ node, peers }) => {
  const now = JSON.stringify([node.model_version, peers.map((peer) => [peer.name, peer.scored_version])]);
  if (known === null) look();
  else byId("refresh").hidden = now === known && byId("refresh").hidden;
  known = now;
});
byId("refresh").addEventListener("click", look);
