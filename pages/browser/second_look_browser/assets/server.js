// What list and desk ask of the server, each under the page's own id; and what of both stands in the address.
import { newId } from "./dom.js";

const ANSWER_MS = 8000;
const ASKED = ["case", "priorities", "sort", "batch", "cover"];
const page = (window.secondLookPage ??= newId()); // one for all modules of this page, until it is loaded again

export const inAddress = (name) => new URLSearchParams(location.search).get(name) ?? "";

// Nothing is loaded for it. A new case is a step that the browser's own button goes back from.
export function setInAddress(name, value) {
  if (inAddress(name) === value) return;
  const url = new URL(location.href);
  if (value) url.searchParams.set(name, value);
  else url.searchParams.delete(name);
  history[name === "case" ? "pushState" : "replaceState"](history.state, "", url);
}

// The answer, with its status; status 0 where none came.
export async function ask(what, more = {}, actions = null) {
  const query = new URLSearchParams({ page, zone: Intl.DateTimeFormat().resolvedOptions().timeZone });
  for (const name of ASKED) if (inAddress(name)) query.set(name, inAddress(name));
  for (const [name, value] of Object.entries(more)) query.set(name, value);
  const sent = actions && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(actions) };
  try {
    const options = { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS), ...sent };
    const answer = await fetch(new URL(`_live/inbox/${what}?${query}`, document.baseURI), options);
    return { status: answer.status, said: await answer.json() };
  } catch {
    return { status: 0, said: {} };
  }
}

// At the end of the page: until then it had its case on the desk.
export function sayGoodbye() {
  const query = new URLSearchParams({ page, case: inAddress("case"), left: "1" });
  fetch(new URL(`_live/inbox/list?${query}`, document.baseURI), { cache: "no-store", keepalive: true }).catch(() => {});
}
