// Verification: whether the ledger is whole, as it was last verified; and the ledger as a file.

import { byId, fill, h } from "./elements.js";
import { count, moment, plural } from "./format.js";
import { get, post } from "./service.js";

const PAUSE = 500; // ms between looks at a verification that runs

/** Show how it stands, until nothing runs. */
export async function watch() {
  try {
    let told = await get("/api/audit/verification");
    while (told.working) {
      draw(told);
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
      told = await get("/api/audit/verification");
    }
    draw(told);
  } catch (error) {
    byId("verification-complaint").textContent = error.message;
  }
}

/** The links that give away what the ledger holds, of one peer or of all. */
export function offer(peer) {
  byId("export-of").textContent = peer ? `Export exchanges with ${peer}:` : "Export the ledger:";
  for (const format of ["json", "csv"])
    byId(`export-${format}`).href = `/api/audit/export?${new URLSearchParams({ format, ...(peer ? { peer } : {}) })}`;
}

async function verify() {
  byId("verify").disabled = true;
  byId("verification-complaint").textContent = "";
  try {
    draw(await post("/api/audit/verification", "", "application/json"));
    await watch();
  } catch (error) {
    byId("verification-complaint").textContent = error.message;
    byId("verify").disabled = false;
  }
}

function draw({ working, at, error, result, checks_signatures: checked }) {
  byId("verify").disabled = working;
  byId("verify").textContent = working ? "Verifying …" : "Verify now";
  byId("verified").className = !result || working ? "muted" : result.whole ? "whole" : "broken";
  byId("verified").textContent = verdict(working, at, error, result);
  byId("verified-how").textContent = result ? how(result, checked) : "";
  fill(
    byId("findings"),
    [
      ...(result?.findings ?? []),
      ...(result?.disputes ?? []).map((each) => `Disputed with a peer, who may be wrong: ${each}`),
    ].map((each) => h("li", {}, `${each}.`)),
  );
}

function verdict(working, at, error, result) {
  if (working) return "The ledger is being verified …";
  if (error) return `It could not be verified at ${moment(at)}: ${error}`;
  if (!result) return "Not verified since the node was started.";
  const found = result.whole
    ? "Nothing was changed, and nothing is missing"
    : `Not whole: ${plural(result.findings.length, "finding")}`;
  return `${found}, as of ${moment(at)}.`;
}

function how({ records, receipts, confirmed, unconfirmed, signed }, checked) {
  const by = signed ? "signed by this node" : "not signed";
  const sure = `${count(confirmed)} are confirmed by peers, ${count(unconfirmed)} not yet`;
  const all = `${plural(records, "record")}, ${by}; ${plural(receipts, "receipt")}`;
  const told = `${all}. Of the exchanges that this node made, ${sure}.`;
  return checked ? told : `${told} Signatures were not checked: this node has no certificates.`;
}

byId("verify").addEventListener("click", verify);
