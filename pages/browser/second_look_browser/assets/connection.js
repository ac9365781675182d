// Whether the server can be reached, as soon as that is known. Streamlit tells it on its root element; the browser
// tells when there is no network at all; and a question every few seconds finds a line that is silently dead.

// Streamlit also opens a dialog over the page, which would cover what we say and take the keys: it is closed, and once
// closed it stays away until the line is back.

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
  const observer = new MutationObserver(tell), dialogs = new MutationObserver(closeDialog), gone = new AbortController();
  if (app) observer.observe(app, { attributes: true, attributeFilter: ["data-test-connection-state"] });
  dialogs.observe(document.body, { childList: true });
  const timer = setInterval(() => document.visibilityState === "visible" && ask(), ASK_MS);
  window.addEventListener("offline", tell, { signal: gone.signal });
  window.addEventListener("online", ask, { signal: gone.signal });
  tell();
  return () => {
    observer.disconnect();
    dialogs.disconnect();
    clearInterval(timer);
    gone.abort();
  };
}

function closeDialog() {
  const tells = (dialog) => dialog.textContent.includes("Connection error");
  const opened = [...document.querySelectorAll('[data-testid="stDialog"] [role="dialog"]')].find(tells);
  opened?.querySelector('button[aria-label="Close"]')?.click();
}
