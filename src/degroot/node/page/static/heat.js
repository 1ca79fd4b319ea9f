// A trust matrix as a table: each row trusts the columns; the darker, the more.

import { h } from "./elements.js";
import { percent } from "./format.js";
import { panel, scroll } from "./panel.js";

const MANY = 9;

/** A panel with the matrix of one row. */
export function heat({ names, trust, way }) {
  const why =
    way === "rounds"
      ? "By rounds nobody sends trust: the nodes pool their beliefs."
      : "This rule, or who took part, gives no trust to show.";
  return panel(
    "heat-title",
    "Trust here",
    trust ? "of the consensus, in %; each row trusts the columns" : null,
    trust ? matrix(names, trust, "heat-title") : h("p", { class: "muted" }, why),
  );
}

export function matrix(names, trust, label) {
  const many = names.length > MANY;
  const most = Math.max(...trust.flat().filter((each) => typeof each === "number"), 1e-9);
  return scroll(
    label,
    h(
      "table",
      { class: many ? "heat many" : "heat", "aria-labelledby": label },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("td", {}),
          names.map((name) => h("th", { scope: "col", title: name }, name)),
        ),
      ),
      h(
        "tbody",
        {},
        trust.map((line, i) =>
          h(
            "tr",
            {},
            h("th", { scope: "row", title: names[i] }, names[i]),
            line.map((share, j) => entry(names, share, i, j, most)),
          ),
        ),
      ),
    ),
  );
}

function entry(names, share, i, j, most) {
  const known = typeof share === "number";
  return h(
    "td",
    {
      class: i === j ? "own" : null,
      title: known ? `${names[i]} trusts ${names[j]}: ${percent(share)}` : null,
      vars: { share: known ? share / most : 0 },
    },
    known ? percent(share).replace(" %", "") : "–",
  );
}
