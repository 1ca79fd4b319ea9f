// Elements: the only way in which text gets into the page. Nothing here reads markup.

const SVG = "http://www.w3.org/2000/svg";
const prints = new WeakMap(); // what an element was made from

/** An element. `given`: attributes; `on…`: listeners; `vars`: custom properties; children: nodes, text, or nothing. */
export function h(tag, given = {}, ...children) {
  return furnished(document.createElement(tag), given, children);
}

/** The same for drawings. */
export function svg(tag, given = {}, ...children) {
  return furnished(document.createElementNS(SVG, tag), given, children);
}

function furnished(element, given, children) {
  for (const [name, value] of Object.entries(given)) {
    if (absent(value)) continue;
    if (name === "vars")
      for (const [key, each] of Object.entries(value)) element.style.setProperty(`--${key}`, String(each));
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...present(children));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Put `children` in place of what is there. */
export function fill(element, ...children) {
  element.replaceChildren(...present(children));
  return element;
}

const absent = (each) => each === null || each === undefined || each === false;

const present = (children) => children.flat(Infinity).filter((each) => !absent(each));

/** Say it to those who listen rather than look. */
export function announce(text) {
  byId("announcer").textContent = text;
}

/** Children of `parent` for `items`, by key. What has not changed stays, so that a live table does not flicker. */
export function keyed(parent, items, key, made) {
  const old = new Map([...parent.children].map((each) => [each.dataset.key, each]));
  const wanted = items.map((item, i) => {
    const name = String(key(item, i));
    const print = JSON.stringify(item);
    const known = old.get(name);
    if (known && prints.get(known) === print) return known;
    const fresh = made(item, i);
    fresh.dataset.key = name;
    prints.set(fresh, print);
    return fresh;
  });
  const same = wanted.length === parent.children.length && wanted.every((each, i) => each === parent.children[i]);
  if (!same) parent.replaceChildren(...wanted);
}

/** A cell that says its column's name where columns are not shown. */
export function cell(label, ...children) {
  return h("td", { "data-label": label }, ...children);
}

/** A cell with a number. */
export function figure(label, ...children) {
  return h("td", { "data-label": label, class: "number" }, ...children);
}
