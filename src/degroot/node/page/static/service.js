// Requests to this node, and to nobody else.

import { ENDED } from "./session.js";

/** What the node said instead of an answer. */
export class Refusal extends Error {
  constructor(status, message, fields = null) {
    super(message);
    this.status = status;
    this.fields = fields; // what is wrong with fields of a form, by name
  }
}

export async function get(path, { signal } = {}) {
  return answered(await sent(path, { signal, cache: "no-store" }));
}

export async function post(path, body, type) {
  return answered(await sent(path, { method: "POST", body, headers: { "Content-Type": type } }));
}

async function sent(path, options) {
  try {
    return await fetch(path, { ...options, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "This node does not answer.");
  }
}

async function answered(response) {
  const told = await response.json().catch(() => null);
  if (response.ok && told !== null) return told;
  const said = told?.error ?? `The node said ${response.status}, and nothing more.`;
  if (response.status === 401) dispatchEvent(new CustomEvent(ENDED, { detail: said }));
  throw new Refusal(response.status, said, told?.fields);
}
