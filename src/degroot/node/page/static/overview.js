// The overview: this node, its mode, alerts, its peers, what has left, what was asked.

import { byId, fill, h, keyed } from "./elements.js";
import { count, listed, milliseconds, plural, short, span } from "./format.js";
import "./frame.js";
import { leak } from "./leak.js";
import { onState } from "./live.js";
import { peers } from "./peers.js";
import { questions } from "./questions.js";

onState((state) => {
  verdict(state);
  figures(state);
  notices(state.notices);
  alerts(state.alerts);
  peers(state.peers);
  leak(state);
  questions(state.questions);
});

const ready = (peer) => peer.ready;

function verdict({ node, peers: all }) {
  const pooled = node.needed !== null;
  const [heading, why] = [byId("verdict"), byId("verdict-why")];
  const text = !node.answering ? "Cannot answer now" : pooled && !node.consensus ? "No consensus now" : "Answering";
  heading.classList.remove("loading");
  if (heading.textContent !== text) heading.textContent = text;
  const partly = node.ready <= all.length || (pooled && !node.consensus);
  heading.parentElement.dataset.state = !node.answering ? "down" : partly ? "late" : "up";
  const absent = all.filter((peer) => !ready(peer)).map((peer) => `${peer.name} (${peer.state})`);
  why.textContent =
    node.faults.map((fault) => `${fault[0].toUpperCase()}${fault.slice(1)}. `).join("") +
    (pooled ? quorum(node, all) : models(node, all)) +
    (absent.length ? ` Not with us: ${listed(absent)}.` : "") +
    (!pooled || node.consensus || node.no_view ? "" : " Answers for this node go on, from its own rows.");
  byId("mode").textContent = node.mode;
  byId("map").hidden = !node.map;
  if (node.map) byId("map").textContent = describeMap(node.map);
}

/** Whether this node's evidence map is published, why not, and what maps have cost. */
function describeMap({ serial, lacking, epsilon_spent: spent, lifetime_epsilon: limit }) {
  const cost = `Epsilon spent: ${spent ?? "unknown"} of ${limit} for life.`;
  if (!lacking) return `Evidence map ${short(serial)} is published. ${cost}`;
  const before = serial ? ` The map before, ${short(serial)}, stays in use.` : "";
  return `No evidence map of this version is published: ${lacking.replace(/\.$/, "")}.${before} ${cost}`;
}

function quorum({ able, needed }, all) {
  const nodes = `${able} of ${plural(all.length + 1, "node")} can take part`;
  return `${nodes}; ${needed} ${needed === 1 ? "is" : "are"} needed for a consensus.`;
}

/** From its own rows a node answers with whatever models it can ask, its own at least. */
function models({ ready: able, no_view: without }, all) {
  if (without) return `No answer from this node's own rows: ${without}.`;
  const used = (how) => all.filter((peer) => ready(peer) && peer.use.as === how).length;
  const [copies, queried] = [used("copy"), used("query")];
  const parts = ["our own", copies && plural(copies, "copy", "copies"), queried && `${queried} queried`];
  return `${able} of ${plural(all.length + 1, "model")} can be asked: ${listed(parts.filter(Boolean))}.`;
}

/** What whoever runs the node should do something about. */
function notices(all) {
  byId("notices").hidden = !all.length;
  keyed(
    byId("notices-list"),
    all,
    (each) => each.words,
    ({ level, words }) =>
      h(
        "li",
        { class: level === "error" ? "notice bad" : "notice", "data-level": level },
        h("p", {}, h("strong", {}, level === "error" ? "Error: " : "Warning: "), words),
      ),
  );
}

/** Somebody asks about many of our own rows: our people are told, and nobody else. */
function alerts(all) {
  byId("alerts").hidden = !all.length;
  keyed(
    byId("alerts-list"),
    all,
    (each) => each.caller,
    ({ words, at }) => h("li", { title: at }, words),
  );
  byId("alerts-meaning").textContent = all[0]?.meaning ?? "";
}

function figures({ node, questions: asked }) {
  const classes = node.classes.length ? [plural(node.classes.length, "class", "classes")] : [];
  const running = node.started ? span((Date.now() - new Date(node.started).getTime()) / 1000) : "–";
  fill(
    byId("figures"),
    entry("Questions answered", count(asked.answered), asked.failed ? `${count(asked.failed)} failed` : "none failed"),
    entry(
      "Time for an answer",
      milliseconds(asked.median_ms),
      asked.p95_ms === null ? "no question yet" : `median; 95 % within ${milliseconds(asked.p95_ms)}`,
    ),
    entry(
      "Rule",
      node.rule,
      [
        node.guard ? "guard on" : "guard off",
        node.neighbours !== null && node.neighbours !== undefined ? `${near(node.neighbours)} nearest` : "",
      ]
        .filter(Boolean)
        .join(", "),
    ),
    entry("Own rows", count(node.rows), [plural(node.features.length, "feature"), ...classes].join(", ")),
    entry("Own model", short(node.model_version), `evidence: ${node.evidence}`, node.model_version),
    entry("Running for", running, `at ${node.listen}`),
  );
}

const near = (n) => (n > 0 && n < 1 ? `${+(100 * n).toPrecision(3)} %` : n);

function entry(term, value, more, title) {
  return h("div", {}, h("dt", {}, term), h("dd", { title }, value), h("dd", {}, more));
}
