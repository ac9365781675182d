// What is filled in, kept in this browser from the first key on and until the server has it.

const PREFIX = "second-look-draft";
const LONGEST_MS = 3 * 24 * 3600 * 1000;

const name = (me, caseId) => `${PREFIX}/${me}/${caseId}`;

export function keepHere(me, caseId, draft) {
  try {
    localStorage.setItem(name(me, caseId), JSON.stringify(draft));
  } catch {
    // full or forbidden: the server still gets it
  }
}

export function keptHere(me, caseId) {
  try {
    return JSON.parse(localStorage.getItem(name(me, caseId)) ?? "null");
  } catch {
    return null;
  }
}

export function forget(me, caseId, rev) {
  const kept = keptHere(me, caseId);
  if (kept && (rev === undefined || kept.rev <= rev)) localStorage.removeItem(name(me, caseId));
}

export function forgetOld() {
  try {
    for (const key of Object.keys(localStorage).filter((each) => each.startsWith(`${PREFIX}/`))) {
      const rev = JSON.parse(localStorage.getItem(key) ?? "{}").rev ?? 0;
      if (Date.now() - rev > LONGEST_MS) localStorage.removeItem(key);
    }
  } catch {
    // nothing kept, nothing to forget
  }
}
