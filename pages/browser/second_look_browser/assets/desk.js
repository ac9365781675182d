// The review desk. Every choice is made and shown here; the server hears of it as a draft, and of the review in one
// action that carries what was shown.
import { patch } from "./dom.js";
import { forget, forgetOld, keepHere, keptHere } from "./drafts.js";
import { Form } from "./form.js";
import { narrow, view, when } from "./layout.js";
import { watchConnection } from "./line.js";
import { Outbox } from "./outbox.js";
import { ask, inAddress, setInAddress } from "./server.js";
import { TextPane } from "./text.js";

const DRAFT_MS = 1200;
const ALIVE_MS = 20000;
const REST_MS = 600;
const AGAIN_MS = 2000;
const LOW_FROM = 0.4;
const HEADER = 56; // the height of what stands over each page
const WAYS_TO_LEAVE = {
  skip: ["Skip", "It goes back to the queue; you are not offered it again soon."],
  hold: ["Put on hold", "It is kept for you for a while."],
  hand_over: ["Transfer", "It is kept for your colleague for a while."],
  decline: ["Decline", "It goes back to the queue, and you are not offered it again. No reason is needed."],
};
// After these the rest of the page is as it was.
const STAYS = new Set(["open", "alive", "draft", "reveal", "second", "at_once", "uncover", "go_on"]);
const AFTER_A_SAVE = ["next", "urgent", "previous", "undo", "finish", "open", "leave"]; // asked for in the belief that it is saved
const MOST_RUNS = 3;
const LONGEST_LINE = 2000;
const LOST = "Connection lost.";
const KEPT = "Your choices are kept; trying again.";
const FAULT = "The server could not answer.";

export class Desk {
  constructor(inbox, root) {
    this.inbox = inbox;
    this.root = root;
    this.data = {}; // the state, as the server told it last
    this.outbox = new Outbox((actions) => this.exchange(actions));
    this.asked = this.heardOf = this.ahead = this.runs = this.told = 0;
    this.alert = this.drafted = this.reason = this.panelShown = "";
    this.leaving = ""; // the note for the next reviewer, as far as it is written
    this.way = null; // how the case is about to be left, while the dialog for it is open
    this.saving = null; // the save on its way: nothing can be changed until it is answered
    this.revising = this.active = false;
    this.ended = new Set();
    this.revealed = new Set();
    const heard = { changed: () => this.changed(), draw: () => this.draw() };
    this.form = new Form(this.page.offer, heard);
    const ofText = { ...heard, ended: (part) => this.ended.add(part), fits: () => this.fits(1) };
    this.text = new TextPane("text", "Text of this case", ofText);
    this.panes = [this.text, new TextPane("reply", "The reply to it", ofText)];
    this.channel = new BroadcastChannel("second-look-desk");
    this.channel.onmessage = ({ data: caseId }) => caseId === this.caseId && this.look();
    this.unwatch = watchConnection((lost) => this.connection(lost));
    this.timers = [setInterval(() => this.tick(), 1000), setInterval(() => this.alive(), ALIVE_MS)];
    this.gone = new AbortController();
    const hear = (target, kind, heard) => target.addEventListener(kind, heard, { signal: this.gone.signal });
    hear(document, "keydown", (event) => this.key(event));
    hear(document, "visibilitychange", () => this.look());
    hear(window, "popstate", () => this.seek());
    hear(window, "focus", () => this.look());
    hear(window, "resize", () => this.stage && this.paint());
    hear(root, "pointerdown", () => (this.active = true));
    forgetOld();
  }

  close() {
    this.unwatch();
    this.channel.close();
    for (const timer of [...this.timers, this.draftTimer, this.restTimer, this.outbox.timer]) clearTimeout(timer);
    this.outbox.stopped = true;
    this.gone.abort();
  }

  // What no case changes, as the page gave it.
  get page() {
    return this.inbox.page;
  }

  get shown() {
    return this.data.case ?? null;
  }

  get caseId() {
    return this.shown?.id ?? null;
  }

  get stage() {
    return this.data.stage;
  }

  get me() {
    return this.page.me.id;
  }

  get keysOn() {
    return inAddress("keys") !== "off";
  }

  // Whether the form is of a review that is being made or changed.
  get mayChange() {
    return this.stage === "reviewing" || (this.stage === "read" && this.revising);
  }

  get covered() {
    return this.stage === "reviewing" && this.shown.text === null;
  }

  get mayChoose() {
    return this.mayChange && !this.saving && this.shown.text !== null;
  }

  get mayOpenAtOnce() {
    return this.stage === "reviewing" && this.shown.at_once && !this.shown.evidence;
  }

  get marks() {
    return this.panes.flatMap((pane) => pane.marks);
  }

  get lostWords() {
    const words = this.off ? LOST : this.fault;
    return words ? `${words} ${KEPT}` : "";
  }

  now() {
    return Date.now() + this.ahead;
  }

  say(words) {
    this.tell(words);
    this.draw();
  }

  // Numbered: what is said once more is read out once more.
  tell(words) {
    this.alert = words;
    this.told += 1;
  }

  // ---- what the server says

  // A run of the page behind the desk: who is here, and what is set for it.
  mounted() {
    this.outbox.stopped = false;
    this.form.offers(this.page.offer);
    if (this.stage) this.paint();
    if (this.outbox.waiting.length) this.outbox.send();
    else if (!this.stage) this.exchange();
  }

  // What the list has just heard of the queue: an empty desk says no longer what was so when it was drawn.
  waits({ empty }) {
    if (this.stage === "idle") this.data = { ...this.data, words: empty };
    this.draw();
  }

  // What a link asks for, before what lay here: the first case of an upload ("Start reviewing"), or the case it names.
  // What was open and unread stays with its reviewer.
  arrive() {
    if (!inAddress("start")) return inAddress("case") && this.seek();
    setInAddress("start", "");
    this.outbox.post("leave");
    this.outbox.post("next");
  }

  // The case that the address names, unless it lies here or is on its way: also where somebody went back to it.
  seek() {
    const named = inAddress("case");
    const going = this.outbox.waiting.findLast(({ kind }) => kind === "open");
    const there = (going ? going.case : this.caseId) ?? "";
    if (onInbox() && named !== there) this.outbox.post("open", { case: named || null });
  }

  // One question with its answer: what was done, and the state then. A state that a later one has overtaken is not shown.
  async exchange(actions = null) {
    const number = ++this.asked;
    const { status, said } = await ask("desk", {}, actions);
    if (status === 401 || status === 403) {
      this.outbox.stopped = true;
      this.runAgain();
      return false;
    }
    this.fault = { 0: LOST, 200: "" }[status] ?? said.words ?? FAULT;
    if (status === 200) this.heard(said, number);
    else {
      this.draw();
      if (!this.stage && !actions) setTimeout(() => this.stage || this.outbox.stopped || this.exchange(), AGAIN_MS);
    }
    return status === 200;
  }

  heard({ answers, ...data }, number) {
    const newest = number > this.heardOf;
    if (newest) {
      this.heardOf = number;
      this.data = data;
      this.ahead = data.now - Date.now();
    }
    for (const [action, answer] of this.outbox.settle(answers)) this.answered(action, answer);
    if (newest) {
      if (data.stage === "read" && data.read.revealed) this.revealed.add(data.case.id);
      if (!this.outbox.waits("open")) setInAddress("case", this.caseId ?? "");
      this.paint();
      this.askForReveal();
    } else this.draw();
    this.askForRest();
    if (JSON.stringify(data.me) === JSON.stringify(this.page.me)) this.runs = 0;
    else this.runAgain();
  }

  // The page says who is here, and what they may do by now.
  runAgain() {
    this.runs += 1;
    if (this.runs <= MOST_RUNS) this.inbox.run();
  }

  // What was done here changes the list, and the follow-ups above: they come once the reviewer has their next text.
  askForRest() {
    if (!this.behind) return;
    clearTimeout(this.restTimer);
    if (!this.outbox.waiting.length) this.inbox.queue.ask();
    this.restTimer = setTimeout(() => {
      if (this.outbox.waiting.length) return; // with its answer the rest is asked for again
      this.behind = false;
      this.inbox.run();
    }, REST_MS);
  }

  answered(request, { ok, words }) {
    if (!ok) this.tell(words);
    if (!STAYS.has(request.kind)) this.behind = true;
    if (request.kind === "draft" && ok) {
      forget(this.me, request.case, request.form.rev);
      const newest = request.case === this.caseId && this.mayChange && request.form.rev === this.form.choices.rev;
      if (newest) this.drafted = `Draft saved ${when(this.now())}`;
    }
    if (request.kind === "undo" && !ok) this.revealed.add(request.case); // from now on it can only be edited
    if (this.saving?.id === request.id) {
      this.saving = null;
      if (ok) forget(this.me, request.case);
      if (ok) this.channel.postMessage(request.case);
      else if (request.kind !== "revise") for (const kind of AFTER_A_SAVE) this.outbox.drop(kind);
      if (request.kind === "revise") this.revising = this.revising && !ok;
    }
    if (request.note && ok && request.kind !== "revise") {
      forget(this.me, request.case); // the note has gone with the case
      if (request.case === this.caseId) this.leaving = "";
    }
  }

  askForReveal() {
    const { stage, read } = this.data;
    const leaving = ["next", "urgent", "undo", "reveal", "previous"].some((kind) => this.outbox.waits(kind));
    if (stage === "read" && !read.revealed && !leaving) this.outbox.post("reveal", { case: this.caseId });
  }

  connection(lost) {
    this.off = lost;
    this.draw();
    if (lost) return;
    this.outbox.send();
    this.look();
  }

  look() {
    if (this.outbox.stopped || this.outbox.waiting.length || document.visibilityState !== "visible") return;
    if (["reviewing", "over", "read"].includes(this.stage)) this.exchange();
  }

  alive() {
    if (this.active && this.stage === "reviewing") this.outbox.post("alive", { case: this.caseId });
    this.active = false;
  }

  tick() {
    this.draw();
    const over = this.stage === "reviewing" && this.shown.expires && this.shown.expires <= this.now();
    if (over) this.look();
  }

  // ---- what is filled in

  changed() {
    this.active = true;
    this.alert = "";
    if (this.mayChange && !this.saving) {
      this.form.choices.rev = Date.now();
      keepHere(this.me, this.caseId, this.draft());
      this.drafted = "";
      this.draftTimer ??= setTimeout(() => this.sendDraft(), DRAFT_MS);
    }
    this.draw();
  }

  draft() {
    const revision = this.revising && { revision: true, reason: this.reason };
    const leaving = this.leaving && this.stage === "reviewing" && { leaving: this.leaving };
    return { ...this.form.choices, marks: this.marks, ...leaving, ...revision };
  }

  // A line of words that the draft holds by this name.
  line(name) {
    const oninput = ({ target }) => {
      this[name] = target.value;
      this.changed();
    };
    return { type: "text", maxlength: LONGEST_LINE, class: "sld-input", value: this[name], oninput };
  }

  // Whether a review can keep the marks in text and reply and so many ``more``; it is said where it can't.
  fits(more) {
    const most = this.page.offer.most_marks;
    if (this.marks.length + more <= most) return true;
    this.say(`At most ${most} highlights. Click a highlight to remove it.`);
    return false;
  }

  stopDraft() {
    clearTimeout(this.draftTimer);
    this.draftTimer = null;
  }

  sendDraft() {
    this.stopDraft();
    if (!this.saving && this.caseId) this.outbox.post("draft", { case: this.caseId, form: this.draft() });
  }

  // Fills the form in where it is another case's than before, or has another purpose; returns the marks of then.
  load() {
    const key = `${this.caseId}/${this.stage === "read"}/${this.revising}`;
    if (!["reviewing", "read"].includes(this.stage) || key === this.loaded) return this.marks;
    this.stopDraft();
    this.loaded = key;
    this.ended = new Set();
    const here = keptHere(this.me, this.caseId) ?? {};
    const newer = (here.rev ?? 0) > (this.data.draft.rev ?? 0);
    const draft = newer ? here : this.data.draft;
    const stored = this.stage === "read" && !(this.revising && draft.revision);
    const { reason = "", leaving = "", marks = [], ...choices } = stored ? this.data.read.form : draft;
    this.form.show(choices);
    this.reason = reason;
    this.leaving = leaving;
    this.drafted = newer && !stored ? "What you had filled in is back." : "";
    if (newer && this.stage === "reviewing") this.draftTimer = setTimeout(() => this.sendDraft()); // once its marks are drawn
    return marks;
  }

  // ---- what the reviewer does

  save() {
    if (this.saving || this.outbox.waits("save")) return;
    if (!this.mayChange || this.shown.text === null) return;
    const lacking = this.form.missingWords();
    if (lacking) return this.say(lacking);
    if (!this.fits(0)) return;
    const { revising, reason: note } = this;
    if (revising && !note.trim()) {
      this.say("Enter a reason for the change.");
      const field = this.root.querySelector(".sld-reason input");
      field.focus({ preventScroll: true });
      field.parentElement.scrollIntoView({ block: "nearest" });
      return;
    }
    this.stopDraft();
    this.outbox.drop("draft");
    const parts = this.shown.reply === null ? ["text"] : ["text", "reply"];
    const read_to_end = revising ? this.form.choices.read_to_end : parts.every((part) => this.ended.has(part));
    const given = { case: this.caseId, form: { ...this.form.choices, marks: this.marks, read_to_end } };
    const [kind, more] = revising ? ["revise", { note }] : ["save", { token: this.shown.token }];
    this.saving = { id: this.outbox.post(kind, { ...given, ...more }), words: this.form.words() };
    this.draw();
  }

  // What takes the reviewer away from this case: to the next one, to the next P0 case whatever the filter, or elsewhere.
  go(kind) {
    if (this.outbox.waits(kind)) return;
    const unread = ["next", "urgent"].includes(kind) && this.stage === "reviewing";
    if (this.revising && !this.saving) this.say("Save the change (Ctrl+Enter) or cancel it (Esc) first.");
    else if (unread && !this.saving) this.say("Submit this review (Ctrl+Enter) or skip the case (S) first.");
    else this.outbox.post(kind);
  }

  // Pressed twice, it is done once.
  once(kind, body = {}) {
    const same = (one) => one.kind === kind && one.case === body.case;
    if (!this.outbox.waiting.some(same)) this.outbox.post(kind, body);
  }

  undo() {
    const last = this.data.last;
    if (this.saving && !this.revising) return this.once("undo", { case: this.caseId, review: this.saving.id });
    if (!last || last.until < this.now() || this.outbox.waits("undo")) return;
    if (!this.revealed.has(last.case)) {
      this.outbox.drop("reveal");
      this.outbox.post("undo", { case: last.case, review: last.review });
    } else if (this.stage === "read" && this.caseId === last.case) this.revise();
    else {
      this.reviseNext = last.case;
      this.outbox.post("previous", { case: last.case });
    }
  }

  revise() {
    if (this.stage !== "read" || this.revising) return;
    this.revising = true; // the focus stays where it is, so that the label's keys are not typed into the reason
    this.paint();
  }

  leave(kind, to = "") {
    if (this.stage !== "reviewing" || this.saving) return;
    const ways = [kind, ...Object.keys(WAYS_TO_LEAVE)];
    if (ways.some((each) => this.outbox.waits(each))) return; // pressed twice: the first is on its way
    const note = this.leaving;
    this.outbox.post(kind, { case: this.caseId, token: this.shown.token, note, ...(kind === "hand_over" && { to }) });
  }

  // The way out by key or button: a P0 or P1 case asks first, and so does what cannot do without a note.
  away(kind) {
    if (this.stage !== "reviewing" || this.saving) return;
    const { needs_note: urgent, colleagues } = this.shown;
    if (["skip", "decline"].includes(kind) && !urgent) return this.leave(kind);
    if (kind === "hand_over" && !colleagues.length) return this.say(this.page.nobody);
    const [title, words] = WAYS_TO_LEAVE[kind];
    const needed = urgent ? "P0 and P1 cases need a hand-off note before you leave them." : "Enter a note for the next reviewer.";
    const chosen = kind === "hand_over" && { colleagues, to: "" };
    this.way = { kind, title, words, needed: kind === "decline" ? "" : needed, refused: "", ...chosen };
    this.draw();
    this.dialog.showModal();
    this.dialog.querySelector("select, input").focus();
  }

  confirm(event) {
    event.preventDefault();
    const { kind, needed, colleagues, to } = this.way;
    const nobody = colleagues && !to;
    this.told += 1;
    this.way.refused = nobody ? "Choose a colleague." : needed && !this.leaving.trim() ? needed : "";
    this.draw();
    if (this.way.refused) return this.dialog.querySelector(nobody ? "select" : "input").focus();
    this.dialog.close();
    this.leave(kind, to);
  }

  // Told of a moment late: by then it may be open once more.
  leaveClosed() {
    if (this.dialog.open) return;
    this.way = null;
    this.draw();
  }

  panel(name) {
    this.panelShown = this.panelShown === name ? "" : name;
    this.draw();
    if (this.panelShown) this.root.querySelector(".sld-panel").scrollIntoView({ block: "nearest" });
  }

  fold(key) {
    this.form.toggle(key);
    const fold = this.root.querySelector(`.sld-fold-${key}`);
    fold?.querySelector("summary").focus({ preventScroll: true });
    fold?.scrollIntoView({ block: "nearest" });
  }

  key(event) {
    if (event.defaultPrevented || !this.keysOn || (!this.root.isConnected && !onInbox())) return;
    if (this.dialog?.open || document.querySelector('[role="dialog"]')) return;
    const control = event.ctrlKey || event.metaKey;
    const saves = control && event.key === "Enter";
    const at = event.composedPath()[0]; // the field itself, also where it stands in the shadow of another component
    const typing = at.closest?.("textarea, select, [contenteditable=true], input:not([type=radio]):not([type=checkbox])");
    if (typing && this.root.contains(at) && event.key === "Escape") at.blur();
    if (!saves && (typing || control || event.altKey)) return;
    const key = saves ? "ctrl+enter" : event.key.toLowerCase();
    if (!(key in this.keys())) return;
    event.preventDefault();
    if (!event.repeat || /[1-8]/.test(key)) this.press(key);
  }

  // What was said of an earlier press goes with the next one.
  press(key) {
    this.active = true;
    this.say("");
    this.keys()[key.toLowerCase()]();
  }

  // What each key does; a button does what its key does.
  keys() {
    const dispositions = this.mayChange ? this.page.offer.dispositions.map(([, , key]) => key.toLowerCase()) : [];
    const choose = (key) => [key, () => this.mayChoose && this.form.key(key)];
    return {
      t: () => this.data.may_take && this.once("take", { case: this.caseId }),
      ...Object.fromEntries([..."12345678", ...dispositions].map(choose)),
      "ctrl+enter": () => this.save(),
      n: () => this.go("next"),
      u: () => this.undo(),
      p: () => this.go("previous"),
      v: () => this.revise(),
      f: () => this.go("finish"),
      s: () => (this.stage === "over" ? this.once("leave") : this.away("skip")),
      x: () => this.away("decline"),
      a: () => !this.shown?.asked && this.leave("second"),
      h: () => this.away("hold"),
      b: () => (this.data.rest ? this.once("take_break") : this.away("hand_over")),
      o: () => this.covered && this.once("uncover", { case: this.caseId }),
      i: () => this.mayOpenAtOnce && this.once("at_once", { case: this.caseId }),
      ",": () => this.text.turn(-1),
      ".": () => this.text.turn(1),
      m: () => this.mayChoose && this.text.pick(),
      c: () => this.mayChange && this.fold("c"),
      d: () => this.mayChange && this.fold("d"),
      g: () => this.panel("guideline"),
      "?": () => this.panel("keys"),
      escape: () => this.escape(),
    };
  }

  // What lies over the case is closed first; only then a change is left.
  escape() {
    if (!this.panelShown) return this.leaveChange();
    this.panelShown = "";
    this.draw();
  }

  // A change that is left: nothing of it comes back, neither from here nor from the server.
  leaveChange() {
    if (this.revising && !this.saving) {
      this.stopDraft();
      this.revising = false;
      const nothing = { rev: Date.now() };
      keepHere(this.me, this.caseId, nothing);
      this.outbox.drop("draft");
      this.outbox.post("draft", { case: this.caseId, form: nothing });
    }
    this.paint();
  }

  // ---- what is shown

  // After a new state, or where what may be changed is another.
  paint() {
    const { stage, shown } = this;
    if (this.reviseNext && this.reviseNext === this.caseId && stage === "read") {
      this.revising = true;
      this.reviseNext = null;
    }
    if (stage !== "read") this.revising = false;
    const caseChanged = this.paintedCase !== this.caseId;
    if (this.way && (caseChanged || stage !== "reviewing")) this.dialog.close();
    this.paintedCase = this.caseId;
    if (caseChanged && !this.outbox.waits("save")) this.alert = "";
    this.form.needing = shown?.needing ?? [];
    this.showTexts(this.load());
    if (!this.mayChange) this.drafted = ""; // of what is read, or gone, no draft may be left
    this.draw();
    this.place();
    this.inbox.queue.draw();
    if (caseChanged && stage === "reviewing") this.focusText();
    this.showStart();
  }

  showTexts(mine) {
    const shown = this.shown ?? {};
    const read = this.stage === "read" ? this.data.read : { others: [], rules: [] };
    const rules = read.rules.map(({ words, ...mark }) => ({ ...mark, kind: "rule", title: words }));
    const theirs = ({ who, marks }) => marks.map((mark) => ({ ...mark, kind: "other", title: `Highlighted by ${who}` }));
    const others = [...read.others.flatMap(theirs), ...rules];
    for (const pane of this.panes) {
      const turns = (pane === this.text && shown.turns) || [];
      pane.show(shown[pane.part] ?? null, mine, others, turns);
    }
  }

  draw() {
    this.form.frozen = Boolean(this.saving);
    for (const pane of this.panes) pane.freeze(!this.mayChoose);
    patch(this.root, [view(this)]);
    requestAnimationFrame(() => this.panes.forEach((pane) => pane.look()));
  }

  // Where all stands one under the other, or much stands above the desk, what has just come begins at its beginning.
  showStart() {
    const shows = `${this.caseId}/${this.stage}`;
    const come = this.startShown !== undefined && shows !== this.startShown;
    const isAbove = this.root.getBoundingClientRect().top < HEADER; // whoever comes had scrolled down, here or on another page
    this.startShown = shows;
    if (come && (this.isLow || isAbove || narrow.matches)) this.root.scrollIntoView({ block: "start" });
  }

  focusText() {
    const at = document.activeElement;
    if (at === document.body || this.root.contains(at)) this.text.box.focus({ preventScroll: true });
  }

  place() {
    const top = this.root.getBoundingClientRect().top + (document.querySelector('[data-testid="stMain"]')?.scrollTop ?? 0);
    this.isLow = top > LOW_FROM * window.innerHeight; // below follow-ups, say: it then has the window's height to itself
    this.root.style.setProperty("--sld-top", this.isLow ? "4rem" : `${Math.max(0, Math.round(top))}px`);
  }
}

export const onInbox = () => location.pathname.endsWith("/inbox");
