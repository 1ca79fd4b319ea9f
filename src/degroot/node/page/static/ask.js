// Ask: the question, the answer, and the link that opens it again.

import { show } from "./answer.js";
import { byId, fill, h } from "./elements.js";
import { begin, blame, busy, complain, foresee, lock } from "./form.js";
import { moment, plural } from "./format.js";
import "./frame.js";
import { onState } from "./live.js";
import { get } from "./service.js";
import { isAllowed } from "./session.js";

const narrow = matchMedia("(max-width: 1080px)");

const opened = () => /^\/answers\/([\w-]+)$/.exec(location.pathname)?.[1] ?? null;

async function arrive() {
  const id = opened();
  byId("blank").hidden = id !== null;
  byId("answer").hidden = id === null;
  if (id === null) return earlier();
  if (narrow.matches) byId("question").open = false;
  const row = Number.parseInt(new URLSearchParams(location.search).get("row") ?? "", 10);
  await show(id, Number.isNaN(row) ? null : row);
  await earlier();
}

async function asked(sending) {
  busy(true);
  complain("");
  try {
    const { url } = await sending;
    history.pushState(null, "", url);
    await arrive();
  } catch (error) {
    complain(error.message);
    if (error.fields) blame(error.fields);
  } finally {
    busy(false);
  }
}

/** The last answers, for whoever may ask. */
async function earlier() {
  if (!isAllowed("ask")) return;
  const { answers } = await get("/api/answers").catch(() => ({ answers: [] }));
  byId("earlier").hidden = answers.length === 0;
  fill(
    byId("answers"),
    answers
      .slice(0, 8)
      .map(({ id, at, source, rows, status, purpose, person }) =>
        h(
          "li",
          {},
          h(
            "a",
            { href: `/answers/${encodeURIComponent(id)}`, "aria-current": id === opened() ? "true" : null },
            source === "form" ? "typed row" : source,
          ),
          h("span", { class: "muted" }, plural(rows, "row")),
          h("small", {}, [moment(at), person, status === "done" ? "" : status, purpose].filter(Boolean).join(", ")),
        ),
      ),
  );
}

let known = null;
onState(({ node }) => {
  const print = JSON.stringify([node.features, node.columns, node.rule, node.no_view]);
  if (print !== known) begin(node, asked);
  known = print;
  foresee(node.witnesses);
});
lock(!isAllowed("ask"));
addEventListener("popstate", arrive);
arrive();
