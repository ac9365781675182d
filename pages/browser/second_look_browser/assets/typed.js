// What is typed into Streamlit's own fields, kept in this browser from the first key on and until it is recorded: it
// outlives a reload, a server that starts again and a cut line.

import { component } from "./dom.js";
import { forget, forgetOld, keepHere, keptHere } from "./drafts.js";

const MARK = "st-key-";

class Typed {
  constructor() {
    this.known = new WeakSet();
    this.gone = new AbortController();
    this.observer = new MutationObserver(() => this.fill());
    document.addEventListener("input", (event) => this.keep(event.target), { signal: this.gone.signal });
    this.observer.observe(document.body, { childList: true, subtree: true });
    forgetOld();
  }

  update({ me, fields, recorded }) {
    this.me = me;
    this.places = fields.map((start) => `[class*="${MARK}${start}"]`).join(",");
    for (const name of recorded) forget(me, name);
    this.fill();
  }

  // The name of the field that this is, if it is one of ours.
  nameOf(input) {
    const classes = [...(input.closest(this.places)?.classList ?? [])];
    return classes.find((each) => each.startsWith(MARK))?.slice(MARK.length);
  }

  keep(input) {
    const name = this.nameOf(input);
    if (!name) return;
    if (input.value) keepHere(this.me, name, { rev: Date.now(), text: input.value });
    else forget(this.me, name);
  }

  fill() {
    for (const input of document.querySelectorAll(`:is(${this.places}) input`)) {
      if (this.known.has(input)) continue;
      this.known.add(input);
      const kept = keptHere(this.me, this.nameOf(input));
      if (kept?.text && !input.value) write(input, kept.text);
      if (!kept) this.keep(input); // typed before we were here
    }
  }

  close() {
    this.gone.abort();
    this.observer.disconnect();
  }
}

// As if it had been typed and the field left, so that the server has it before a button is pressed.
function write(input, text) {
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(input, text);
  input.dispatchEvent(new Event("input", { bubbles: true }));
  input.dispatchEvent(new FocusEvent("focusout", { bubbles: true }));
}

export default component(Typed);
