// A text being screened: asks the server what changed, and puts that where it stands on the page already. Nodes of the
// page stay wherever they can, so that nothing flickers, no selection is lost and only what is new is read out.
import { component, make, trusted } from "./dom.js";

const PARTS = ".sl-status,.sl-budget,.sl-dag,.sl-node"; // in the page's order, as the server counts them
const SILENT_MS = 4000;
const FAILED_OFTEN = 3;
const AGAIN_MS = 3000;

// Makes `old` what `fresh` is, changing only what differs.
export function become(old, fresh) {
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of [...fresh.attributes]) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const now = [...old.childNodes], then = [...fresh.childNodes];
  if (now.length !== then.length || now.some((node, at) => node.nodeName !== then[at].nodeName)) {
    old.replaceChildren(...then);
    return;
  }
  now.forEach((node, at) => {
    if (node.nodeType !== Node.ELEMENT_NODE) {
      if (node.data !== then[at].data) node.data = then[at].data;
    } else become(node, then[at]);
  });
}

class Live {
  constructor(root) {
    this.lostSaid = make("p", { class: "lost", role: "status" });
    this.box = make("div", { class: "live" }, this.lostSaid);
    root.append(this.box);
    this.worker = new Worker(new URL("./tick.js", import.meta.url)); // goes on at its pace in a hidden tab
    this.worker.onmessage = () => this.ask();
  }

  update(component) {
    const begins = component.data.address && component.data.address !== this.data?.address;
    this.component = component;
    this.data = component.data;
    this.have = this.data.have;
    this.run = (this.run ?? 0) + 1; // an answer to an earlier run's question is of no use
    this.toldAt = 0;
    this.answered();
    if (this.data.address) this.worker.postMessage(1000 * this.data.every);
    if (begins) this.come();
  }

  // On a phone the form fills the screen: what comes of the press is brought into sight, once.
  come() {
    if (!window.matchMedia("(max-width: 40rem)").matches) return;
    document.querySelector(this.data.place)?.scrollIntoView({ block: "start" });
  }

  async ask() {
    if (!this.data?.address) return;
    if (Date.now() - this.answeredAt > SILENT_MS) this.lost();
    if (this.asking) return;
    this.asking = true;
    const run = this.run;
    try {
      const answer = await fetch(`${this.data.address}?have=${this.have}`, { cache: "no-store", signal: AbortSignal.timeout(8000) });
      const told = answer.status === 200 ? await answer.json() : null;
      if (run === this.run) this.take(answer.status, told);
    } catch {
      this.failed();
    } finally {
      this.asking = false;
    }
  }

  take(status, told) {
    if (status === 200 || status === 204) {
      this.answered();
      if (told?.again) this.tell("again");
      else if (told) this.show(told);
    } else if ([401, 403, 404].includes(status)) this.tell("stale");
    else this.failed();
  }

  show(told) {
    const places = document.querySelector(this.data.place)?.querySelectorAll(PARTS) ?? [];
    for (const [at, html] of Object.entries(told.parts)) {
      if (!places[at]) return; // the page is being drawn: the next answer says it again
      become(places[at], trusted(html).firstElementChild);
    }
    this.have = told.have;
  }

  // Has the page run again; asked anew where no run came of it.
  tell(what) {
    if (Date.now() - this.toldAt < AGAIN_MS) return;
    this.toldAt = Date.now();
    this.component.setTriggerValue(what, true);
  }

  answered() {
    this.failures = 0;
    this.answeredAt = Date.now();
    if (this.lostSaid.textContent) this.lostSaid.textContent = "";
  }

  failed() {
    this.failures += 1;
    if (this.failures >= FAILED_OFTEN) this.lost();
  }

  lost() {
    if (!this.lostSaid.textContent) this.lostSaid.textContent = "Connection lost. Trying again.";
  }

  close() {
    this.worker.terminate();
    this.box.remove();
  }
}

export default component(Live);
