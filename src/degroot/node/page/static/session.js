// The session: a token comes in the address, behind #, which no server sees. It is exchanged for a cookie that no script
// can read, and taken out there.

export const ENDED = "degroot-session-ended";

const { person = "", may = "" } = document.body.dataset;

/** Whether whoever is signed in has a right. */
export const isAllowed = (right) => may.split(" ").includes(right);

/** Sign in with a token; an error says why not. */
export async function signIn(token) {
  const headers = { Authorization: `Bearer ${token}` };
  const response = await fetch("/api/session", { method: "POST", headers }).catch(() => null);
  const told = await response?.json().catch(() => null);
  if (!response?.ok) throw new Error(told?.error ?? "This node does not answer.");
  if (told.name !== person || told.may.join(" ") !== may) location.reload();
}

export async function signOut() {
  await fetch("/api/session", { method: "DELETE" }).catch(() => null);
  location.reload();
}

/** The token in an address, or one that was pasted alone. */
export const tokenIn = (text) => /(?:#token=|^)([\w-]+)$/.exec(text.trim())?.[1] ?? null;

/** Sign in with the token in the address, if there is one; `failed` is called with the reason why not. */
export function arrive(failed) {
  const token = location.hash.startsWith("#token=") ? tokenIn(location.hash) : null;
  if (!token) return;
  history.replaceState(history.state, "", location.pathname + location.search);
  signIn(token).catch((error) => failed(error.message));
}
