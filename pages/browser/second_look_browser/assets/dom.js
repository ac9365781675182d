// Elements without markup: whatever a text holds, it is set as text. And where a component stands on its page.

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "checked" || name === "value" || name === "disabled" || name === "open") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
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

export function keyed(words, key) {
  return key ? [words, make("kbd", { "aria-hidden": "true" }, key)] : [words];
}

export function newId() {
  // Time first, as the server's own ids: 12 hexadecimal digits of milliseconds, then chance.
  const chance = crypto.getRandomValues(new Uint8Array(10));
  return Date.now().toString(16).padStart(12, "0") + Array.from(chance, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const MAY_STAND = new Set([
  "STYLE", "SECTION", "DIV", "P", "SPAN", "B", "I", "U", "H3", "H4", "DETAILS", "SUMMARY", "FIGURE", "FIGCAPTION", "UL", "OL", "LI",
  "TABLE", "TBODY", "THEAD", "TR", "TD", "TH", "DL", "DT", "DD", "EM", "STRONG", "SMALL", "DEL", "INS", "S", "A",
]);

// HTML that our own server made of escaped parts; a second fence all the same: known elements and harmless attributes.
export function trusted(html) {
  const body = new DOMParser().parseFromString(html, "text/html");
  const found = document.createDocumentFragment();
  for (const style of body.head.querySelectorAll("style")) found.append(style);
  for (const element of body.body.querySelectorAll("*")) {
    if (!MAY_STAND.has(element.tagName)) element.remove();
    for (const { name, value } of [...element.attributes]) {
      const page = (name === "href" && /^[a-z_]+$/.test(value)) || (name === "target" && value === "_self"); // one of ours
      if (!page && !/^(class|style|role|tabindex|title|open|aria-[a-z]+)$/.test(name)) element.removeAttribute(name);
    }
  }
  found.append(...body.body.childNodes);
  return found;
}
