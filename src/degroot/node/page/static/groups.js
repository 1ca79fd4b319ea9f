// Groups of exchanges: a line for a question, or for a kind and a day, that opens to its records.

import { figure, fill, h } from "./elements.js";
import { bytes, count, moment, plural } from "./format.js";
import { get } from "./service.js";

const SHOWN = 100; // records of a group at a time
const SELF = document.querySelector(".brand .node").textContent;

export const COLUMNS = {
  question: ["When", "Asked by", "With", "Exchanges", "Rows", "Sent", "Received", "Confirmed"],
  day: ["Day", "Kind", "With", "Exchanges", "Rows", "Sent", "Received", "Records"],
};
const NUMBERS = new Set(["Exchanges", "Rows", "Sent", "Received", "Records"]);

export const heading = (name) => h("th", { scope: "col", class: NUMBERS.has(name) ? "number" : null }, name);

/** The rows of a group: its line, and below it its records, once they are wanted. */
export function group(told, by, filters) {
  const columns = COLUMNS[by].length;
  const place = h("td", { colspan: columns, class: "whole" });
  const below = h("tr", { class: "records", hidden: true }, place);
  const toggle = h(
    "button",
    { type: "button", class: "link open", "aria-expanded": "false" },
    by === "question" ? span(told) : told.date,
  );
  toggle.addEventListener("click", () => {
    below.hidden = !below.hidden;
    toggle.setAttribute("aria-expanded", String(!below.hidden));
    if (!place.hasChildNodes()) records(place, told, filters, 0);
  });
  const cells = by === "question" ? question(told, toggle) : day(told, toggle);
  const last = by === "question" ? confirmed(told) : recordCount(told);
  return [h("tr", { class: "group" }, cells, sums(told), last), below];
}

function question(told, toggle) {
  const { question: id, first, asker, person, purpose, kinds } = told;
  return [
    h("td", { "data-label": "When", class: "at plain", title: first }, toggle, h("small", { class: "id" }, id)),
    h("td", { "data-label": "Asked by", class: "asker" }, who(asker, person), purpose ? h("small", {}, purpose) : null),
    h("td", { "data-label": "With", class: "peer" }, others(told), h("small", { class: "kind" }, kinds.join(", "))),
  ];
}

function day(told, toggle) {
  return [
    h("td", { "data-label": "Day", class: "at plain" }, toggle, told.expired ? h("small", {}, "only totals") : null),
    h("td", { "data-label": "Kind", class: "kind" }, told.kinds.join(", ")),
    h("td", { "data-label": "With", class: "peer" }, told.peers.join(", ") || "–"),
  ];
}

function sums({ exchanges, rows, sent, received }) {
  return [
    figure("Exchanges", count(exchanges)),
    figure("Rows", count(rows)),
    figure("Sent", bytes(sent)),
    figure("Received", bytes(received)),
  ];
}

function confirmed({ replies, confirmed: sure }) {
  const told = replies ? `${count(sure)} of ${count(replies)}` : "–";
  const title = replies ? "replies of peers that they have confirmed by receipts" : "no reply of a peer is part of it";
  return h("td", { "data-label": "Confirmed", class: replies && sure === replies ? "sure" : null, title }, told);
}

const recordCount = (told) => figure("Records", told.expired ? "–" : count(told.records));

/** The time, and how long it took, if that can be told. */
function span({ first, last }) {
  const seconds = (new Date(last) - new Date(first)) / 1000;
  return seconds < 1 ? moment(first) : `${moment(first)} – ${moment(last)}`;
}

/** The organisation and, of what was asked at this node's page, the person. */
const who = (asker, person) =>
  person ? `${person}, at this page` : asker === "" ? "–" : asker === SELF ? `${asker} (this node)` : asker;

/** With whom, but for the one who asked. */
function others({ peers, asker }) {
  const rest = peers.filter((each) => each !== asker);
  return (rest.length ? rest : peers).join(", ") || "–";
}

async function records(place, told, filters, offset) {
  if (offset === 0) fill(place, h("p", { class: "muted loading" }, "Fetching the records …"));
  const keys = told.question
    ? { question: told.question }
    : { day: told.day, of_kind: told.kinds[0], expired: told.expired };
  try {
    const query = new URLSearchParams({ ...filters, ...keys, offset, limit: SHOWN });
    const { total, rows } = await get(`/api/audit/records?${query}`);
    if (offset === 0) fill(place, table(told));
    place.querySelector("tbody").append(...rows.map(record));
    place.querySelector(".more")?.remove();
    const left = total - offset - rows.length;
    if (left > 0 && rows.length)
      place.append(
        h(
          "button",
          { type: "button", class: "quiet more", onclick: () => records(place, told, filters, offset + rows.length) },
          `${plural(left, "more record")}: show`,
        ),
      );
  } catch (error) {
    fill(place, h("p", { class: "complaint" }, error.message));
  }
}

function table(told) {
  const names = ["Record", "At", "Peer", "Kind", "Called by", "Exchanges", "Rows", "Sent", "Received", "Confirmed"];
  const title = told.question ? `Records of question ${told.question}` : `Records of ${told.kinds[0]}, ${told.date}`;
  const head = h(
    "tr",
    {},
    names.map((name) => h("th", { scope: "col" }, name)),
  );
  const body = h("table", {}, h("thead", {}, head), h("tbody", {}));
  return h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": title }, body);
}

function record(each) {
  const { number, at, peer, kind, asked_by: by, exchanges, rows, sent, received, told, question, digest } = each;
  const sure = each.confirmed;
  return h(
    "tr",
    {},
    h("td", {}, number === null ? "–" : count(number)),
    h("td", { title: at }, moment(at)),
    h("td", {}, peer || "this ledger"),
    h("td", {}, kind, told && (!question || !peer) ? h("small", {}, told) : null),
    h("td", {}, caller(peer, by)),
    h("td", {}, exchanges === 0 && digest && peer && kind !== "receipt" ? "reply" : count(exchanges)),
    h("td", {}, count(rows)),
    h("td", {}, bytes(sent)),
    h("td", {}, bytes(received)),
    h("td", { title: digest || null }, sure === null ? "–" : sure ? "yes" : "not yet"),
  );
}

/** A node's own questions through its page come to it as from a peer. */
function caller(peer, by) {
  if (by === null) return "–";
  if (peer === SELF) return "ourselves";
  return by === "we" ? "us" : "them";
}
