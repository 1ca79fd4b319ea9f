// The last questions: how long each took, and who was missing.

import { byId, h, keyed } from "./elements.js";
import { count, listed, milliseconds, moment } from "./format.js";

export function questions({ answered, failed, recent }) {
  const none = recent.length === 0;
  byId("questions-scroll").hidden = none;
  byId("no-questions").hidden = !none;
  byId("questions-count").textContent = answered + failed > recent.length ? `the last ${count(recent.length)}` : "";
  const most = Math.max(1e-9, ...recent.map((each) => each.ms ?? 0));
  const inOrder = [...recent].sort((a, b) => (a.at < b.at ? -1 : 1));
  keyed(
    byId("questions-strip"),
    inOrder.map((each) => ({ ...each, most })),
    (each, i) => `${each.at} ${i}`,
    mark,
  );
  keyed(byId("questions"), inOrder.reverse(), (each, i) => `${each.at} ${i}`, row);
}

function mark({ ms, most, error, missing, at }) {
  const kind = error ? "failed" : missing.length ? "partial" : null;
  return h("i", {
    class: kind,
    title: `${moment(at)}: ${error ?? milliseconds(ms)}`,
    vars: { share: (ms ?? 0) / most },
  });
}

function row({ at, who, rows, way, ms, missing, error }) {
  return h(
    "tr",
    {},
    h("td", { title: at }, moment(at)),
    h("td", {}, who),
    h("td", { class: "number" }, count(rows)),
    h("td", {}, way),
    h("td", { class: "number" }, milliseconds(ms)),
    error
      ? h("td", { class: "failed" }, error)
      : h("td", { class: missing.length ? null : "muted nobody" }, missing.length ? listed(missing) : "nobody"),
  );
}
