// What was mixed for this node: every candidate with its share, and its error on the node's own rows.

import { shared } from "./bars.js";
import { cell, figure, h } from "./elements.js";
import { plural, precision } from "./format.js";
import { panel } from "./panel.js";

/** A panel with the candidates, those with the largest share first; nothing where none were mixed. */
export function mixed(told) {
  if (!told) return null;
  const write = precision(told.candidates.map(({ error }) => error));
  const basis = told.rows
    ? `by mean squared error on ${plural(told.rows, "own row")}, left out in ${plural(told.folds, "fold")}`
    : "there is nothing else to choose from";
  return panel(
    "mixed-title",
    "What was mixed",
    basis,
    h(
      "table",
      { class: "stack mixed", "aria-labelledby": "mixed-title" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, "Candidate"),
          h("th", { scope: "col" }, "Share"),
          h("th", { scope: "col", class: "number" }, "Error"),
        ),
      ),
      h(
        "tbody",
        {},
        told.candidates.map(({ name, share, error }) =>
          h("tr", {}, h("th", { scope: "row" }, name), cell("Share", shared(share)), figure("Error", write(error))),
        ),
      ),
    ),
  );
}
