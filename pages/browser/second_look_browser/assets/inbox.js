// The inbox: the list on the left and the desk beside it. A page has one, which outlives each run of the page behind it.
import { Desk, onInbox } from "./desk.js";
import { Queue } from "./queue.js";
import { sayGoodbye } from "./server.js";

const EVERY_MS = 3000; // what is new is seen within five seconds
const LOOK_AT = 3; // of so many questions of the list one is of the desk, too
const GONE_MS = 4000;
const FOLLOWED_MS = 2000; // a link's page has come by then

const made = (name) => Object.assign(document.createElement("div"), { className: name });

class Inbox {
  constructor(page) {
    this.page = page; // who is here and what they may do, the form, the site's own words
    this.root = made("inbox");
    const places = [made("inbox-list"), made("inbox-desk")];
    this.root.append(...places);
    this.queue = new Queue(this, places[0]);
    this.desk = page.may ? new Desk(this, places[1]) : null;
    let asked = 0;
    this.worker = new Worker(new URL("./tick.js", import.meta.url));
    this.worker.postMessage(EVERY_MS);
    this.worker.onmessage = () => {
      if (!this.root.isConnected) return;
      this.queue.ask();
      asked += 1;
      if (asked % LOOK_AT === 0) this.desk?.look();
    };
    this.followed = 0; // when a link was pressed last
    this.pressed = (event) => event.composedPath().some(({ tagName }) => tagName === "A") && (this.followed = Date.now());
    document.addEventListener("click", this.pressed, true);
    this.goodbye = () => this.root.isConnected && sayGoodbye();
    window.addEventListener("pagehide", this.goodbye);
  }

  // The page behind runs again: not while a link is on its way, which would be forgotten for it.
  run() {
    if (Date.now() - this.followed < FOLLOWED_MS) setTimeout(() => this.run(), FOLLOWED_MS);
    else if (this.root.isConnected) this.trigger("run", Date.now());
  }

  close() {
    document.removeEventListener("click", this.pressed, true);
    window.removeEventListener("pagehide", this.goodbye);
    this.worker.terminate();
    this.queue.close();
    this.desk?.close();
    this.root.remove();
  }
}

let inbox = null;
let leaving = 0;

function leave() {
  clearTimeout(leaving);
  leaving = setTimeout(() => {
    if (onInbox()) return leave(); // a slow run of the page: it comes back
    inbox?.close();
    inbox = null;
  }, GONE_MS);
}

// Streamlit may take the component away and put it back in one run of the page: the inbox lives on, and so does a save
// that is on its way. Only a page that was left for good ends it, or somebody else who signed in, or may do something
// else: nothing of the person before is sent or shown.
export default function ({ data: [page], parentElement, setTriggerValue }) {
  clearTimeout(leaving);
  if (inbox && (inbox.page.me.id !== page.me.id || inbox.page.may !== page.may)) {
    inbox.close();
    inbox = null;
  }
  inbox ??= new Inbox(page);
  const { root, queue, desk } = inbox;
  const placed = root.parentElement === parentElement;
  if (!placed) parentElement.append(root);
  inbox.page = page;
  inbox.trigger = setTriggerValue;
  queue.mounted();
  if (!placed) desk?.arrive();
  desk?.mounted();
  return () => {
    if (root.parentElement !== parentElement) return; // it stands elsewhere already
    root.remove();
    queue.entitle(0);
    leave();
  };
}
