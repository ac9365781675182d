// What the reviewer did, in order, until the server says that it is done. An action keeps its id however often it is sent,
// and the server does it once: so nothing is lost and nothing is done twice, whatever the line does.
import { newId } from "./server.js";

const AGAIN_MS = 2000;
const REPLACES = new Set(["draft", "alive"]); // only the last of these matters
const BY_ITSELF = new Set([...REPLACES, "reveal"]); // what a reviewer asks for does not wait for the answer to these

export class Outbox {
  constructor(exchange) {
    this.exchange = exchange; // sends actions; settles and returns true once they are answered
    this.waiting = [];
    this.flying = null;
    this.stopped = false; // nobody is signed in who may send it
  }

  post(kind, body = {}) {
    const action = { id: newId(), kind, ...body };
    if (REPLACES.has(kind)) {
      const same = (one) => one.kind === kind && one.case === action.case && !this.flying?.has(one.id);
      this.waiting = this.waiting.filter((one) => !same(one));
    }
    this.waiting.push(action);
    this.send();
    return action.id;
  }

  waits(kind) {
    return this.waiting.some((one) => one.kind === kind);
  }

  drop(kind) {
    this.waiting = this.waiting.filter((one) => one.kind !== kind || this.flying?.has(one.id));
  }

  async send() {
    if (this.stopped || !this.waiting.length || (this.flying && !this.overtakes())) return;
    clearTimeout(this.timer);
    const flying = (this.flying = new Set(this.waiting.map((one) => one.id)));
    const heard = await this.exchange(this.waiting);
    if (this.flying !== flying) return; // overtaken: the later one sends what is left
    this.flying = null;
    if (heard) this.send();
    else if (!this.stopped) this.timer = setTimeout(() => this.send(), AGAIN_MS);
  }

  // Whether a reviewer waits for something while only what the page asked by itself is on its way.
  overtakes() {
    const first = this.waiting.filter((one) => !BY_ITSELF.has(one.kind));
    return first.length > 0 && !first.some((one) => this.flying.has(one.id));
  }

  // The answers; returns those that were waited for, by their action.
  settle(answers) {
    const settled = this.waiting.filter((one) => one.id in answers).map((one) => [one, answers[one.id]]);
    this.waiting = this.waiting.filter((one) => !(one.id in answers));
    return settled;
  }
}
