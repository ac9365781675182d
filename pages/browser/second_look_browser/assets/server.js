// What list and desk ask of the server, each under the page's own id; and what of both stands in the address.

const ANSWER_MS = 8000;
const ASKED = ["case", "priorities", "sort", "batch", "cover"];

export function newId() {
  // Time first, as the server's own ids: 12 hexadecimal digits of milliseconds, then chance.
  const chance = crypto.getRandomValues(new Uint8Array(10));
  return Date.now().toString(16).padStart(12, "0") + Array.from(chance, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const page = newId(); // until it is loaded again

export const inAddress = (name) => new URLSearchParams(location.search).get(name) ?? "";

// Nothing is loaded for it. A new case is a step that the browser's own button goes back from.
export function setInAddress(name, value) {
  if (inAddress(name) === value) return;
  const url = new URL(location.href);
  if (value) url.searchParams.set(name, value);
  else url.searchParams.delete(name);
  history[name === "case" ? "pushState" : "replaceState"](history.state, "", url);
}

const addressOf = (what, query) => new URL(`_live/inbox/${what}?${new URLSearchParams({ page, ...query })}`, document.baseURI);

// The answer, with its status; status 0 where none came.
export async function ask(what, more = {}, actions = null) {
  const address = ASKED.filter(inAddress).map((name) => [name, inAddress(name)]);
  const query = { zone: Intl.DateTimeFormat().resolvedOptions().timeZone, ...Object.fromEntries(address), ...more };
  const sent = actions && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(actions) };
  try {
    const answer = await fetch(addressOf(what, query), { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS), ...sent });
    return { status: answer.status, said: await answer.json() };
  } catch {
    return { status: 0, said: {} };
  }
}

// At the end of the page: until then it had its case on the desk.
export function sayGoodbye() {
  const last = addressOf("list", { case: inAddress("case"), left: "1" });
  fetch(last, { cache: "no-store", keepalive: true }).catch(() => {});
}
