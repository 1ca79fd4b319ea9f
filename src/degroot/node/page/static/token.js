// The token: it comes in the address, behind #, which no server sees; then it is kept for this tab and taken out there.

const PLACE = "degroot-token";

const [, given] = /^#token=([\w-]+)$/.exec(location.hash) ?? [];
if (given) {
  sessionStorage.setItem(PLACE, given);
  history.replaceState(history.state, "", location.pathname + location.search);
}

export const token = () => sessionStorage.getItem(PLACE);

export const forget = () => sessionStorage.removeItem(PLACE);
