// The review desk. Every choice is made and shown here; the server hears of it as a draft, and of the review in one
// action that carries what was shown. A page has one desk: it outlives each run of the page behind it.
import { watchConnection } from "./connection.js";
import { make, trusted } from "./dom.js";
import { forget, forgetOld, keepHere, keptHere } from "./drafts.js";
import { Form } from "./form.js";
import { clock, Layout, span, when } from "./layout.js";
import { Outbox } from "./outbox.js";
import { ask, inAddress, setInAddress } from "./server.js";
import { TextPane } from "./text.js";

const DRAFT_MS = 900;
const DRAFT_AT_MOST_MS = 1700;
const LOOK_MS = 10000;
const ALIVE_MS = 20000;
const REST_MS = 600;
const LOW_MS = 120000;
const LOW_FROM = 0.4;
const GONE_MS = 4000;
const AGAIN_MS = 2000;
const WAYS_TO_LEAVE = {
  skip: ["Skip", "It goes back to the queue; you are not offered it again soon."],
  hold: ["Put on hold", "It is kept for you for a while."],
  hand_over: ["Transfer", "It is kept for your colleague for a while."],
  not_me: ["Decline", "It goes back to the queue, and you are not offered it again. No reason is needed."],
};
// After these the rest of the page is as it was.
const STAYS = new Set(["open", "alive", "draft", "reveal", "second", "at_once", "uncover", "revise", "go_on"]);
const AFTER_A_SAVE = ["next", "urgent", "previous", "undo", "finish"]; // asked for in the belief that it is saved
const MOST_RUNS = 3;
const PRIORITIES = ["P0", "P1", "P2", "P3"];
const LOST = "Connection lost.";
const KEPT = "Your choices are kept; trying again.";
const FAULT = "The server could not answer.";

class Desk {
  constructor(page) {
    this.page = page; // what no case changes, as the page gave it
    this.data = {}; // the state, as the server told it last
    this.outbox = new Outbox((actions) => this.exchange(actions));
    this.asked = this.heardOf = this.ahead = this.runs = 0;
    this.layout = new Layout();
    this.form = new Form(page.offer, () => this.changed());
    this.reason = make("input", { type: "text", maxlength: 2000, class: "sld-input", oninput: () => this.changed() });
    this.reasonLabel = make("label", { class: "sld-block sld-reason" }, "Reason for change", this.reason);
    this.form.root.lastChild.before(this.reasonLabel); // not below, where the buttons may lie over it
    this.layout.formPlace.append(this.form.root);
    const ended = (part) => this.ended.add(part);
    const changed = () => this.changed();
    const fits = (part, count) => this.marksFit({ ...this.marked(), [part]: count });
    this.panes = {
      text: new TextPane("text", "Text of this case", { changed, ended, fits }),
      reply: new TextPane("reply", "The reply to it", { changed, ended, fits }),
    };
    this.layout.texts.append(this.panes.text.root, this.panes.reply.root);
    this.ended = new Set();
    this.revealed = new Set();
    this.loaded = "";
    this.saving = null; // the save on its way: nothing can be changed until it is answered
    this.leaving = ""; // the note for the next reviewer, as far as it is written
    this.revising = false;
    this.panelShown = "";
    this.firstUnsent = 0;
    this.active = false;
    this.channel = new BroadcastChannel("second-look-desk");
    this.channel.onmessage = ({ data: caseId }) => caseId === this.caseId && this.look();
    this.unwatch = watchConnection((lost) => this.connection(lost));
    this.timers = [
      setInterval(() => this.tick(), 1000),
      setInterval(() => document.visibilityState === "visible" && this.look(), LOOK_MS),
      setInterval(() => this.alive(), ALIVE_MS),
    ];
    this.gone = new AbortController();
    const hear = (target, kind, heard) => target.addEventListener(kind, heard, { signal: this.gone.signal });
    hear(document, "keydown", (event) => this.key(event));
    hear(document, "visibilitychange", () => document.visibilityState === "visible" && this.look());
    hear(document, "second-look-waits", ({ detail }) => this.waits(detail));
    hear(document, "second-look-act", ({ detail: { kind, ...body } }) => this.outbox.post(kind, body));
    hear(document, "second-look-filter", () => this.stage && this.paint());
    hear(window, "popstate", () => this.seek());
    hear(window, "focus", () => this.look());
    hear(this.layout.root, "pointerdown", () => (this.active = true));
    this.sizes = new ResizeObserver(() => this.place()); // what stands fixed at the foot must cover nothing of the form
    for (const sized of [document.documentElement, this.layout.bar, this.form.needed]) this.sizes.observe(sized);
    forgetOld();
  }

  // What the list has just heard of the queue: an empty desk says no longer what was so when it was drawn.
  waits({ words, hidden }) {
    this.layout.drawHidden(hidden, () => this.go("urgent"));
    if (this.stage !== "idle" || !words || this.data.words === words) return;
    this.data = { ...this.data, words };
    this.layout.drawNone("No case open", words);
  }

  close() {
    this.unwatch();
    this.channel.close();
    for (const timer of [...this.timers, this.draftTimer, this.restTimer, this.outbox.timer]) clearTimeout(timer);
    this.outbox.stopped = true;
    this.sizes.disconnect();
    this.gone.abort();
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

  // Whether the form is of a review that is being made or changed.
  get mayChange() {
    return this.stage === "reviewing" || (this.stage === "read" && this.revising);
  }

  // It says what N keeps to, where a filter is on: on a narrow page the list with its priorities is out of sight.
  get nextButton() {
    const only = PRIORITIES.filter((priority) => inAddress("priorities").split(",").includes(priority));
    const words = only.length && only.length < PRIORITIES.length ? ` of ${only.join(", ")}` : "";
    return [`Next case${words}`, "N", () => this.go("next"), "sld-primary"];
  }

  now() {
    return Date.now() + this.ahead;
  }

  // ---- what the server says

  // A run of the page behind the desk: who is here, and what is set for it.
  mounted(page, run) {
    this.page = page;
    this.run = run;
    this.outbox.stopped = false;
    if (this.stage) this.paint();
    if (this.stage) this.outbox.send();
    else this.exchange();
  }

  // The case that the address names, where somebody went back to it.
  seek() {
    const named = inAddress("case");
    if (this.stage && this.onInbox() && named !== (this.caseId ?? "")) this.outbox.post("open", { case: named || null });
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
    this.silent = status === 0;
    this.fault = status === 0 || status === 200 ? "" : (said.words ?? FAULT);
    this.drawLost();
    if (status !== 200) {
      if (!this.stage && !actions) setTimeout(() => this.stage || this.outbox.stopped || this.exchange(), AGAIN_MS);
      return false;
    }
    this.heard(said, number);
    return true;
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
    }
    this.askForRest();
    if (JSON.stringify(data.me) === JSON.stringify(this.page.me)) this.runs = 0;
    else this.runAgain();
  }

  // The page says who is here, and what they may do by now.
  runAgain() {
    this.runs += 1;
    if (this.runs <= MOST_RUNS) this.run?.("run", Date.now());
  }

  // What was done here changes what stands beside the desk: the rest of the page comes once the reviewer has the answer.
  askForRest() {
    if (!this.behind) return;
    clearTimeout(this.restTimer);
    document.dispatchEvent(new CustomEvent("second-look-done")); // the list asks by itself, at once
    const rest = () => {
      if (this.outbox.waiting.length) return (this.restTimer = setTimeout(rest, REST_MS));
      this.behind = false;
      this.run?.("run", Date.now());
    };
    this.restTimer = setTimeout(rest, REST_MS);
  }

  answered(request, { ok, words }) {
    if (!ok) this.layout.alert.textContent = words;
    if (!STAYS.has(request.kind)) this.behind = true;
    if (request.kind === "draft" && ok) {
      forget(this.me, request.case, request.form.rev);
      const newest = request.case === this.caseId && this.mayChange && request.form.rev === this.form.choices.rev;
      if (newest) this.layout.drafted.textContent = `Draft saved ${when(this.now())}`;
    }
    if (request.kind === "undo" && !ok) this.revealed.add(request.case); // from now on it can only be edited
    if (this.saving?.id === request.id) {
      this.saving = null;
      if (ok) forget(this.me, request.case);
      if (ok) this.reason.blur(); // a field that is taken away keeps the keys until the next frame
      if (request.kind === "revise") this.revising = this.revising && !ok;
      else if (ok) this.channel.postMessage(request.case);
      else for (const kind of AFTER_A_SAVE) this.outbox.drop(kind);
    }
    if (request.note && ok && request.kind !== "revise") {
      forget(this.me, request.case); // the note has gone with the case
      if (request.case === this.caseId) this.noteIs("");
    }
  }

  askForReveal() {
    const { stage, read } = this.data;
    const leaving = ["next", "urgent", "undo", "reveal", "previous"].some((kind) => this.outbox.waits(kind));
    if (stage === "read" && !read.revealed && !leaving) this.outbox.post("reveal", { case: this.data.case.id });
  }

  connection(lost) {
    this.off = lost;
    this.drawLost();
    if (lost) return;
    this.outbox.send();
    this.look();
  }

  drawLost() {
    const words = this.off || this.silent ? LOST : this.fault;
    this.layout.lost.textContent = words ? `${words} ${KEPT}` : "";
    this.layout.root.classList.toggle("sld-off", Boolean(words));
  }

  look() {
    if (this.outbox.stopped || this.outbox.waiting.length) return;
    if (["reviewing", "over", "read"].includes(this.stage)) this.exchange();
  }

  alive() {
    if (this.active && this.stage === "reviewing") this.outbox.post("alive", { case: this.caseId });
    this.active = false;
  }

  tick() {
    this.drawTimes();
    const over = this.stage === "reviewing" && this.shown.expires && this.shown.expires <= this.now();
    if (over && !this.outbox.waiting.length) this.look();
  }

  // ---- what is filled in

  changed() {
    this.active = true;
    this.layout.alert.textContent = "";
    if (!this.mayChange || this.saving) return;
    this.form.choices.rev = Date.now();
    keepHere(this.me, this.caseId, this.draft());
    this.layout.drafted.textContent = "";
    this.drawSave();
    this.firstUnsent ||= Date.now();
    clearTimeout(this.draftTimer);
    const wait = Math.min(DRAFT_MS, Math.max(0, this.firstUnsent + DRAFT_AT_MOST_MS - Date.now()));
    this.draftTimer = setTimeout(() => this.sendDraft(), wait);
  }

  draft() {
    const marks = [...this.panes.text.marks, ...this.panes.reply.marks];
    const revision = this.revising ? { revision: true, reason: this.reason.value } : {};
    const leaving = this.leaving && this.stage === "reviewing" ? { leaving: this.leaving } : {};
    return { ...this.form.choices, marks, ...leaving, ...revision };
  }

  // How many words are marked, by part.
  marked() {
    return { text: this.panes.text.marks.length, reply: this.panes.reply.marks.length };
  }

  // Whether a review can keep so many marks in text and reply together; it is said where it can't.
  marksFit({ text, reply }) {
    const most = this.page.offer.most_marks;
    if (text + reply <= most) return true;
    this.layout.alert.textContent = `At most ${most} highlights. Click a highlight to remove it.`;
    return false;
  }

  stopDraft() {
    clearTimeout(this.draftTimer);
    this.firstUnsent = 0;
  }

  sendDraft() {
    this.firstUnsent = 0;
    if (!this.saving && this.caseId) this.outbox.post("draft", { case: this.caseId, form: this.draft() });
  }

  load() {
    const key = `${this.caseId}/${this.stage === "read"}/${this.revising}`;
    if (!["reviewing", "read"].includes(this.stage) || key === this.loaded) return false;
    this.stopDraft();
    this.loaded = key;
    this.ended = new Set();
    const theirs = this.data.draft ?? {};
    const here = keptHere(this.me, this.caseId);
    const newer = here && (here.rev ?? 0) > (theirs.rev ?? 0);
    let filled = newer ? here : theirs;
    const stored = this.stage === "read" && !filled.revision;
    if (stored) filled = { ...this.data.read.form };
    this.form.show(filled);
    this.marks = filled.marks ?? [];
    this.reason.value = filled.reason ?? "";
    this.noteIs(filled.leaving ?? "");
    this.layout.drafted.textContent = newer && !stored ? "What you had filled in is back." : "";
    if (newer && this.stage === "reviewing") this.sendDraft();
    return true;
  }

  noteIs(words) {
    this.leaving = words;
    if (this.layout.dialog.open) this.layout.note.value = words;
  }

  // ---- what the reviewer does

  save() {
    this.layout.alert.textContent = ""; // what was said of an earlier press
    if (this.saving || this.outbox.waits("save")) return;
    if (!this.mayChange || this.shown.text === null) return;
    const lacking = this.form.missingWords();
    if (lacking) {
      this.layout.alert.textContent = lacking;
      return;
    }
    if (!this.marksFit(this.marked())) return;
    if (this.revising && !this.reason.value.trim()) {
      this.layout.alert.textContent = "Enter a reason for the change.";
      this.reason.focus();
      return;
    }
    this.stopDraft();
    this.outbox.drop("draft");
    this.send();
    this.drawSave();
  }

  send() {
    const { revision: _, reason: __, leaving: ___, ...form } = this.draft();
    const parts = this.shown.reply === null ? ["text"] : ["text", "reply"];
    form.read_to_end = this.revising ? form.read_to_end : parts.every((part) => this.ended.has(part));
    const given = { case: this.caseId, form };
    const id = this.revising
      ? this.outbox.post("revise", { ...given, note: this.reason.value })
      : this.outbox.post("save", { ...given, token: this.shown.token });
    this.saving = { id, case: this.caseId, words: this.form.words() };
  }

  // Whether a change is under way that would be left behind unsaved; it is said where it is.
  isChanging() {
    const changing = this.revising && !this.saving;
    if (changing) this.layout.alert.textContent = "Save the change (Ctrl+Enter) or cancel it (Esc) first.";
    return changing;
  }

  // What takes the reviewer away from this case: to the next one, to the next P0 case whatever the filter, or elsewhere.
  go(kind) {
    if (this.outbox.waits(kind) || this.isChanging()) return;
    const unread = ["next", "urgent"].includes(kind) && this.stage === "reviewing" && !this.saving;
    if (unread) this.layout.alert.textContent = "Submit this review (Ctrl+Enter) or skip the case (S) first.";
    else this.outbox.post(kind);
  }

  undo() {
    const last = this.data.last;
    if (this.saving && !this.revising) return this.outbox.post("undo", { case: this.caseId, review: this.saving.id });
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

  leave(kind, note = "", to = "") {
    this.layout.alert.textContent = "";
    if (this.stage !== "reviewing" || this.saving) return;
    if ([kind, ...Object.keys(WAYS_TO_LEAVE)].some((each) => this.outbox.waits(each))) return; // pressed twice: the first is on its way
    this.outbox.post(kind, { case: this.caseId, token: this.shown.token, note, ...(kind === "hand_over" && { to }) });
  }

  // The way out by key or button: a P0 or P1 case asks first, and so does what cannot do without a note.
  away(kind) {
    this.layout.alert.textContent = "";
    if (this.stage !== "reviewing" || this.saving) return;
    const shown = this.shown;
    if (["skip", "not_me"].includes(kind) && !shown.needs_note) return this.leave(kind, this.leaving);
    if (kind === "hand_over" && !shown.colleagues.length) {
      this.layout.alert.textContent = "No other reviewer is set up. Add one in Admin > Settings.";
      return;
    }
    const [title, words] = WAYS_TO_LEAVE[kind];
    const urgent = shown.needs_note ? "P0 and P1 cases need a hand-off note before you leave them." : "Enter a note for the next reviewer.";
    this.layout.openLeave({
      title,
      words,
      needed: kind === "not_me" ? "" : urgent,
      colleagues: kind === "hand_over" ? shown.colleagues : null,
      note: this.leaving,
      changed: (note) => {
        this.leaving = note;
        this.changed();
      },
      confirm: (note, to) => this.leave(kind, note, to),
    });
  }

  panel(name) {
    this.panelShown = this.panelShown === name ? "" : name;
    this.drawPanel();
    if (this.panelShown) this.layout.panel.scrollIntoView({ block: "nearest" });
  }

  again() {
    this.layout.alert.textContent = ""; // why it had gone
    if (["over", "named"].includes(this.stage) && this.data.may_take) this.outbox.post("take", { case: this.caseId });
  }

  skip() {
    if (this.stage === "over") this.outbox.post("leave");
    else this.away("skip");
  }

  key(event) {
    if (event.defaultPrevented || !this.page.keys || (!this.layout.root.isConnected && !this.onInbox())) return;
    if (this.layout.dialog.open || document.querySelector('[role="dialog"]')) return;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      if (!event.repeat) this.save();
      return;
    }
    const at = event.composedPath()[0]; // the field itself, also where it stands in the shadow of another component
    const typing = at.closest?.("textarea, select, [contenteditable=true], input:not([type=radio]):not([type=checkbox])");
    if (typing && this.layout.root.contains(at) && event.key === "Escape") at.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = this.keys()[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act || (event.repeat && !/[1-8]/.test(event.key))) return;
    event.preventDefault();
    this.active = true;
    act();
  }

  keys() {
    const choose = (key) => () => this.mayChoose() && this.form.key(key);
    const fold = (which) => () => {
      which.open = !which.open;
      which.querySelector("summary").focus({ preventScroll: true });
      which.scrollIntoView({ block: "nearest" });
    };
    return {
      t: () => this.again(),
      ...Object.fromEntries([..."12345678"].map((key) => [key, choose(key)])),
      ...(this.mayChange && Object.fromEntries(this.page.offer.dispositions.map(([, , key]) => [key.toLowerCase(), choose(key)]))),
      n: () => this.go("next"),
      u: () => this.undo(),
      p: () => this.go("previous"),
      v: () => this.revise(),
      f: () => this.go("finish"),
      s: () => this.skip(),
      x: () => this.away("not_me"),
      a: () => !this.shown?.asked && this.leave("second", this.leaving),
      h: () => this.away("hold"),
      b: () => (this.data.rest ? this.outbox.post("take_break") : this.away("hand_over")),
      o: () => this.stage === "reviewing" && this.shown.text === null && this.outbox.post("uncover", { case: this.caseId }),
      i: () => this.mayOpenAtOnce() && this.outbox.post("at_once", { case: this.caseId }),
      ",": () => this.panes.text.turn(-1),
      ".": () => this.panes.text.turn(1),
      m: () => this.mayChoose() && this.panes.text.pick(),
      c: fold(this.form.what),
      d: fold(this.form.why),
      g: () => this.panel("guideline"),
      "?": () => this.panel("keys"),
      Escape: () => this.escape(),
    };
  }

  onInbox() {
    return location.pathname.endsWith("/inbox");
  }

  // What lies over the case is closed first; only then a change is left.
  escape() {
    const open = this.panelShown;
    this.panelShown = "";
    if (!open) this.leaveChange();
    else this.paint();
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

  mayChoose() {
    return !this.saving && (this.stage === "reviewing" ? this.shown.text !== null : this.revising);
  }

  mayOpenAtOnce() {
    return this.stage === "reviewing" && this.shown.at_once && !this.shown.evidence;
  }

  // ---- what is shown

  paint() {
    const { layout } = this;
    const stage = this.stage;
    if (this.reviseNext && this.reviseNext === this.caseId && stage === "read") {
      this.revising = true;
      this.reviseNext = null;
    }
    if (stage !== "read") this.revising = false;
    const caseChanged = this.paintedCase !== this.caseId;
    if (caseChanged || stage !== "reviewing") layout.dialog.close();
    this.paintedCase = this.caseId;
    if (caseChanged && !this.outbox.waits("save")) layout.alert.textContent = "";
    this.form.needing = this.shown?.needing ?? [];
    const fresh = this.load();
    this.form.draw();
    if (!this.mayChange) layout.drafted.textContent = ""; // of what is read, or gone, no draft may be left
    layout.root.dataset.stage = stage;
    layout.root.dataset.revising = this.revising;
    layout.root.dataset.keys = this.page.keys ? "on" : "off";
    layout.who.textContent = `Signed in as ${this.page.me.name}`;
    layout.said.textContent = this.data.said;
    layout.drawRest(this.data.rest, (kind) => this.outbox.waits(kind) || this.outbox.post(kind));
    layout.drawHead(this.shown);
    layout.none.hidden = true;
    this.drawTexts(fresh);
    this.drawStage();
    this.drawTimes();
    this.drawPanel();
    this.drawSave();
    this.drawLost();
    if (caseChanged && stage === "reviewing") this.focusText();
    this.place();
    this.showStart();
  }

  // Where all stands one under the other, or much stands above the desk, what has just come begins at its beginning.
  showStart() {
    const shows = `${this.caseId}/${this.stage}`;
    const come = this.startShown !== undefined && shows !== this.startShown;
    this.startShown = shows;
    if (come && (this.isLow || window.matchMedia("(max-width: 60rem)").matches)) this.layout.root.scrollIntoView({ block: "start" });
  }

  focusText() {
    const at = document.activeElement;
    if (at === document.body || this.layout.root.contains(at)) this.panes.text.box.focus({ preventScroll: true });
  }

  drawTexts(fresh) {
    const shown = this.shown;
    const read = this.stage === "read" ? this.data.read : { others: [], rules: [] };
    const rules = read.rules.map((mark) => ({ ...mark, kind: "rule" }));
    const others = [...read.others.flatMap(({ who, marks }) => marks.map((mark) => ({ ...mark, who }))), ...rules];
    const key = JSON.stringify([this.caseId, shown?.text, others.length, shown?.evidence?.length, this.stage]);
    for (const [part, pane] of Object.entries(this.panes)) {
      const text = shown?.[part] ?? null;
      pane.root.hidden = text === null;
      pane.frozen = !this.mayChoose();
      if (fresh || key !== this.drawnTexts) pane.show(text ?? "", fresh ? this.marks : pane.marks, others, (part === "text" && shown?.turns) || []);
    }
    if (key !== this.drawnTexts) {
      this.layout.evidence.replaceChildren(shown?.evidence ? trusted(shown.evidence) : "");
      this.layout.drawNear(shown?.near ?? []);
      this.layout.notes.replaceChildren(...(shown?.notes ?? []).map((words) => make("p", {}, words)));
    }
    this.layout.drawDanger(["reviewing", "read"].includes(this.stage) ? this.page.help : {});
    this.layout.texts.hidden = !shown || (shown.text ?? null) === null;
    this.drawnTexts = key;
  }

  drawStage() {
    const { layout, data } = this;
    const next = this.nextButton;
    layout.title.textContent = { reviewing: "Your review", read: this.revising ? "Edit your review" : "Saved", idle: "My work" }[this.stage] ?? "This case";
    layout.receipt.replaceChildren();
    layout.points.replaceChildren(...((this.mayChange && data.points) || []).map((words) => make("li", {}, words)));
    if (this.stage === "idle") {
      layout.drawNone("No case open", data.words);
      layout.drawBar([[next], [["Previous", "P", this.keys().p], ["End session", "F", this.keys().f], ["Keys", "?", this.keys()["?"]]]]);
    } else if (this.stage === "named") {
      layout.drawNone("Not assigned to you", data.words);
      layout.drawBar([...(data.may_take ? [[["Take this case", "T", () => this.again(), "sld-primary"]]] : []), [next]]);
    } else if (this.stage === "over") {
      layout.drawNone("This case is no longer open here", data.words);
      const take = [["Reopen this case", "T", () => this.again(), "sld-primary"], ["Close it here", "S", () => this.skip()]];
      const mine = [["Show my review", "", () => this.outbox.post("previous", { case: this.caseId }), "sld-primary"]];
      layout.drawBar([data.may_take ? take : data.mine ? mine : [["Close it here", "S", () => this.skip()]], [next]]);
    } else if (this.stage === "read" && !this.revising) this.drawRead();
    else this.drawReview();
  }

  drawRead() {
    const { layout, data } = this;
    const { words, version, blind, becomes, follow_ups: open, receipt, engine, compared, others, act } = data.read;
    const small = (...children) => make("p", { class: "sld-small" }, ...children);
    const lines = [
      make("p", {}, "✓ Saved: ", make("b", {}, words), version > 1 ? ` (version ${version}).` : "."),
      make("p", { class: "sld-follows" }, becomes),
      ...open.map((one) => make("p", { class: "sld-follows" }, make("b", {}, one.words), `, by ${when(one.due)}`)),
      ...(blind ? [] : [small("Not counted in accuracy estimates, because you had seen the AI result.")]),
      ...(data.read.form.read_to_end === false ? [small("You submitted before scrolling to the end.")] : []),
      ...(engine ? [make("p", {}, make("b", {}, "AI result: "), engine), make("p", {}, compared)] : []),
      ...data.read.rules.map((one) => make("p", {}, one.words)),
      ...(act ? [make("p", {}, make("b", {}, "Where to act: "), act.href ? make("a", { href: act.href, target: "_blank", rel: "noopener noreferrer" }, act.words) : act.words)] : []),
      ...others.map((other) => make("p", {}, make("b", {}, `Another reviewer (${other.who}): `), other.words)),
    ];
    layout.receipt.replaceChildren(...lines);
    layout.receipt.title = `Audit ID ${receipt.id}, ${when(receipt.at)}`;
    layout.drawBar([
      [this.nextButton],
      [["Edit my review", "V", () => this.revise()], ["End session", "F", this.keys().f], ["Previous", "P", this.keys().p]],
    ]);
    layout.receipt.append(make("p", {}, make("a", { href: `case?case=${this.caseId}`, target: "_self" }, "Full case history")));
  }

  drawReview() {
    const { layout, shown } = this;
    if (this.revising) {
      layout.drawBar([[["Save the change", "Ctrl+Enter", () => this.save(), "sld-primary sld-save"], ["Cancel", "Esc", () => this.leaveChange()]]]);
      return;
    }
    if (shown.text === null) {
      const open = layout.button("Open the text", "O", this.keys().o, "sld-primary");
      layout.drawNone("Text hidden", "Press O to view it.", [open]);
    }
    layout.drawBar([
      [["Submit review", "Ctrl+Enter", () => this.save(), "sld-primary sld-save"]],
      [
        ["Skip", "S", () => this.skip()],
        ["Hold", "H", () => this.away("hold")],
        ["Transfer", "B", () => this.away("hand_over")],
        ["Decline", "X", () => this.away("not_me")],
      ],
      [
        [shown.asked ? "✓ Second review requested" : "Request second review", "A", this.keys().a],
        ...(this.mayOpenAtOnce() ? [["Show AI evidence (unblinds)", "I", this.keys().i]] : []),
      ],
    ]);
    layout.hint.replaceChildren(
      ...(shown.text === null ? [] : ["Highlight the key words: drag, or press ", make("kbd", {}, "M"), ". "]),
      layout.button("Guideline", "G", this.keys().g, "sld-link"), " · ", layout.button("Keys", "?", this.keys()["?"], "sld-link"),
    );
  }

  drawSave() {
    const button = this.layout.bar.querySelector(".sld-save");
    this.form.freeze(Boolean(this.saving));
    for (const pane of Object.values(this.panes)) pane.frozen = !this.mayChoose();
    this.layout.root.classList.toggle("sld-saving", Boolean(this.saving));
    this.drawThen();
    if (!button) return;
    const words = this.form.words();
    const does = this.revising ? "Save the change" : "Submit";
    const title = this.saving ? `Saving: ${this.saving.words} …` : words ? `${does}: ${words}` : this.revising ? does : "Submit review";
    button.firstChild.textContent = title;
    button.disabled = this.shown?.text === null;
  }

  // What the disposition will ask for, before it is saved.
  drawThen() {
    const minutes = this.mayChange ? this.form.disposition?.[3] : null;
    this.layout.then.textContent = minutes ? `Then: follow-up for you, due ${when(this.now() + 60000 * minutes)}.` : "";
  }

  drawPanel() {
    this.layout.panel.hidden = !this.panelShown;
    if (this.panelShown === "guideline") this.layout.drawGuideline(this.page.guideline);
    if (this.panelShown === "keys") this.layout.drawKeys(this.page.offer.keys, this.page.keys);
    this.place();
  }

  drawTimes() {
    const { layout, shown } = this;
    const now = this.now();
    const left = (shown?.due ?? 0) - now;
    const open = this.stage === "reviewing" || (this.stage === "over" && this.data.may_take);
    const waits = Boolean(shown?.why) && open; // a target is for what this reviewer may still look at
    layout.why.textContent = waits ? `${shown.why} · ${left > 0 ? "due in" : "overdue"} ${span(left)}` : (shown?.why ?? "");
    layout.why.classList.toggle("sld-late", waits && left <= 0);
    const held = (shown?.expires ?? 0) - now;
    layout.lease.hidden = !["reviewing", "read"].includes(this.stage);
    layout.lease.textContent = this.stage === "read" ? "✓ reviewed by you" : `Assigned to you (${clock(held)}, renews while active)`;
    layout.lease.classList.toggle("sld-low", this.stage === "reviewing" && held <= LOW_MS);
    this.drawFoot(now);
  }

  drawFoot(now) {
    const last = this.data.last;
    const open = last && last.until > now;
    const key = open ? `${last.review}${Math.ceil((last.until - now) / 1000)}` : (last?.review ?? "");
    if (key === this.drawnFoot) return;
    this.drawnFoot = key;
    const saved = last ? [make("span", {}, `Saved ${when(last.at)}: ${last.name}, ${last.words}. `)] : [];
    const undo = open ? [this.layout.button("Undo", "U", () => this.undo(), "sld-link"), ` ${Math.ceil((last.until - now) / 1000)} s`] : [];
    this.layout.foot.replaceChildren(...saved, ...undo);
  }

  place() {
    const top = this.layout.root.getBoundingClientRect().top + (document.querySelector('[data-testid="stMain"]')?.scrollTop ?? 0);
    this.isLow = top > LOW_FROM * window.innerHeight; // below follow-ups, say: it then has the window's height to itself
    this.layout.root.style.setProperty("--sld-top", this.isLow ? "4rem" : `${Math.max(0, Math.round(top))}px`);
    const bar = this.layout.bar.getBoundingClientRect().height;
    const needed = this.form.needed.getBoundingClientRect().height;
    this.layout.root.style.setProperty("--sld-buttons", `${Math.floor(bar)}px`);
    const whole = `${Math.round(bar + needed)}px`;
    this.layout.root.style.setProperty("--sld-bar", whole);
    document.documentElement.style.setProperty("--sld-bar", whole); // for the end of the page, which the bar covers
  }
}

let desk = null;
let leaving = 0;

function leave() {
  clearTimeout(leaving);
  leaving = setTimeout(() => {
    if (desk?.onInbox()) return leave(); // a slow run of the page: it comes back
    desk?.close();
    desk = null;
  }, GONE_MS);
}

// Streamlit may take the component away and put it back in one run of the page: the desk lives on, and so does a save
// that is on its way. Only a page that was left for good ends it.
export default function ({ data: [page], parentElement, setTriggerValue }) {
  clearTimeout(leaving);
  if (desk && desk.me !== page.me.id) {
    desk.close();
    desk.layout.root.remove();
    desk = null; // somebody else signed in: nothing of the person before is sent or shown
  }
  desk ??= new Desk(page);
  const placed = desk.layout.root.parentElement === parentElement;
  if (!placed) parentElement.append(desk.layout.root);
  desk.mounted(page, setTriggerValue);
  if (!placed) desk.seek();
  return () => {
    if (!desk || desk.layout.root.parentElement !== parentElement) return; // it stands elsewhere already
    desk.run = null;
    desk.layout.root.remove();
    leave();
  };
}
