// What the reader asked for, in order, until the server says that it is done. A request keeps its id however often it
// is sent, and the server does it once: so nothing is lost and nothing is done twice, whatever the connection does.
import { newId } from "./dom.js";

const AGAIN_MS = [5000, 8000, 15000];
const SOON_MS = 2000;
const REPLACES = new Set(["draft", "look", "alive", "rest"]); // only the last of these matters
const BY_ITSELF = new Set([...REPLACES, "reveal"]); // what a reader asks for does not wait for the answer to these

export class Outbox {
  constructor() {
    this.waiting = [];
    this.flying = null;
    this.tries = 0;
    this.trigger = null;
    this.timer = 0;
    this.off = false; // the line is known to be lost
  }

  post(kind, body = {}) {
    const request = { id: newId(), kind, ...body };
    if (REPLACES.has(kind)) {
      const same = (one) => one.kind === kind && one.case === request.case && !this.flying?.has(one.id);
      this.waiting = this.waiting.filter((one) => !same(one));
    }
    this.waiting.push(request);
    this.send();
    return request.id;
  }

  waits(kind) {
    return this.waiting.some((one) => one.kind === kind);
  }

  drop(kind) {
    this.waiting = this.waiting.filter((one) => one.kind !== kind || this.flying?.has(one.id));
  }

  send() {
    if (this.off || !this.trigger || !this.waiting.length || (this.flying && !this.overtakes())) return;
    this.flying = new Set(this.waiting.map((one) => one.id));
    this.trigger("requests", this.waiting);
    this.wait(AGAIN_MS[Math.min(this.tries++, AGAIN_MS.length - 1)]);
  }

  // The server hears, but can do nothing now.
  soon() {
    if (this.waiting.length) this.wait(SOON_MS);
  }

  wait(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.again(), ms);
  }

  // Whether a reader waits for something while only what the page asked by itself is on its way.
  overtakes() {
    const first = this.waiting.filter((one) => !BY_ITSELF.has(one.kind));
    return first.length > 0 && !first.some((one) => this.flying.has(one.id));
  }

  again() {
    this.flying = null;
    this.send();
  }

  // The answers the server remembers; returns those that were waited for, by their request.
  settle(answers) {
    const settled = this.waiting.filter((one) => one.id in answers).map((one) => [one, answers[one.id]]);
    this.waiting = this.waiting.filter((one) => !(one.id in answers));
    if (this.flying && ![...this.flying].some((id) => this.waiting.some((one) => one.id === id))) {
      this.flying = null;
      this.tries = 0;
      clearTimeout(this.timer);
    }
    return settled;
  }
}
