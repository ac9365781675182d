// The left of the inbox: how many wait, the priorities, the list. It asks the server every few seconds by itself, and what
// it is told it writes into the rows that are there: nothing else on the page moves, and the focus stays where it is.
// All words come from the server; they are set as text, never as markup.

import { component, make } from "./dom.js";
import { ask, inAddress, sayGoodbye, setInAddress } from "./server.js";

const SOUND = "second-look-sound";
const BASE = "Second Look";
const EVERY_MS = 3000; // what is new is seen within five seconds
const MOST = 200; // rows that the server lists, and cases that it finds
const ORDERS = [["urgent", "Most urgent"], ["longest", "Longest in queue"], ["newest", "Newest"]];

const COUNTED = 1000; // what is open is counted as far as this
const count = (number) => (number > COUNTED ? `${COUNTED.toLocaleString("en")}+` : number.toLocaleString("en"));

const button = (words, press, look = "link") => make("button", { type: "button", class: look, onclick: press }, words);

class Sound {
  // Two short tones by Web Audio. A browser lets a page sound only after somebody pressed something on it.
  constructor() {
    this.context = null;
    try { this.on = localStorage.getItem(SOUND) === "on"; } catch { this.on = false; }
    this.gone = new AbortController();
    if (this.on) for (const kind of ["pointerdown", "keydown"]) document.addEventListener(kind, () => this.wake(), { capture: true, signal: this.gone.signal });
  }
  wake() {
    if (!this.on) return;
    this.context ??= new AudioContext();
    if (this.context.state === "suspended") this.context.resume();
  }
  set(on) {
    this.on = on;
    try { localStorage.setItem(SOUND, on ? "on" : "off"); } catch { /* a browser that keeps nothing */ }
    this.wake();
  }
  play() {
    if (!this.on || this.context?.state !== "running") return;
    for (const [pitch, after] of [[660, 0], [880, 0.22]]) {
      const tone = this.context.createOscillator(), volume = this.context.createGain(), at = this.context.currentTime + after;
      tone.frequency.value = pitch;
      volume.gain.setValueAtTime(0.0001, at);
      volume.gain.exponentialRampToValueAtTime(0.25, at + 0.02);
      volume.gain.exponentialRampToValueAtTime(0.0001, at + 0.2);
      tone.connect(volume).connect(this.context.destination);
      tone.start(at);
      tone.stop(at + 0.22);
    }
  }
  close() {
    this.gone.abort();
    this.context?.close();
  }
}

class Title {
  // "(3) Second Look": Streamlit sets the title when a page runs, so it is set again whenever somebody else did.
  constructor() {
    this.urgent = 0;
    this.watch = new MutationObserver(() => this.write());
    this.watch.observe(document.head, { childList: true, subtree: true, characterData: true });
  }
  show(urgent) {
    this.urgent = urgent;
    this.write();
  }
  write() {
    const plain = document.title.replace(/^\(\d+\) /, "") || BASE;
    const wanted = this.urgent ? `(${this.urgent}) ${plain}` : plain;
    if (document.title !== wanted) document.title = wanted;
  }
  close() {
    this.watch.disconnect();
    document.title = document.title.replace(/^\(\d+\) /, "");
  }
}

class Queue {
  constructor(root) {
    this.root = root;
    this.sound = new Sound();
    this.title = new Title();
    this.rows = new Map();
    this.wanted = null; // how many rows; null: as many as the page asked for
    this.held = null; // a list that waits until nobody is in the old one
    this.newest = undefined;
    this.failures = 0;
    this.build();
    this.worker = new Worker(new URL("./tick.js", import.meta.url));
    this.worker.onmessage = () => this.ask();
    this.worker.postMessage(EVERY_MS);
    this.gone = new AbortController();
    const options = { signal: this.gone.signal };
    document.addEventListener("keydown", (event) => this.onKey(event), options);
    document.addEventListener("second-look-done", () => this.ask(), options);
    window.addEventListener("pagehide", sayGoodbye, options);
  }

  build() {
    this.waits = make("p", { class: "waits" });
    this.words = make("p", { class: "words" });
    this.still = make("div", { class: "still", role: "status", hidden: true });
    this.pills = make("div", { class: "pills", role: "group", "aria-label": "Priorities" });
    this.alert = make("div", { class: "said", role: "status", "aria-live": "assertive" });
    this.changed = button("", () => this.showHeld(true), "changed");
    this.changed.hidden = true;
    const typed = () => { clearTimeout(this.typing); this.typing = setTimeout(() => this.ask(), 250); };
    const sorted = () => { setInAddress("sort", this.sort.value === "urgent" ? "" : this.sort.value); this.ask(); };
    const [sought, order] = ["Search ID, upload, group", "N gives the most urgent unassigned case, whatever the order"];
    this.find = make("input", { type: "search", placeholder: `${sought}   /`, "aria-label": sought, autocomplete: "off", oninput: typed });
    this.inTexts = make("input", { type: "checkbox", onchange: () => this.ask() });
    this.inTextsWords = make("label", { class: "check" }, this.inTexts, "search text");
    this.sort = make("select", { "aria-label": "Order of the list", title: order, onchange: sorted },
      ...ORDERS.map(([value, words]) => make("option", { value }, words)));
    this.tools = make("div", { class: "tools" }, this.find, this.inTextsWords);
    this.buildGiving();
    this.list = make("ol", { class: "rows", "aria-label": "Cases to review" });
    for (const kind of ["pointerenter", "pointermove"]) this.list.addEventListener(kind, () => { this.pointed = true; });
    this.list.addEventListener("pointerleave", () => this.showHeld(false));
    this.list.addEventListener("focusout", () => setTimeout(() => this.showHeld(false), 0));
    this.more = button("", () => { this.wanted = Math.min(MOST, (this.wanted ?? 8) + 32); this.ask(); });
    this.of = make("span");
    this.foot = make("p", { class: "foot" }, this.of, " ", this.more);
    this.bar = make("progress", { max: 1, value: 0, "aria-label": "Reviewed today" });
    this.disputed = make("details", { class: "disputed", hidden: true });
    this.live = make("p", { class: "live" });
    this.soundOn = button("", () => this.setSound(!this.sound.on));
    const test = button("Test sound", () => { this.setSound(true); this.sound.context.resume().then(() => this.sound.play()); });
    this.soundWords();
    this.root.append(
      make("section", { class: "queue", "aria-label": "Queue" },
        make("header", {}, make("h1", {}, "Review"), this.waits), this.still, this.words, this.pills, this.alert, this.tools,
        make("div", { class: "tools" }, this.sort, this.give), this.giving, this.list, this.changed, this.foot, this.bar, this.disputed,
        make("p", { class: "foot" }, this.live, this.soundOn, " · ", test)));
  }

  setSound(on) {
    this.sound.set(on);
    this.soundWords();
  }

  soundWords() {
    this.soundOn.textContent = this.sound.on ? "Sound for P0: on" : "Sound for P0: off";
    this.soundOn.setAttribute("aria-pressed", String(this.sound.on));
  }

  update({ data, setTriggerValue }) {
    this.data = data;
    this.run = setTriggerValue;
    this.sort.value = inAddress("sort") || "urgent";
    this.inTextsWords.hidden = !data.may_search_texts;
    this.showColleagues();
    this.ask();
  }

  get priorities() {
    return inAddress("priorities").split(",").filter(Boolean);
  }

  // What is looked for beside what the address says.
  sought() {
    const find = this.find.value.trim();
    return { ...(find && { find }), ...(find && this.inTexts.checked && { texts: "1" }), ...(this.wanted && { rows: this.wanted }) };
  }

  async ask() {
    if (this.asking || !this.data) return;
    const looksFor = () => JSON.stringify([this.sought(), ...["priorities", "sort", "batch"].map(inAddress)]);
    const key = looksFor();
    this.asking = true;
    const { status, said } = await ask("list", this.sought());
    this.asking = false;
    if (this.closed) return;
    if (status === 200) {
      this.failures = 0;
      if (key === looksFor()) this.show(said, key);
    } else if (status === 401 || status === 403) {
      if (this.failures++ < 3) this.run("run", Date.now());
    } else this.lost();
    if (key !== looksFor()) this.ask(); // something else is looked for by now
  }

  // It moves the list: not under the pointer or the focus of somebody who is about to choose.
  showStill(lines) {
    if (this.still.hidden !== (lines.length === 0) && this.rows.size && this.inside()) return;
    this.still.hidden = lines.length === 0;
    if (this.still.textContent === lines.join("")) return;
    this.still.replaceChildren(...lines.map((line) => make("p", {}, line)));
  }

  lost() {
    this.failures += 1;
    this.root.querySelector(".queue").classList.add("stale");
    this.live.textContent = `Not live: no answer since ${this.at ?? "the page was opened"}; trying again. `;
  }

  show(now, key) {
    this.at = now.at;
    this.root.querySelector(".queue").classList.remove("stale");
    this.waits.textContent = `${count(now.waits)} in queue${now.late ? ` · ${now.late}` : ""}`;
    this.waits.classList.toggle("late", Boolean(now.late));
    this.words.textContent = now.words;
    document.dispatchEvent(new CustomEvent("second-look-waits", { detail: { words: now.empty, hidden: now.hidden } })); // for a desk that is empty
    this.showStill(now.still);
    this.live.textContent = "Live. ";
    this.live.title = `As of ${now.at}`;
    this.title.show(now.urgent);
    this.showPills(now.pills);
    this.browse = now.browse;
    this.tools.hidden = this.sort.hidden = !now.browse;
    this.give.hidden = !now.browse || !this.data.colleagues.length || Boolean(this.chosen);
    this.announce(now);
    this.showDisputed(now.disputed);
    const rest = now.of - now.rows.length;
    this.of.textContent = now.browse ? this.ofWords(now) : "";
    this.more.textContent = `Show ${Math.min(32, rest)} more`;
    this.more.hidden = rest <= 0 || now.rows.length >= MOST || !now.browse;
    this.bar.max = Math.max(1, now.done + now.waits);
    this.bar.value = now.done;
    this.bar.title = `${now.read}; ${count(now.waits)} in queue`;
    this.offer(now, key !== this.shownFor);
    this.shownFor = key;
  }

  ofWords(now) {
    if (!this.find.value.trim()) return now.of ? `${now.rows.length} of ${count(now.of)}` : "";
    const found = now.of < MOST ? count(now.of) : `${MOST} or more`;
    const read = now.texts_read ? ` Searched the texts of the ${now.texts_read.toLocaleString("en")} most urgent cases only.` : "";
    return (now.of ? `${now.rows.length} of ${found} found.` : "Nothing found.") + read;
  }

  // A P0 case that has come in is said until none is free any more: read, or in other hands.
  announce(now) {
    const came = this.newest !== undefined && now.newest !== null && (this.newest === null || now.newest > this.newest);
    if (came && now.p0) {
      this.comes = true;
      this.sound.play();
    } else if (!now.p0) this.comes = false;
    const words = this.comes ? now.p0 : "";
    if (came || this.alert.textContent !== words) this.alert.textContent = words; // set anew, it is read out again
    if (this.newest === undefined || now.newest === null || came) this.newest = now.newest;
  }

  showPills(pills) {
    if (!this.pillButtons) {
      this.pillButtons = pills.map(() => make("button", { type: "button" }));
      this.pills.append(...this.pillButtons);
    }
    pills.forEach((pill, at) => {
      const button = this.pillButtons[at];
      button.className = `pill t${at}`;
      button.setAttribute("aria-pressed", String(this.priorities.includes(pill.priority)));
      button.replaceChildren(`${pill.mark} ${pill.priority} ${pill.meaning} `, make("b", {}, count(pill.open)));
      if (pill.late) button.append(make("span", { class: "late" }, ` · ${pill.late}`));
      button.onclick = () => this.choose(pill.priority);
    });
  }

  choose(priority) {
    const priorities = this.priorities.includes(priority) ? this.priorities.filter((each) => each !== priority) : [...this.priorities, priority].sort();
    setInAddress("priorities", priorities.join(","));
    document.dispatchEvent(new CustomEvent("second-look-filter"));
    this.ask();
  }

  // Done by the desk, in order with all else.
  act(detail) {
    document.dispatchEvent(new CustomEvent("second-look-act", { detail }));
  }

  buildGiving() {
    this.chosen = null; // the ids chosen to be given to a colleague; null: a press opens a case
    this.give = button("Assign to …", () => this.choosing(true), "small");
    this.colleagues = make("select", { "aria-label": "Colleague", onchange: () => this.giveWords() });
    const assign = () => {
      this.act({ kind: "assign", to: this.colleagues.value, cases: [...this.chosen] });
      this.choosing(false);
    };
    this.giveNow = button("", assign, "small");
    const stop = button("Cancel", () => this.choosing(false));
    this.giving = make("div", { class: "giving", role: "group", "aria-label": "Assign cases to a colleague", hidden: true },
      make("p", {}, "Choose cases in the list."), make("div", { class: "tools" }, this.colleagues, this.giveNow, stop));
  }

  showColleagues() {
    const state = JSON.stringify(this.data.colleagues);
    if (this.colleaguesState === state) return;
    this.colleaguesState = state;
    const chosen = this.colleagues.value; // kept where they are still there: nobody becomes somebody else
    this.colleagues.replaceChildren(
      make("option", { value: "" }, "Choose a colleague"),
      ...this.data.colleagues.map(([id, name]) => make("option", { value: id }, name)));
    if (this.data.colleagues.some(([id]) => id === chosen)) this.colleagues.value = chosen;
    this.giveWords();
  }

  choosing(on) {
    this.chosen = on ? new Set() : null;
    this.colleagues.value = "";
    this.giving.hidden = !on;
    this.give.hidden = on;
    for (const item of this.rows.values()) this.mark(item);
    this.giveWords();
  }

  toggle(item) {
    const id = item.dataset.id;
    if (!this.chosen.delete(id)) this.chosen.add(id);
    this.mark(item);
    this.giveWords();
  }

  giveWords() {
    const number = this.chosen?.size ?? 0;
    this.giveNow.textContent = `Assign ${number} case${number === 1 ? "" : "s"}`;
    this.giveNow.disabled = !number || !this.colleagues.value;
  }

  mark(item) {
    const button = item.firstChild, on = this.chosen?.has(item.dataset.id) ?? false;
    item.classList.toggle("chosen", on);
    if (!this.chosen) button.removeAttribute("aria-pressed");
    else button.setAttribute("aria-pressed", String(on));
    button.setAttribute("aria-disabled", String(!this.chosen && !item.free));
  }

  // A pointer left lying on the list while its owner works by keys is not in it.
  inside() {
    const focused = this.root.activeElement ?? document.activeElement;
    return (this.pointed && this.list.matches(":hover")) || this.list.contains(focused);
  }

  // What others change waits while somebody is in the list; what was ``sought`` by the person here is shown at once.
  offer(now, sought) {
    const same = now.rows.length === this.rows.size && now.rows.every((row, at) => this.list.children[at]?.dataset.id === row.id);
    if (same || sought || !this.rows.size || !this.inside()) return this.place(now);
    this.held = now;
    const fresh = now.rows.filter((row) => !this.rows.has(row.id)).length;
    this.changed.textContent = fresh ? `${fresh} new in the list · show` : "The list has changed · show";
    this.changed.hidden = false;
    now.rows.filter((row) => this.rows.has(row.id)).forEach((row) => this.fill(this.rows.get(row.id), row));
  }

  showHeld(pressed) {
    if (this.held && (pressed || !this.inside())) this.place(this.held);
  }

  place(now) {
    this.held = null;
    this.changed.hidden = true;
    const wanted = new Set(now.rows.map((row) => row.id));
    for (const [id, item] of this.rows) if (!wanted.has(id)) { item.remove(); this.rows.delete(id); }
    now.rows.forEach((row, at) => {
      let item = this.rows.get(row.id);
      if (!item) {
        item = make("li", { "data-id": row.id }, button("", () => this.take(item), null));
        this.rows.set(row.id, item);
      }
      this.fill(item, row);
      if (this.list.children[at] !== item) this.list.insertBefore(item, this.list.children[at] ?? null);
    });
  }

  fill(item, row) {
    const button = item.firstChild;
    const here = row.mine && inAddress("case") === row.id; // theirs, and on this page
    const takeable = row.free && this.data.may && !here;
    const state = JSON.stringify([row, here, takeable]);
    if (item.state === state) return;
    item.state = state;
    item.free = takeable;
    item.className = `t${row.priority[1]}${row.late ? " over" : ""}${here ? " here" : ""}`;
    button.setAttribute("aria-disabled", String(!takeable));
    if (here) button.setAttribute("aria-current", "true"); else button.removeAttribute("aria-current");
    const said = here ? "open here" : row.state;
    button.replaceChildren(
      make("span", { class: "priority" }, `${row.mark} ${row.priority} ${row.meaning}`), " ", make("b", {}, row.name), " ",
      make("span", { class: "left" }, row.left),
      make("span", { class: "why" }, [row.why, row.age, said].filter(Boolean).join(" · ")));
    this.mark(item);
  }

  take(item) {
    if (this.chosen) this.toggle(item);
    else if (item.free) {
      item.firstChild.blur(); // the desk takes the focus to the text
      this.act({ kind: "take", case: item.dataset.id });
    }
  }

  showDisputed(cases) {
    const state = JSON.stringify(cases);
    if (this.disputedState === state) return;
    this.disputedState = state;
    this.disputed.hidden = !cases.length;
    this.disputed.replaceChildren(
      make("summary", {}, `${cases.length}${cases.length === 5 ? " or more" : ""} to decide: reviewers disagree`),
      ...cases.map((each) => make("a", { href: each.href }, `${each.priority} · ${each.name} · ${each.left}${each.mine ? " · reviewed by you" : ""}`)));
  }

  onKey(event) {
    this.pointed = false;
    setTimeout(() => this.showHeld(false), 0);
    if (!this.data?.keys || event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.composedPath()[0];
    if (target.isContentEditable || target.matches?.("input, textarea, select")) {
      if (event.key === "Escape" && target === this.find) { this.find.value = ""; this.find.blur(); this.ask(); }
      if (event.key === "Enter" && target === this.find) this.move(1);
      return;
    }
    if (event.key === "/" && this.browse) { event.preventDefault(); this.find.focus(); }
    const step = { j: 1, k: -1 }[event.key.toLowerCase()];
    if (step) this.move(step);
  }

  move(step) {
    const buttons = [...this.list.querySelectorAll("button")];
    const at = buttons.indexOf(this.root.activeElement ?? document.activeElement);
    buttons[at < 0 ? 0 : Math.max(0, Math.min(buttons.length - 1, at + step))]?.focus();
  }

  close() {
    this.closed = true; // an answer may still be on its way
    this.worker.terminate();
    this.gone.abort();
    clearTimeout(this.typing);
    this.sound.close();
    this.title.close();
    this.root.querySelector(".queue")?.remove();
  }
}

export default component(Queue);
