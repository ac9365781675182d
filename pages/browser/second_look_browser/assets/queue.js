// The left of the inbox: how many wait, the priorities, the list. What it is told it writes into the rows that are there:
// nothing else on the page moves, and the focus stays where it is.
import { h, patch } from "./dom.js";
import { tried } from "./drafts.js";
import { ask, inAddress, setInAddress } from "./server.js";

const SOUND = "second-look-sound";
const BASE = "Second Look";
const TYPING_MS = 250;
const MOST = 200; // rows that the server lists, and cases that it finds
const ORDERS = [["urgent", "Most urgent"], ["longest", "Longest in queue"], ["newest", "Newest"]];
const ORDER = "N gives the most urgent unassigned case, whatever the order";
const SEARCH = "Search ID, upload, group";
const NOTHING = { still: [], pills: [], rows: [], disputed: [], of: 0, waits: 0, done: 0 }; // before the first answer

// The colleague to give cases to, and the ids of these; null: a press opens a case.
const NOBODY = { to: "", chosen: null };
const COUNTED = 1000; // what is open is counted as far as this
const count = (number) => (number > COUNTED ? `${COUNTED.toLocaleString("en")}+` : number.toLocaleString("en"));
const options = (pairs) => pairs.map(([value, words]) => h("option", { value }, words));
const button = (words, onclick, look = "link", more = {}) => h("button", { type: "button", class: look, onclick, ...more }, words);

// Two short tones by Web Audio. A browser lets a page sound only after somebody pressed something on it.
class Sound {
  on = tried(() => localStorage.getItem(SOUND)) === "on";

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
}

export class Queue {
  constructor(inbox, root) {
    this.inbox = inbox;
    this.root = root;
    this.sound = new Sound();
    this.now = NOTHING; // what the server said last
    this.rows = NOTHING.rows; // those that stand there, also while what was said last waits until nobody is in the list
    this.searched = this.unfolded = false;
    this.find = this.said = "";
    this.wanted = 0; // how many rows; as many as the page begins with, until more are asked for
    Object.assign(this, NOBODY);
    this.still = [];
    this.failures = 0;
    this.gone = new AbortController();
    const { signal } = this.gone;
    document.addEventListener("keydown", (event) => this.onKey(event), { signal });
    const early = { capture: true, signal };
    for (const kind of ["pointerdown", "keydown"]) document.addEventListener(kind, () => this.sound.wake(), early);
  }

  mounted() {
    const { colleagues } = this.inbox.page;
    if (!colleagues.some(([id]) => id === this.to)) this.to = ""; // nobody becomes somebody else
    this.draw();
    this.ask();
  }

  close() {
    this.gone.abort();
    clearTimeout(this.typing);
    this.sound.context?.close();
  }

  // "(3) Second Look": Streamlit sets the title when a page runs, so it is set again with each answer.
  entitle(urgent) {
    const plain = document.title.replace(/^\(\d+\) /, "") || BASE;
    document.title = urgent ? `(${urgent}) ${plain}` : plain;
  }

  // ---- what is asked

  // What is looked for beside what the address says.
  sought() {
    const find = this.find.trim();
    const texts = find && this.searched && { texts: "1" };
    const rows = this.wanted && { rows: this.wanted };
    return { ...(find && { find }), ...texts, ...rows, ...(this.unfolded && { reviews: "1" }) };
  }

  async ask() {
    if (this.asking) return;
    const looksFor = () => JSON.stringify([this.sought(), ...["priorities", "sort", "batch"].map(inAddress)]);
    const key = looksFor();
    this.asking = true;
    const { status, said } = await ask("list", this.sought());
    this.asking = false;
    if (!this.root.isConnected) return; // the page was left meanwhile
    if (status === 200) {
      this.failures = 0;
      if (key === looksFor()) this.heard(said, key);
    } else if (status === 401 || status === 403) {
      if (this.failures++ < 3) this.inbox.run();
    } else this.stale = `Not live: no answer since ${this.now.at ?? "the page was opened"}; trying again. `;
    this.draw();
    if (key !== looksFor() && !this.typing) this.ask(); // something else is looked for by now
  }

  heard(now, key) {
    this.stale = "";
    this.announce(now);
    // a notice moves the list: not under the pointer or the focus of somebody who is about to choose
    const comesOrGoes = Boolean(this.still.length) !== Boolean(now.still.length);
    if (!comesOrGoes || !this.rows.length || !this.inside()) this.still = now.still;
    this.entitle(now.urgent);
    this.now = now;
    this.offer(key !== this.shownFor);
    this.shownFor = key;
    this.inbox.desk?.waits(now);
  }

  // A P0 case that has come in is said until none is free any more: read, or in other hands.
  announce(now) {
    const came = this.newest !== undefined && now.newest !== null && (this.newest === null || now.newest > this.newest);
    if (came && now.p0) this.sound.play();
    this.comes = Boolean(now.p0) && (came || this.comes);
    this.said = this.comes ? now.p0 : "";
    if (this.newest === undefined || now.newest === null || came) this.newest = now.newest;
  }

  // A pointer left lying on the list while its owner works by keys is not in it.
  inside() {
    return (this.pointed && this.list.matches(":hover")) || this.list.contains(document.activeElement);
  }

  // What others change waits while somebody is in the list; what was ``sought`` by the person here is shown at once.
  offer(sought) {
    const { rows } = this.now;
    const same = rows.length === this.rows.length && rows.every(({ id }, at) => this.rows[at].id === id);
    const held = !same && !sought && this.rows.length > 0 && this.inside();
    const now = new Map(rows.map((row) => [row.id, row]));
    this.rows = held ? this.rows.map((row) => now.get(row.id) ?? row) : rows;
  }

  // ---- what a person does

  // What is chosen or typed here, and then looked for.
  set(chosen) {
    Object.assign(this, chosen);
    this.draw();
    this.ask();
  }

  // Texts are looked through once somebody has paused.
  type(find) {
    this.find = find;
    this.draw();
    clearTimeout(this.typing);
    this.typing = setTimeout(() => {
      this.typing = 0;
      this.ask();
    }, TYPING_MS);
  }

  choose(priority) {
    const chosen = new Set(this.priorities);
    if (!chosen.delete(priority)) chosen.add(priority);
    this.turn("priorities", [...chosen].sort().join(","));
  }

  // Sets this in the address, which outlives a reload.
  turn(name, value) {
    setInAddress(name, value);
    this.inbox.desk?.draw();
    this.set({});
  }

  // A press on a row opens its case, or chooses it to be given away.
  take({ id }, free, pressed) {
    if (this.chosen) {
      if (!this.chosen.delete(id)) this.chosen.add(id);
      this.draw();
    } else if (free) {
      pressed.blur(); // the desk takes the focus to the text
      this.inbox.desk.once("take", { case: id });
    }
  }

  assign() {
    this.inbox.desk.outbox.post("assign", { to: this.to, cases: [...this.chosen] });
    this.set(NOBODY);
  }

  setSound(on) {
    const woken = this.sound.set(on);
    this.draw();
    return woken;
  }

  onKey(event) {
    if (!this.root.isConnected) return; // the page was left a moment ago
    this.pointed = false;
    if (inAddress("keys") === "off" || event.ctrlKey || event.metaKey || event.altKey) return;
    const { target } = event;
    if (target === this.field && event.key === "Enter") this.move(1);
    if (target === this.field && event.key === "Escape") {
      this.field.blur();
      this.set({ find: "" });
    }
    if (target.isContentEditable || target.matches?.("input, textarea, select")) return;
    if (event.key === "/" && this.now.browse) {
      event.preventDefault();
      this.field.focus();
    }
    const step = { j: 1, k: -1 }[event.key.toLowerCase()];
    if (step) this.move(step);
  }

  move(step) {
    const buttons = [...this.list.querySelectorAll("button")];
    const at = buttons.indexOf(document.activeElement);
    buttons[at < 0 ? 0 : Math.max(0, Math.min(buttons.length - 1, at + step))]?.focus();
  }

  // ---- what is shown

  get priorities() {
    return inAddress("priorities").split(",").filter(Boolean);
  }

  draw() {
    patch(this.root, [this.view()]);
  }

  view() {
    const { now } = this;
    const rest = now.browse ? Math.min(now.of, MOST) - now.rows.length : 0;
    const more = () => this.set({ wanted: Math.min(MOST, (this.wanted || 8) + 32) });
    const fresh = now.rows.filter(({ id }) => !this.rows.some((row) => row.id === id)).length;
    const changed = fresh ? `${fresh} new in the list · show` : "The list has changed · show";
    const showNow = () => this.set({ rows: now.rows });
    const title = `${now.read}; ${count(now.waits)} in queue`;
    const ref = (bar) => Object.assign(bar, { max: Math.max(1, now.done + now.waits), value: now.done }); // also 0 is a value
    return h("section", { class: "queue", "aria-label": "Queue" },
      h("div", { class: "of-batch", hidden: !now.batch }, h("span", {}, "Only cases of ", h("b", {}, now.batch)),
        button("Show all", () => this.turn("batch", ""), "small")),
      h("header", {}, h("h1", {}, "Review"), h("p", { class: now.late ? "waits late" : "waits" }, this.waitWords())),
      h("div", { class: "still", role: "status", hidden: !this.still.length }, this.still.map((line) => h("p", {}, line))),
      h("p", { class: "words" }, now.words),
      h("div", { class: "pills", role: "group", "aria-label": "Priorities" }, now.pills.map((pill) => this.pill(pill))),
      h("div", { class: "said", role: "status", "aria-live": "assertive" },
        this.said && h("span", { key: `${this.newest}` }, this.said)), // another P0 case in the same words is read out, too
      h("div", { class: "tools", hidden: !now.browse }, this.search()),
      h("div", { class: "tools", hidden: !now.browse }, this.order()),
      this.giving(),
      this.listed(),
      button(changed, showNow, "changed", { hidden: this.rows === now.rows }),
      h("p", { class: "foot" }, h("span", {}, now.browse && this.ofWords()), " ",
        button(`Show ${Math.min(32, rest)} more`, more, "link", { hidden: rest <= 0 })),
      h("progress", { ref, "aria-label": "Reviewed today", title }),
      this.disputed(),
      this.live(),
      this.inbox.page.may && this.own());
  }

  live() {
    const { now, sound, stale } = this;
    const pressed = { "aria-pressed": String(sound.on) };
    return h("p", { class: "foot" },
      h("span", { class: stale && "stale", title: `As of ${now.at}` }, stale || (now.at && "Live. ")),
      button(`Sound for P0: ${sound.on ? "on" : "off"}`, () => this.setSound(!sound.on), "link", pressed), " · ",
      button("Test sound", () => this.setSound(true).then(() => sound.play())));
  }

  waitWords() {
    const { waits, late, at } = this.now;
    return at && `${count(waits)} in queue${late ? ` · ${late}` : ""}`;
  }

  pill({ priority, mark, meaning, open, late }) {
    const pressed = { "aria-pressed": String(this.priorities.includes(priority)) };
    const overdue = late && h("span", { class: "late" }, ` · ${late}`);
    const words = [`${mark} ${priority} ${meaning} `, h("b", {}, count(open)), overdue];
    return button(words, () => this.choose(priority), `pill t${priority[1]}`, pressed);
  }

  search() {
    const oninput = ({ target }) => this.type(target.value);
    const onchange = ({ target }) => this.set({ searched: target.checked });
    const words = { placeholder: `${SEARCH}   /`, "aria-label": SEARCH, autocomplete: "off", value: this.find };
    const ref = (field) => (this.field = field);
    const texts = h("input", { type: "checkbox", checked: this.searched, onchange });
    const check = { class: "check", hidden: !this.inbox.page.may_search_texts };
    return [h("input", { type: "search", ...words, oninput, ref }), h("label", check, texts, "search text")];
  }

  order() {
    const value = inAddress("sort") || "urgent";
    const onchange = ({ target }) => this.turn("sort", target.value === "urgent" ? "" : target.value);
    const hidden = !this.inbox.page.colleagues.length || Boolean(this.chosen);
    return [
      h("select", { "aria-label": "Order of the list", title: ORDER, value, onchange }, options(ORDERS)),
      button("Assign to …", () => this.set({ ...NOBODY, chosen: new Set() }), "small", { hidden }),
    ];
  }

  giving() {
    const number = this.chosen?.size ?? 0;
    const onchange = ({ target }) => this.set({ to: target.value });
    const people = options([["", "Choose a colleague"], ...this.inbox.page.colleagues]);
    const words = `Assign ${number} case${number === 1 ? "" : "s"}`;
    return h("div", { class: "giving", role: "group", "aria-label": "Assign cases to a colleague", hidden: !this.chosen },
      h("p", {}, "Choose cases in the list."),
      h("div", { class: "tools" },
        h("select", { "aria-label": "Colleague", value: this.to, onchange }, people),
        button(words, () => this.assign(), "small", { disabled: !number || !this.to }),
        button("Cancel", () => this.set(NOBODY))));
  }

  listed() {
    const pointed = () => (this.pointed = true);
    const list = {
      class: "rows",
      "aria-label": "Cases to review",
      onpointerenter: pointed,
      onpointermove: pointed,
      ref: (element) => (this.list = element),
    };
    return h("ol", list, this.rows.map((row) => this.row(row)));
  }

  row(row) {
    const here = row.mine && inAddress("case") === row.id; // theirs, and on this page
    const free = row.free && this.inbox.page.may && !here;
    const chosen = this.chosen?.has(row.id) ?? false;
    const looks = [`t${row.priority[1]}`, row.late && "over", here && "here", chosen && "chosen"].filter(Boolean);
    const press = {
      type: "button",
      onclick: ({ currentTarget }) => this.take(row, free, currentTarget),
      "aria-pressed": this.chosen && String(chosen),
      "aria-disabled": String(!this.chosen && !free),
      "aria-current": here ? "true" : null,
    };
    const about = [row.why, row.age, here ? "open here" : row.state].filter(Boolean).join(" · ");
    return h("li", { key: row.id, "data-id": row.id, class: looks.join(" ") }, h("button", press,
      h("span", { class: "priority" }, `${row.mark} ${row.priority} ${row.meaning}`), " ",
      h("b", {}, row.name), " ",
      h("span", { class: "left" }, row.left),
      h("span", { class: "why" }, about)));
  }

  ofWords() {
    const { of, texts_read } = this.now;
    const shown = this.now.rows.length;
    if (!this.find.trim()) return of ? `${shown} of ${count(of)}` : "";
    const found = of < MOST ? count(of) : `${MOST} or more`;
    const read = texts_read ? ` Searched the texts of the ${texts_read.toLocaleString("en")} most urgent cases only.` : "";
    return (of ? `${shown} of ${found} found.` : "Nothing found.") + read;
  }

  disputed() {
    const cases = this.now.disputed;
    const words = (each) => `${each.priority} · ${each.name} · ${each.left}${each.mine ? " · reviewed by you" : ""}`;
    return h("details", { class: "disputed", hidden: !cases.length },
      h("summary", {}, `${cases.length}${cases.length === 5 ? " or more" : ""} to decide: reviewers disagree`),
      cases.map((each) => h("a", { key: each.href, href: each.href }, words(each))));
  }

  // What is about this reviewer alone: how much they opened, their last reviews, and how the page is set for them.
  own() {
    const { now } = this;
    const covered = inAddress("cover") === "1";
    const keys = inAddress("keys") !== "off";
    const onclick = () => this.set({ unfolded: !this.unfolded });
    const open = (id) => (event) => {
      event.preventDefault();
      this.inbox.desk.once("open", { case: id });
    };
    const link = (id, name) => h("a", { href: `?case=${id}`, onclick: open(id) }, name);
    const mine = now.reviews?.map(([id, name, words]) => h("p", { key: id }, link(id, name), ` · ${words}`));
    const none = mine?.length === 0 && h("p", {}, "You have reviewed no case yet.");
    const about = { title: "Turn single keys off or on" };
    return h("div", { class: "own" },
      h("p", {}, this.inbox.desk.data.exposure),
      h("details", {}, h("summary", { onclick }, "My reviews"), none, mine ?? []),
      h("p", { class: "foot" },
        button(`Shortcuts: ${keys ? "on" : "off"}`, () => this.turn("keys", keys ? "off" : ""), "link", about), " · ",
        button(`Text on opening: ${covered ? "hidden" : "shown"}`, () => this.turn("cover", covered ? "" : "1"))));
  }
}
