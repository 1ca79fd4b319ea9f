// Signing in, with the token in the address or one that is pasted.

import { byId } from "./elements.js";
import { arrive, signIn, tokenIn } from "./session.js";

function complain(text) {
  byId("complaint").textContent = text;
}

byId("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = tokenIn(byId("token").value);
  if (!token) return complain("A token must be letters, digits, - and _, or the whole address with it.");
  complain("");
  signIn(token).catch((error) => complain(error.message));
});

addEventListener("hashchange", () => arrive(complain));
arrive(complain);
