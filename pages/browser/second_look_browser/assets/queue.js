// The left of the inbox: how many wait, the priorities, the list. It asks the server every few seconds by itself, and what
// it is told it writes into the rows that are there: nothing else on the page moves, and the focus stays where it is.
// All words come from the server; they are set as text, never as markup.

import { component, fill, make, placer, refill } from "./dom.js";
import { tried } from "./drafts.js";
import { ask, inAddress, sayGoodbye, setInAddress } from "./server.js";

const SOUND = "second-look-sound";
const BASE = "Second Look";
const EVERY_MS = 3000; // what is new is seen within five seconds
const MOST = 200; // rows that the server lists, and cases that it finds
const ORDERS = [["urgent", "Most urgent"], ["longest", "Longest in queue"], ["newest", "Newest"]];
const ORDER = "N gives the most urgent unassigned case, whatever the order";
const SEARCH = "Search ID, upload, group";

const COUNTED = 1000; // what is open is counted as far as this
const count = (number) => (number > COUNTED ? `${COUNTED.toLocaleString("en")}+` : number.toLocaleString("en"));
const options = (pairs) => pairs.map(([value, words]) => make("option", { value }, words));
const tell = (event, detail) => document.dispatchEvent(new CustomEvent(`second-look-${event}`, { detail }));

// Two short tones by Web Audio. A browser lets a page sound only after somebody pressed something on it.
class Sound {
  constructor() {
    this.on = tried(() => localStorage.getItem(SOUND)) === "on";
    this.gone = new AbortController();
    const heard = { capture: true, signal: this.gone.signal };
    for (const kind of ["pointerdown", "keydown"]) document.addEventListener(kind, () => this.wake(), heard);
  }

  async wake() {
    if (!this.on) return;
    this.context ??= new AudioContext();
    await this.context.resume();
  }

  set(on) {
    this.on = on;
    tried(() => localStorage.setItem(SOUND, on ? "on" : "off"));
    return this.wake();
  }

  play() {
    if (!this.on || this.context?.state !== "running") return;
    for (const [frequency, after] of [[660, 0], [880, 0.22]]) {
      const at = this.context.currentTime + after;
      const tone = new OscillatorNode(this.context, { frequency });
      const volume = new GainNode(this.context, { gain: 0 });
      volume.gain.setValueCurveAtTime([0, 0.25, 0.06, 0.02, 0], at, 0.2);
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

// "(3) Second Look": Streamlit sets the title when a page runs, so it is set again whenever somebody else did.
class Title {
  constructor() {
    this.watch = new MutationObserver(() => this.show(this.urgent));
    this.watch.observe(document.head, { childList: true, subtree: true, characterData: true });
  }

  show(urgent) {
    this.urgent = urgent;
    const plain = document.title.replace(/^\(\d+\) /, "") || BASE;
    const wanted = urgent ? `(${urgent}) ${plain}` : plain;
    if (document.title !== wanted) document.title = wanted;
  }

  close() {
    this.watch.disconnect();
    this.show(0);
  }
}

class Queue {
  constructor(root) {
    this.root = root;
    this.sound = new Sound();
    this.title = new Title();
    this.rows = new Map();
    this.wanted = null; // how many rows; null: as many as the page asked for
    this.chosen = null; // the ids chosen to be given to a colleague; null: a press opens a case
    this.held = null; // a list that waits until nobody is in the old one
    this.failures = 0;
    this.build();
    this.drawSound();
    this.worker = new Worker(new URL("./tick.js", import.meta.url));
    this.worker.onmessage = () => this.ask();
    this.worker.postMessage(EVERY_MS);
    this.gone = new AbortController();
    const heard = { signal: this.gone.signal };
    document.addEventListener("keydown", (event) => this.onKey(event), heard);
    document.addEventListener("second-look-done", () => this.ask(), heard);
    window.addEventListener("pagehide", sayGoodbye, heard);
  }

  build() {
    const place = placer(this);
    const button = (name, words, onclick, look = "link") => place("button", name, { type: "button", class: look, onclick }, words);
    const typed = () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.ask(), 250);
    };
    const sorted = () => {
      setInAddress("sort", this.sort.value === "urgent" ? "" : this.sort.value);
      this.ask();
    };
    const more = () => {
      this.wanted = Math.min(MOST, (this.wanted ?? 8) + 32);
      this.ask();
    };
    const search = { type: "search", placeholder: `${SEARCH}   /`, "aria-label": SEARCH, autocomplete: "off", oninput: typed };
    const list = {
      class: "rows",
      "aria-label": "Cases to review",
      onpointerenter: () => (this.pointed = true),
      onpointermove: () => (this.pointed = true),
      onpointerleave: () => this.showHeld(false),
    };
    place("section", "queue", { "aria-label": "Queue" },
      make("header", {}, make("h1", {}, "Review"), place("p", "waits")),
      place("div", "still", { role: "status", hidden: true }),
      place("p", "words"),
      place("div", "pills", { role: "group", "aria-label": "Priorities" }),
      place("div", "said", { role: "status", "aria-live": "assertive" }),
      place("div", "tools", {},
        place("input", "find", search),
        place("label", "check", {}, place("input", "inTexts", { type: "checkbox", onchange: () => this.ask() }), "search text")),
      make("div", { class: "tools" },
        place("select", "sort", { "aria-label": "Order of the list", title: ORDER, onchange: sorted }, options(ORDERS)),
        button("give", "Assign to …", () => this.choosing(true), "small")),
      place("div", "giving", { role: "group", "aria-label": "Assign cases to a colleague", hidden: true },
        make("p", {}, "Choose cases in the list."),
        make("div", { class: "tools" },
          place("select", "colleagues", { "aria-label": "Colleague", onchange: () => this.giveWords() }),
          button("giveNow", "", () => this.assign(), "small"),
          button("stop", "Cancel", () => this.choosing(false)))),
      place("ol", "list", list),
      button("changed", "", () => this.showHeld(true), "changed"),
      place("p", "foot", {}, place("span", "of"), " ", button("more", "", more)),
      place("progress", "bar", { max: 1, value: 0, "aria-label": "Reviewed today" }),
      place("details", "disputed", { hidden: true }),
      make("p", { class: "foot" },
        place("p", "live"),
        button("soundOn", "", () => this.setSound(!this.sound.on)), " · ",
        button("test", "Test sound", () => this.setSound(true).then(() => this.sound.play()))));
    this.changed.hidden = true;
    this.list.addEventListener("focusout", () => setTimeout(() => this.showHeld(false), 0));
    this.root.append(this.queue);
  }

  setSound(on) {
    const woken = this.sound.set(on);
    this.drawSound();
    return woken;
  }

  drawSound() {
    this.soundOn.textContent = `Sound for P0: ${this.sound.on ? "on" : "off"}`;
    this.soundOn.ariaPressed = this.sound.on;
  }

  update({ data, setTriggerValue }) {
    this.data = data;
    this.run = setTriggerValue;
    this.sort.value = inAddress("sort") || "urgent";
    this.check.hidden = !data.may_search_texts;
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
    } else {
      this.queue.classList.add("stale");
      this.live.textContent = `Not live: no answer since ${this.at ?? "the page was opened"}; trying again. `;
    }
    if (key !== looksFor()) this.ask(); // something else is looked for by now
  }

  // It moves the list: not under the pointer or the focus of somebody who is about to choose.
  showStill(lines) {
    if (this.still.hidden !== (lines.length === 0) && this.rows.size && this.inside()) return;
    this.still.hidden = lines.length === 0;
    refill(this.still, lines, () => lines.map((line) => make("p", {}, line)));
  }

  show(now, key) {
    this.at = now.at;
    this.queue.classList.remove("stale");
    this.waits.textContent = `${count(now.waits)} in queue${now.late ? ` · ${now.late}` : ""}`;
    this.waits.classList.toggle("late", Boolean(now.late));
    this.words.textContent = now.words;
    tell("waits", { words: now.empty, hidden: now.hidden }); // for a desk that is empty
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
    if (came && now.p0) this.sound.play();
    this.comes = Boolean(now.p0) && (came || this.comes);
    const words = this.comes ? now.p0 : "";
    if (came || this.said.textContent !== words) this.said.textContent = words; // set anew, it is read out again
    if (this.newest === undefined || now.newest === null || came) this.newest = now.newest;
  }

  showPills(pills) {
    const press = (priority) => () => this.choose(priority);
    const bare = ({ priority }, at) => make("button", { type: "button", class: `pill t${at}`, onclick: press(priority) });
    if (!this.pills.firstChild) fill(this.pills, pills.map(bare));
    pills.forEach((pill, at) => {
      const button = this.pills.children[at];
      button.ariaPressed = this.priorities.includes(pill.priority);
      refill(button, pill, () => [
        `${pill.mark} ${pill.priority} ${pill.meaning} `,
        make("b", {}, count(pill.open)),
        pill.late && make("span", { class: "late" }, ` · ${pill.late}`),
      ]);
    });
  }

  choose(priority) {
    const chosen = new Set(this.priorities);
    if (!chosen.delete(priority)) chosen.add(priority);
    setInAddress("priorities", [...chosen].sort().join(","));
    tell("filter");
    this.ask();
  }

  assign() {
    tell("act", { kind: "assign", to: this.colleagues.value, cases: [...this.chosen] }); // by the desk, in order with all else
    this.choosing(false);
  }

  showColleagues() {
    const people = [["", "Choose a colleague"], ...this.data.colleagues];
    const chosen = this.colleagues.value; // kept where they are still there: nobody becomes somebody else
    if (!refill(this.colleagues, people, () => options(people))) return;
    this.colleagues.value = people.some(([id]) => id === chosen) ? chosen : "";
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

  giveWords() {
    const number = this.chosen?.size ?? 0;
    this.giveNow.textContent = `Assign ${number} case${number === 1 ? "" : "s"}`;
    this.giveNow.disabled = !number || !this.colleagues.value;
  }

  mark(item) {
    const button = item.firstChild;
    const on = this.chosen?.has(item.dataset.id) ?? false;
    item.classList.toggle("chosen", on);
    button.ariaPressed = this.chosen && on;
    button.ariaDisabled = !this.chosen && !item.free;
  }

  // A pointer left lying on the list while its owner works by keys is not in it.
  inside() {
    const focused = this.root.activeElement ?? document.activeElement;
    return (this.pointed && this.list.matches(":hover")) || this.list.contains(focused);
  }

  // What others change waits while somebody is in the list; what was ``sought`` by the person here is shown at once.
  offer(now, sought) {
    const same = now.rows.length === this.rows.size && now.rows.every((row, at) => this.list.children[at]?.dataset.id === row.id);
    if (same || sought || !this.rows.size || !this.inside()) return this.placeRows(now);
    this.held = now;
    const fresh = now.rows.filter((row) => !this.rows.has(row.id)).length;
    this.changed.textContent = fresh ? `${fresh} new in the list · show` : "The list has changed · show";
    this.changed.hidden = false;
    for (const row of now.rows) if (this.rows.has(row.id)) this.drawRow(this.rows.get(row.id), row);
  }

  showHeld(pressed) {
    if (this.held && (pressed || !this.inside())) this.placeRows(this.held);
  }

  placeRows(now) {
    this.held = null;
    this.changed.hidden = true;
    const wanted = new Set(now.rows.map((row) => row.id));
    for (const [id, item] of this.rows) {
      if (wanted.has(id)) continue;
      item.remove();
      this.rows.delete(id);
    }
    now.rows.forEach((row, at) => {
      const press = { type: "button", onclick: () => this.take(item) };
      const item = this.rows.get(row.id) ?? make("li", { "data-id": row.id }, make("button", press));
      this.rows.set(row.id, item);
      this.drawRow(item, row);
      if (this.list.children[at] !== item) this.list.insertBefore(item, this.list.children[at] ?? null);
    });
  }

  drawRow(item, row) {
    const button = item.firstChild;
    const here = row.mine && inAddress("case") === row.id; // theirs, and on this page
    item.free = row.free && this.data.may && !here;
    item.className = `t${row.priority[1]}${row.late ? " over" : ""}${here ? " here" : ""}`;
    button.ariaCurrent = here ? "true" : null;
    const about = [row.why, row.age, here ? "open here" : row.state].filter(Boolean).join(" · ");
    refill(button, [row, here], () => [
      make("span", { class: "priority" }, `${row.mark} ${row.priority} ${row.meaning}`), " ",
      make("b", {}, row.name), " ",
      make("span", { class: "left" }, row.left),
      make("span", { class: "why" }, about),
    ]);
    this.mark(item);
  }

  // A press on a row opens its case, or chooses it to be given away.
  take(item) {
    const { id } = item.dataset;
    if (this.chosen) {
      if (!this.chosen.delete(id)) this.chosen.add(id);
      this.mark(item);
      this.giveWords();
    } else if (item.free) {
      item.firstChild.blur(); // the desk takes the focus to the text
      tell("act", { kind: "take", case: id });
    }
  }

  showDisputed(cases) {
    this.disputed.hidden = !cases.length;
    const words = (each) => `${each.priority} · ${each.name} · ${each.left}${each.mine ? " · reviewed by you" : ""}`;
    refill(this.disputed, cases, () => [
      make("summary", {}, `${cases.length}${cases.length === 5 ? " or more" : ""} to decide: reviewers disagree`),
      cases.map((each) => make("a", { href: each.href }, words(each))),
    ]);
  }

  onKey(event) {
    this.pointed = false;
    setTimeout(() => this.showHeld(false), 0);
    if (!this.data?.keys || event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.composedPath()[0];
    if (target === this.find && event.key === "Enter") this.move(1);
    if (target === this.find && event.key === "Escape") {
      this.find.value = "";
      this.find.blur();
      this.ask();
    }
    if (target.isContentEditable || target.matches?.("input, textarea, select")) return;
    if (event.key === "/" && this.browse) {
      event.preventDefault();
      this.find.focus();
    }
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
    this.queue.remove();
  }
}

export default component(Queue);
