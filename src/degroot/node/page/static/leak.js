// The leak meter: bytes that have left, by peer and kind.

import { colour, swatch } from "./bars.js";
import { byId, fill, h, keyed } from "./elements.js";
import { bytes, count, plural } from "./format.js";

const MEANING = {
  "model query": "features put to a model and its predictions: ours to score theirs, theirs to score ours",
  opinion: "points asked about, predictions at them and average errors near them",
  prediction: "points asked about, and predictions at them, nothing else: for answers from one's own view",
  rehearsal: "own rows put as questions, so that intervals can be given",
  pool: "beliefs, round by round",
  consult: "questions of others, and the answers",
  describe: "names, versions and settings, every second or so; not in the bars",
};
const DESCRIBE = "describe";

const byUs = (each) => each.asked_by === "we";
const inBar = ({ kind }) => kind !== DESCRIBE;
const total = (rows, name) => rows.reduce((sum, each) => sum + (each[name] ?? 0), 0);

export function leak(all, self) {
  const entries = all.filter((each) => each.peer !== self);
  const own = all.filter((each) => each.peer === self);
  const [list, nothing] = [byId("leak"), byId("no-leak")];
  nothing.hidden = entries.length > 0;
  list.hidden = entries.length === 0;
  byId("leak-total").textContent = entries.length ? `${bytes(total(entries, "sent"))} in all` : "";
  const kinds = [...new Set([...Object.keys(MEANING), ...entries.map((each) => each.kind)])];
  const peers = [...new Set(entries.map((each) => each.peer))].map((peer) =>
    group(
      peer,
      entries.filter((each) => each.peer === peer),
      kinds,
    ),
  );
  const most = Math.max(1, ...peers.map((each) => total(each.parts.filter(inBar), "sent")));
  if (!list.firstChild)
    fill(
      list,
      h("ul", { class: "leaks", "aria-labelledby": "leak-title" }),
      h("p", { class: "hint own" }),
      h("details", { class: "more" }, h("summary", {}, "What these are"), h("dl", { class: "meanings" })),
    );
  keyed(
    list.querySelector(".leaks"),
    peers.sort((a, b) => b.sent - a.sent).map((each) => ({ ...each, most })),
    (each) => each.peer,
    item,
  );
  list.querySelector(".own").textContent = own.length
    ? `Answered to ourselves, and so not counted: ${plural(total(own, "rows"), "row")}, ${bytes(total(own, "sent"))}.`
    : "";
  keyed(
    list.querySelector(".meanings"),
    kinds.filter((kind) => MEANING[kind] && entries.some((each) => each.kind === kind)),
    (kind) => kind,
    (kind) => h("div", {}, h("dt", {}, kind), h("dd", {}, MEANING[kind])),
  );
}

function group(peer, entries, kinds) {
  const parts = kinds
    .map((kind, k) => ({ kind, k, of: entries.filter((each) => each.kind === kind) }))
    .filter((each) => each.of.length);
  return {
    peer,
    sent: total(entries, "sent"),
    parts: parts.map(({ kind, k, of }) => ({
      kind,
      k,
      sent: total(of, "sent"),
      ours: total(of.filter(byUs), "rows"),
      theirs: total(of, "rows") - total(of.filter(byUs), "rows"),
      exchanges: total(of, "exchanges"),
    })),
  };
}

function item({ peer, sent, parts, most }) {
  return h(
    "li",
    {},
    h("div", { class: "line" }, h("h3", {}, peer), h("span", {}, bytes(sent))),
    h(
      "div",
      { class: "stackbar", "aria-hidden": "true" },
      parts.filter(inBar).map(({ k, sent: part }) => h("i", { vars: { share: part / most, colour: colour(k) } })),
    ),
    h(
      "ul",
      { class: "kinds" },
      parts.map((part) =>
        h(
          "li",
          {},
          swatch(part.k),
          h("b", {}, part.kind),
          h("span", {}, told(part)),
        ),
      ),
    ),
  );
}

/** Rows that we put to the peer, and rows of the peer's that were answered here. */
function told({ sent, ours, theirs, exchanges }) {
  const rows = [ours ? `${plural(ours, "row")} sent` : null, theirs ? `${plural(theirs, "row")} answered` : null];
  return [bytes(sent), ...rows.filter(Boolean), `${count(exchanges)} ×`].join(", ");
}
