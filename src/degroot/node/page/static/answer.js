// An answer: while it is worked on, when it is there, and when it cannot be had.

import { announce, byId, fill, h } from "./elements.js";
import { count, listed, moment, plural, seconds } from "./format.js";
import { detail } from "./row.js";
import { list } from "./rows.js";
import { get } from "./service.js";

const UNCHECKED = "unverified"; // as the flag is called
const PAUSE = 300; // ms between looks at a question that is worked on
let shown = null; // the id that the reader wants to see now

/** Show the answer `id`, and the row `row` of it. */
export async function show(id, row) {
  shown = id;
  const place = byId("answer");
  if (place.dataset.id !== id)
    fill(place, h("div", { class: "panel working" }, h("p", { class: "loading" }, "Fetching the answer …")));
  try {
    const about = await finished(id, place);
    if (shown !== id) return;
    if (about.status === "failed") fill(place, failure("The question could not be answered.", about.error));
    else draw(place, about, row ?? 0);
  } catch (error) {
    if (shown === id)
      fill(
        place,
        failure(
          error.status === 404 ? "This answer is not here." : "The answer cannot be shown.",
          error.status === 404
            ? `${error.message} An answer of another node has another link.`
            : error.message,
        ),
      );
  }
  place.dataset.id = id;
}

async function finished(id, place) {
  while (true) {
    const about = await get(`/api/answers/${encodeURIComponent(id)}`);
    if (about.status !== "working" || shown !== id) return about;
    progress(place, about);
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

function progress(place, { done, total }) {
  const text = total > 1 ? `${count(done)} of ${plural(total, "row")} answered` : "Asking …";
  const old = place.querySelector("progress");
  if (!old)
    fill(
      place,
      h(
        "div",
        { class: "panel working" },
        h("p", { id: "working" }, text),
        h("progress", { max: 1, "aria-labelledby": "working" }),
      ),
    );
  place.querySelector("#working").textContent = text;
  if (total > 1) place.querySelector("progress").value = done / total;
}

function failure(title, why) {
  announce(`${title} ${why ?? ""}`);
  return h("div", { class: "notice bad" }, h("p", {}, h("strong", {}, title)), why ? h("p", {}, why) : null);
}

function draw(place, about, row) {
  const one = h("div", { id: "row" });
  const open = (i) =>
    detail(one, about, i, (next) => {
      point(next);
      open(next);
    });
  const rows =
    about.rows > 1
      ? list(about, row, (i) => {
          point(i);
          open(i);
        })
      : null;
  const point = (i) => {
    history.replaceState(null, "", `/answers/${encodeURIComponent(about.id)}?row=${i}`);
    rows?.mark(i);
  };
  fill(place, heading(about), notices(about), rows?.panel ?? null, one);
  announce(`Answered: ${plural(about.rows, "row")}.`);
  open(Math.min(Math.max(row, 0), about.rows - 1));
}

function whose({ asker, way, rounds }) {
  if (asker) return `for ${asker}, from its own rows`;
  return way === "rounds" ? `consensus, pooled in ${plural(rounds ?? 0, "round")}` : "consensus, solved here";
}

function heading(about) {
  const away = new Set(about.missing.map((each) => each.agent));
  const facts = [
    whose(about),
    seconds(about.seconds),
    moment(about.at),
    `${about.names.length - away.size} of ${plural(about.names.length, "agent")}`,
  ];
  return h(
    "div",
    { class: "about" },
    h(
      "div",
      {},
      h("h2", {}, about.source === "form" ? "Answer to a typed row" : `${about.source}: ${plural(about.rows, "row")}`),
      h("p", { class: "muted" }, facts.join(" · ")),
      h("p", { class: "muted" }, person(about), purpose(about), keeping(about), recorded(about)),
    ),
    h(
      "div",
      { class: "actions" },
      h("button", { type: "button", onclick: copy }, "Copy link"),
      ["csv", "parquet", "json"].map((format) =>
        h(
          "a",
          {
            class: "button",
            download: true,
            href: `/api/answers/${encodeURIComponent(about.id)}/download?format=${format}`,
          },
          h("span", { class: "unseen" }, "Download "),
          format === "parquet" ? "Parquet" : format.toUpperCase(),
        ),
      ),
    ),
  );
}

const person = ({ person: name }) => (name ? `Asked by ${name} · ` : null);

const purpose = ({ purpose: why }) => (why ? `Purpose: ${why} · ` : null);

function keeping({ kept, until }) {
  return kept ? `kept until ${moment(until)}` : `not kept: it can be seen until ${moment(until)} at most`;
}

/** The way to what the ledger has of it. */
function recorded({ question }) {
  if (!question) return null;
  return [" · ", h("a", { href: `/audit?${new URLSearchParams({ q: question })}` }, "in the audit")];
}

/** What the answer should be read with: faults first; that nobody could check an agent is none. */
function notices({ missing, flags, rows, ignored, names, note }) {
  const named = ({ agent, points }) => (points && points < rows ? `${agent} (${plural(points, "row")})` : agent);
  const say = (of, what) =>
    h("p", {}, h("strong", {}, `${listed(of.map(named))} ${what}`), of[0].reason ? `: ${of[0].reason}` : "");
  const faults = [
    ...alike(missing, "reason").map((of) => say(of, `${of.length > 1 ? "were" : "was"} missing`)),
    ...alike(
      flags.filter((each) => each.kind !== UNCHECKED),
      "kind",
      "reason",
    ).map((of) => say(of, of[0].kind)),
  ];
  const calm = alike(
    flags.filter((each) => each.kind === UNCHECKED),
    "reason",
  ).map((of) => unchecked(of, names.length - missing.length, rows, named));
  if (note) calm.push(h("p", {}, note));
  if (ignored?.length) calm.push(h("p", {}, `Columns not used: ${ignored.join(", ")}.`));
  return [
    faults.length ? h("div", { class: "notice", role: "note", "aria-label": "Faults" }, faults) : null,
    calm.length ? h("div", { class: "notice calm", role: "note", "aria-label": "Notes" }, calm) : null,
  ];
}

function unchecked(of, present, rows, named) {
  const why = of[0].reason.replace(/ to check it$/, "");
  const everywhere = of.length >= present && of.every((each) => each.points >= rows);
  return h(
    "p",
    {},
    everywhere ? `Not cross-checked here: ${why}.` : `Not cross-checked: ${listed(of.map(named))}: ${why}.`,
  );
}

/** Entries in groups that say the same. */
function alike(entries, ...names) {
  const groups = new Map();
  for (const each of entries) {
    const key = JSON.stringify(names.map((name) => each[name]));
    groups.set(key, [...(groups.get(key) ?? []), each]);
  }
  return [...groups.values()];
}

async function copy(event) {
  const button = event.currentTarget;
  await navigator.clipboard.writeText(location.href).catch(() => null);
  button.textContent = "Copied";
  announce("The link was copied.");
  setTimeout(() => {
    button.textContent = "Copy link";
  }, 1500);
}
