// Whether the server can be reached, as soon as that is known: said on any page, since until it can, what the page shows
// may be old. Streamlit tells it on its root element; the browser tells when there is no network at all; and a question
// every few seconds finds a line that is silently dead.
//
// Streamlit also opens a dialog over the page, which would cover what we say and take the keys: it is closed, and once
// closed it stays away until the line is back.
import { component } from "./dom.js";

const LOST = "Connection lost. What this page shows may be out of date, and nothing pressed now is stored. Trying again.";
const ASK_MS = 3000;
const ANSWER_MS = 4000;

export function watchConnection(changed) {
  const app = document.querySelector('[data-testid="stApp"]');
  let silent = false;
  let told = null;
  const lost = () => {
    const state = app?.getAttribute("data-test-connection-state") ?? "CONNECTED";
    return silent || !navigator.onLine || state !== "CONNECTED";
  };
  const tell = () => {
    if (lost() !== told) changed((told = lost()));
  };
  const ask = async () => {
    try {
      const options = { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) };
      const answer = await fetch(new URL("_stcore/health", document.baseURI), options);
      silent = !answer.ok;
    } catch {
      silent = true;
    }
    tell();
  };
  const gone = new AbortController();
  const observer = new MutationObserver(() => {
    closeDialog();
    tell();
  });
  if (app) observer.observe(app, { attributes: true, attributeFilter: ["data-test-connection-state"] });
  observer.observe(document.body, { childList: true });
  const timer = setInterval(() => document.visibilityState === "visible" && ask(), ASK_MS);
  window.addEventListener("offline", tell, { signal: gone.signal });
  window.addEventListener("online", ask, { signal: gone.signal });
  tell();
  return () => {
    observer.disconnect();
    clearInterval(timer);
    gone.abort();
  };
}

function closeDialog() {
  const tells = (dialog) => dialog.textContent.includes("Connection error");
  const opened = [...document.querySelectorAll('[data-testid="stDialog"] [role="dialog"]')].find(tells);
  opened?.querySelector('button[aria-label="Close"]')?.click();
}

// The menu of a phone lies over the page that was chosen in it.
function closeMenu() {
  document.querySelector('#stSidebar button[aria-expanded="true"]')?.click();
}

class Line {
  constructor(root) {
    this.said = root.appendChild(Object.assign(document.createElement("p"), { className: "line", role: "alert" }));
    this.unwatch = watchConnection((lost) => (this.said.textContent = lost ? LOST : ""));
  }

  // Another page, or another upload on it, begins at its beginning.
  update({ place }) {
    if (place === this.place) return;
    if (this.place) document.querySelector('[data-testid="stMain"]')?.scrollTo(0, 0);
    this.place = place;
    closeMenu();
  }

  close() {
    this.unwatch();
    this.said.remove();
    closeMenu();
  }
}

export default component(Line);
