// What has left this organisation, in rows and words: to whom, how much, and what for.

import { byId, h, keyed } from "./elements.js";
import { plural } from "./format.js";

export function leak({ departures, leak: totals, node }) {
  byId("no-leak").hidden = departures.length > 0;
  byId("leak-scroll").hidden = departures.length === 0;
  keyed(byId("leak"), departures, (each) => `${each.peer} ${each.what.replace(/[\d,]+/, "")} ${each.why}`, item);
  const own = totals.filter((each) => each.peer === node.name).reduce((sum, each) => sum + each.rows, 0);
  byId("leak-note").textContent = [
    departures.length ? "A row that was sent twice counts twice." : "",
    own ? `Answers about ${plural(own, "row")} were given to our own people, and did not leave.` : "",
  ].join(" ");
}

const item = ({ peer, what, why }) => h("li", {}, `${what} `, h("b", {}, peer), why);
