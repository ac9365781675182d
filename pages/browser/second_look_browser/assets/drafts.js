// What is filled in, kept in this browser from the first key on and until the server has it.

const PREFIX = "second-look-draft";
const LONGEST_MS = 3 * 24 * 3600 * 1000;

// A browser may be full, or keep nothing: the server still gets it.
export function tried(act) {
  try {
    return act();
  } catch {
    return null;
  }
}

const name = (me, caseId) => `${PREFIX}/${me}/${caseId}`;
const kept = (key) => tried(() => JSON.parse(localStorage.getItem(key)));

function drop(key, rev) {
  if ((kept(key)?.rev ?? 0) <= rev) tried(() => localStorage.removeItem(key));
}

export function keepHere(me, caseId, draft) {
  tried(() => localStorage.setItem(name(me, caseId), JSON.stringify(draft)));
}

export const keptHere = (me, caseId) => kept(name(me, caseId));

export const forget = (me, caseId, rev = Infinity) => drop(name(me, caseId), rev);

export function forgetOld() {
  const ours = tried(() => Object.keys(localStorage).filter((key) => key.startsWith(`${PREFIX}/`))) ?? [];
  for (const key of ours) drop(key, Date.now() - LONGEST_MS);
}
