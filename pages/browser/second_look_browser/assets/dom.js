// What is shown is said as a tree, `h(tag, props, ...children)`, and patched into the page: whatever is the same stays, with
// the focus, the scrolling and a press that are in it. Whatever a text holds, it is set as text, never as markup.

const OF_WHOEVER_LOOKS = ["value", "checked"]; // they change it as well: compared with what is there

export const h = (tag, props, ...children) => ({ tag, props: props ?? {}, children: children.flat(Infinity) });

// A child that is nothing (false, null, "") keeps its place, so that those after it stay who they are. A list's entries
// have a ``key`` each.
export function patch(place, children) {
  const keys = new Set(children.map((child) => child?.props?.key));
  const keyed = new Map();
  for (const node of [...place.childNodes]) {
    const key = node.drawn?.props.key;
    if (key && keys.has(key)) keyed.set(key, node);
    else if (key) node.remove();
  }
  let at = place.firstChild;
  for (const each of children) {
    const child = each?.tag ? each : String(each || "");
    const key = child.props?.key;
    const node = (key ? keyed.get(key) : fits(at, child) && at) || made(child);
    const inItsPlace = node === at || (!key && at && !at.drawn?.props.key);
    const next = inItsPlace ? at.nextSibling : at;
    if (node !== at && inItsPlace) at.replaceWith(node);
    else if (node !== at) place.insertBefore(node, at);
    at = next;
    if (child.tag) update(node, child);
    else if (node.data !== child) node.data = child;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

const fits = (node, { tag }) => (tag ? node?.drawn?.tag === tag && !node.drawn.props.key : node?.nodeType === Node.TEXT_NODE);

const made = ({ tag }) => (tag ? document.createElement(tag) : document.createTextNode(""));

function update(node, drawn) {
  if (node.drawn === drawn) return;
  const before = node.drawn?.props ?? {};
  const { key, ref, html, ...props } = drawn.props;
  node.drawn = drawn;
  for (const name of Object.keys({ ...before, ...props })) {
    if (before[name] !== props[name] && !OF_WHOEVER_LOOKS.includes(name)) set(node, name, props[name]);
  }
  if (html === undefined) patch(node, drawn.children);
  else if (html !== before.html) node.replaceChildren(...trusted(html));
  for (const name of OF_WHOEVER_LOOKS) if (name in props && node[name] !== props[name]) node[name] = props[name];
  ref?.(node);
}

function set(node, name, value) {
  if (name.startsWith("on") || typeof node[name] === "boolean") node[name] = value ?? null;
  else if (value === undefined || value === null) node.removeAttribute(name);
  else node.setAttribute(name, value);
}

// A component's default export: one `Kind` for each place that it is drawn in, told of every run of the page behind it.
// What the page gives it comes as a list's one entry: of an object Streamlit would look at each value for a table.
export function component(Kind) {
  const places = new WeakMap();
  return ({ parentElement, data }) => {
    let one = places.get(parentElement);
    if (!one) places.set(parentElement, (one = new Kind(parentElement)));
    one.update(data?.[0]);
    return () => {
      one.close();
      places.delete(parentElement);
    };
  };
}

export const keyed = (words, key) => [words, key && h("kbd", { "aria-hidden": "true" }, key)];

const MAY_STAND = new Set([
  "SECTION", "DIV", "P", "SPAN", "B", "I", "U", "H3", "H4", "DETAILS", "SUMMARY", "FIGURE", "FIGCAPTION", "UL", "OL", "LI",
  "TABLE", "TBODY", "THEAD", "TR", "TD", "TH", "DL", "DT", "DD", "EM", "STRONG", "SMALL", "DEL", "INS", "S", "A",
]);

// HTML that our own server made of escaped parts; a second fence all the same: known elements and harmless attributes.
function trusted(html) {
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
