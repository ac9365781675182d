// Elements without markup: whatever a text holds, it is set as text. And where a component stands on its page.

// A child that is nothing (false, null, "") is left out.
export function fill(place, ...children) {
  place.replaceChildren(...children.flat(Infinity).filter(Boolean));
  return place;
}

// Fills a place anew only where what it is drawn from has changed: a press that is under way would be lost otherwise, and
// so would the focus. Returns whether it was filled.
const drawnFrom = new WeakMap();

export function refill(place, from, draw) {
  const key = JSON.stringify(from);
  if (drawnFrom.get(place) === key) return false;
  drawnFrom.set(place, key);
  fill(place, draw());
  return true;
}

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  return fill(element, ...children);
}

// Makes elements that ``owner`` has by the name of their class.
export function placer(owner, prefix = "") {
  return (tag, name, more = {}, ...children) => (owner[name] = make(tag, { class: `${prefix}${name}`, ...more }, ...children));
}

// A component's default export: one `Kind` for each place that it is drawn in, told of every run of the page behind it.
// What the page gives it comes as a list's one entry: of an object Streamlit would look at each value for a table.
export function component(Kind) {
  const places = new WeakMap();
  return (given) => {
    const { parentElement } = given;
    let one = places.get(parentElement);
    if (!one) places.set(parentElement, (one = new Kind(parentElement)));
    one.update({ ...given, data: given.data?.[0] });
    return () => {
      one.close();
      places.delete(parentElement);
    };
  };
}

export const keyed = (words, key) => [words, key && make("kbd", { "aria-hidden": "true" }, key)];

export function newId() {
  // Time first, as the server's own ids: 12 hexadecimal digits of milliseconds, then chance.
  const chance = crypto.getRandomValues(new Uint8Array(10));
  return Date.now().toString(16).padStart(12, "0") + Array.from(chance, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const MAY_STAND = new Set([
  "SECTION", "DIV", "P", "SPAN", "B", "I", "U", "H3", "H4", "DETAILS", "SUMMARY", "FIGURE", "FIGCAPTION", "UL", "OL", "LI",
  "TABLE", "TBODY", "THEAD", "TR", "TD", "TH", "DL", "DT", "DD", "EM", "STRONG", "SMALL", "DEL", "INS", "S", "A",
]);

// HTML that our own server made of escaped parts; a second fence all the same: known elements and harmless attributes.
export function trusted(html) {
  const { body } = new DOMParser().parseFromString(html, "text/html");
  for (const element of body.querySelectorAll("*")) {
    if (!MAY_STAND.has(element.tagName)) element.remove();
    for (const { name, value } of [...element.attributes]) {
      const page = (name === "href" && /^[a-z_]+$/.test(value)) || (name === "target" && value === "_self"); // one of ours
      if (!page && !/^(class|style|role|tabindex|title|open|aria-[a-z]+)$/.test(name)) element.removeAttribute(name);
    }
  }
  return [...body.childNodes];
}
