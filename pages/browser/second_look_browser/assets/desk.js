// The review desk. Every choice is made and shown here; the server hears of it as a draft, and of the review in one
// action that carries what was shown. A page has one desk: it outlives each run of the page behind it.
import { make, refill } from "./dom.js";
import { forget, forgetOld, keepHere, keptHere } from "./drafts.js";
import { Form } from "./form.js";
import { clock, Layout, span, when } from "./layout.js";
import { watchConnection } from "./line.js";
import { Outbox } from "./outbox.js";
import { ask, inAddress, setInAddress } from "./server.js";
import { TextPane } from "./text.js";

const DRAFT_MS = 1200;
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
    this.form = new Form(page.offer, () => this.changed());
    this.reason = make("input", { type: "text", maxlength: 2000, class: "sld-input", oninput: () => this.changed() });
    const reason = make("label", { class: "sld-block sld-reason" }, "Reason for change (required)", this.reason);
    this.form.root.lastChild.before(reason); // not below, where the buttons may lie over it
    const heard = { changed: () => this.changed(), ended: (part) => this.ended.add(part), fits: () => this.fits(1) };
    this.text = new TextPane("text", "Text of this case", heard);
    this.panes = [this.text, new TextPane("reply", "The reply to it", heard)];
    this.layout = new Layout(this.form.root, this.panes.map((pane) => pane.root), (key) => this.press(key));
    this.ended = new Set();
    this.revealed = new Set();
    this.loaded = "";
    this.saving = null; // the save on its way: nothing can be changed until it is answered
    this.leaving = ""; // the note for the next reviewer, as far as it is written
    this.revising = false;
    this.panelShown = "";
    this.active = false;
    this.channel = new BroadcastChannel("second-look-desk");
    this.channel.onmessage = ({ data: caseId }) => caseId === this.caseId && this.look();
    this.unwatch = watchConnection((lost) => this.connection(lost));
    this.timers = [
      setInterval(() => this.tick(), 1000),
      setInterval(() => this.look(), LOOK_MS),
      setInterval(() => this.alive(), ALIVE_MS),
    ];
    this.gone = new AbortController();
    const hear = (target, kind, heard) => target.addEventListener(kind, heard, { signal: this.gone.signal });
    hear(document, "keydown", (event) => this.key(event));
    hear(document, "visibilitychange", () => this.look());
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
    if (this.stage !== "idle" || !words) return;
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

  get mayChoose() {
    return this.mayChange && !this.saving && this.shown.text !== null;
  }

  get mayOpenAtOnce() {
    return this.stage === "reviewing" && this.shown.at_once && !this.shown.evidence;
  }

  get marks() {
    return this.panes.flatMap((pane) => pane.marks);
  }

  now() {
    return Date.now() + this.ahead;
  }

  say(words) {
    this.layout.alert.textContent = words;
  }

  // ---- what the server says

  // A run of the page behind the desk: who is here, and what is set for it.
  mounted(page, run) {
    this.page = page;
    this.run = run;
    this.outbox.stopped = false;
    if (!this.stage) return this.exchange();
    this.paint();
    this.outbox.send();
  }

  // What a link asks for, before what lay here: the first case of an upload ("Start reviewing"), or the case it names.
  // What was open and unread stays with its reviewer.
  arrive() {
    const named = inAddress("case");
    if (inAddress("start")) {
      setInAddress("start", "");
      this.outbox.post("leave");
      this.outbox.post("next");
    } else if (named && named !== this.caseId) this.outbox.post("open", { case: named });
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
    this.fault = { 0: LOST, 200: "" }[status] ?? said.words ?? FAULT;
    this.drawLost();
    if (status === 200) this.heard(said, number);
    else if (!this.stage && !actions) setTimeout(() => this.stage || this.outbox.stopped || this.exchange(), AGAIN_MS);
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
    // the list asks by itself, at once, but not before whoever works on has their next text
    if (!this.outbox.waiting.length) document.dispatchEvent(new CustomEvent("second-look-done"));
    this.restTimer = setTimeout(() => {
      if (this.outbox.waiting.length) return; // with its answer the rest is asked for again
      this.behind = false;
      this.run?.("run", Date.now());
    }, REST_MS);
  }

  answered(request, { ok, words }) {
    if (!ok) this.say(words);
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
    if (stage === "read" && !read.revealed && !leaving) this.outbox.post("reveal", { case: this.caseId });
  }

  connection(lost) {
    this.off = lost;
    this.drawLost();
    if (lost) return;
    this.outbox.send();
    this.look();
  }

  drawLost() {
    const words = this.off ? LOST : this.fault;
    this.layout.lost.textContent = words ? `${words} ${KEPT}` : "";
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
    this.drawTimes();
    const over = this.stage === "reviewing" && this.shown.expires && this.shown.expires <= this.now();
    if (over) this.look();
  }

  // ---- what is filled in

  changed() {
    this.active = true;
    this.say("");
    if (!this.mayChange || this.saving) return;
    this.form.choices.rev = Date.now();
    keepHere(this.me, this.caseId, this.draft());
    this.layout.drafted.textContent = "";
    this.drawSave();
    this.draftTimer ??= setTimeout(() => this.sendDraft(), DRAFT_MS);
  }

  draft() {
    const revision = this.revising && { revision: true, reason: this.reason.value };
    const leaving = this.leaving && this.stage === "reviewing" && { leaving: this.leaving };
    return { ...this.form.choices, marks: this.marks, ...leaving, ...revision };
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

  // Fills the form in where it is another case's than before, or has another purpose; returns whether it did.
  load() {
    const key = `${this.caseId}/${this.stage === "read"}/${this.revising}`;
    if (!["reviewing", "read"].includes(this.stage) || key === this.loaded) return false;
    this.stopDraft();
    this.loaded = key;
    this.ended = new Set();
    const here = keptHere(this.me, this.caseId) ?? {};
    const newer = (here.rev ?? 0) > (this.data.draft.rev ?? 0);
    const draft = newer ? here : this.data.draft;
    const stored = this.stage === "read" && !draft.revision;
    const { reason = "", leaving = "", marks = [], ...choices } = stored ? this.data.read.form : draft;
    this.form.show(choices);
    this.loadedMarks = marks;
    this.reason.value = reason;
    this.noteIs(leaving);
    this.layout.drafted.textContent = newer && !stored ? "What you had filled in is back." : "";
    if (newer && this.stage === "reviewing") this.draftTimer = setTimeout(() => this.sendDraft()); // once its marks are drawn
    return true;
  }

  noteIs(words) {
    this.leaving = words;
    if (this.layout.leave.open) this.layout.note.value = words;
  }

  // ---- what the reviewer does

  save() {
    if (this.saving || this.outbox.waits("save")) return;
    if (!this.mayChange || this.shown.text === null) return;
    const lacking = this.form.missingWords();
    if (lacking) return this.say(lacking);
    if (!this.fits(0)) return;
    const { revising } = this;
    const note = this.reason.value;
    if (revising && !note.trim()) {
      this.say("Enter a reason for the change.");
      this.reason.focus({ preventScroll: true });
      this.reason.parentElement.scrollIntoView({ block: "nearest" });
      return;
    }
    this.stopDraft();
    this.outbox.drop("draft");
    const parts = this.shown.reply === null ? ["text"] : ["text", "reply"];
    const read_to_end = revising ? this.form.choices.read_to_end : parts.every((part) => this.ended.has(part));
    const given = { case: this.caseId, form: { ...this.form.choices, marks: this.marks, read_to_end } };
    const [kind, more] = revising ? ["revise", { note }] : ["save", { token: this.shown.token }];
    this.saving = { id: this.outbox.post(kind, { ...given, ...more }), words: this.form.words() };
    this.drawSave();
  }

  // What takes the reviewer away from this case: to the next one, to the next P0 case whatever the filter, or elsewhere.
  go(kind) {
    if (this.outbox.waits(kind)) return;
    const unread = ["next", "urgent"].includes(kind) && this.stage === "reviewing";
    if (this.revising && !this.saving) this.say("Save the change (Ctrl+Enter) or cancel it (Esc) first.");
    else if (unread && !this.saving) this.say("Submit this review (Ctrl+Enter) or skip the case (S) first.");
    else this.outbox.post(kind);
  }

  once(kind) {
    if (!this.outbox.waits(kind)) this.outbox.post(kind);
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
    if (this.stage !== "reviewing" || this.saving) return;
    const ways = [kind, ...Object.keys(WAYS_TO_LEAVE)];
    if (ways.some((each) => this.outbox.waits(each))) return; // pressed twice: the first is on its way
    this.outbox.post(kind, { case: this.caseId, token: this.shown.token, note, ...(kind === "hand_over" && { to }) });
  }

  // The way out by key or button: a P0 or P1 case asks first, and so does what cannot do without a note.
  away(kind) {
    if (this.stage !== "reviewing" || this.saving) return;
    const { needs_note: urgent, colleagues } = this.shown;
    if (["skip", "not_me"].includes(kind) && !urgent) return this.leave(kind, this.leaving);
    if (kind === "hand_over" && !colleagues.length) return this.say("No other reviewer is set up. Add one in Admin > Settings.");
    const [title, words] = WAYS_TO_LEAVE[kind];
    const needed = urgent ? "P0 and P1 cases need a hand-off note before you leave them." : "Enter a note for the next reviewer.";
    this.layout.openLeave({
      title,
      words,
      needed: kind === "not_me" ? "" : needed,
      colleagues: kind === "hand_over" ? colleagues : null,
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

  key(event) {
    if (event.defaultPrevented || !this.page.keys || (!this.layout.root.isConnected && !this.onInbox())) return;
    if (this.layout.leave.open || document.querySelector('[role="dialog"]')) return;
    const control = event.ctrlKey || event.metaKey;
    const saves = control && event.key === "Enter";
    const at = event.composedPath()[0]; // the field itself, also where it stands in the shadow of another component
    const typing = at.closest?.("textarea, select, [contenteditable=true], input:not([type=radio]):not([type=checkbox])");
    if (typing && this.layout.root.contains(at) && event.key === "Escape") at.blur();
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
    const fold = (which) => () => {
      which.open = !which.open;
      which.querySelector("summary").focus({ preventScroll: true });
      which.scrollIntoView({ block: "nearest" });
    };
    const dispositions = this.mayChange ? this.page.offer.dispositions.map(([, , key]) => key.toLowerCase()) : [];
    const choose = (key) => [key, () => this.mayChoose && this.form.key(key)];
    return {
      t: () => this.data.may_take && this.outbox.post("take", { case: this.caseId }),
      ...Object.fromEntries([..."12345678", ...dispositions].map(choose)),
      "ctrl+enter": () => this.save(),
      n: () => this.go("next"),
      u: () => this.undo(),
      p: () => this.go("previous"),
      v: () => this.revise(),
      f: () => this.go("finish"),
      s: () => (this.stage === "over" ? this.outbox.post("leave") : this.away("skip")),
      x: () => this.away("not_me"),
      a: () => !this.shown?.asked && this.leave("second", this.leaving),
      h: () => this.away("hold"),
      b: () => (this.data.rest ? this.once("take_break") : this.away("hand_over")),
      o: () => this.stage === "reviewing" && this.shown.text === null && this.outbox.post("uncover", { case: this.caseId }),
      i: () => this.mayOpenAtOnce && this.outbox.post("at_once", { case: this.caseId }),
      ",": () => this.text.turn(-1),
      ".": () => this.text.turn(1),
      m: () => this.mayChoose && this.text.pick(),
      c: fold(this.form.what),
      d: fold(this.form.why),
      g: () => this.panel("guideline"),
      "?": () => this.panel("keys"),
      escape: () => this.escape(),
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

  // ---- what is shown

  paint() {
    const { layout, stage, shown } = this;
    if (this.reviseNext && this.reviseNext === this.caseId && stage === "read") {
      this.revising = true;
      this.reviseNext = null;
    }
    if (stage !== "read") this.revising = false;
    const caseChanged = this.paintedCase !== this.caseId;
    if (caseChanged || stage !== "reviewing") layout.leave.close();
    this.paintedCase = this.caseId;
    if (caseChanged && !this.outbox.waits("save")) this.say("");
    this.form.needing = shown?.needing ?? [];
    const fresh = this.load();
    this.form.draw();
    if (!this.mayChange) layout.drafted.textContent = ""; // of what is read, or gone, no draft may be left
    Object.assign(layout.root.dataset, { stage, changes: this.mayChange, keys: this.page.keys ? "on" : "off" });
    layout.who.textContent = `Signed in as ${this.page.me.name}`;
    layout.said.textContent = this.data.said;
    layout.drawRest(this.data.rest, () => this.once("go_on"));
    layout.drawHead(shown);
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
    const narrow = window.matchMedia("(max-width: 60rem)").matches;
    if (come && (this.isLow || narrow)) this.layout.root.scrollIntoView({ block: "start" });
  }

  focusText() {
    const at = document.activeElement;
    if (at === document.body || this.layout.root.contains(at)) this.text.box.focus({ preventScroll: true });
  }

  drawTexts(fresh) {
    const { layout, stage } = this;
    const shown = this.shown ?? {};
    const read = stage === "read" ? this.data.read : { others: [], rules: [] };
    const rules = read.rules.map(({ words, ...mark }) => ({ ...mark, kind: "rule", title: words }));
    const theirs = ({ who, marks }) => marks.map((mark) => ({ ...mark, kind: "other", title: `Highlighted by ${who}` }));
    const others = [...read.others.flatMap(theirs), ...rules];
    for (const pane of this.panes) {
      const turns = (pane === this.text && shown.turns) || [];
      pane.frozen = !this.mayChoose;
      pane.show(shown[pane.part] ?? null, fresh ? this.loadedMarks : pane.marks, others, turns);
    }
    layout.drawAround(shown);
    layout.drawDanger(["reviewing", "read"].includes(stage) ? this.page.help : {});
    layout.texts.hidden = (shown.text ?? null) === null;
  }

  drawStage() {
    const { layout, data, stage } = this;
    const primary = "sld-primary";
    // N keeps to the filter, where one is on, and says so: on a narrow page the list with its priorities is out of sight
    const only = PRIORITIES.filter((priority) => inAddress("priorities").split(",").includes(priority));
    const filtered = only.length > 0 && only.length < PRIORITIES.length;
    const next = [filtered ? `Next case of ${only.join(", ")}` : "Next case", "N", primary];
    const close = ["Close it here", "S"];
    const titles = { reviewing: "Your review", read: this.revising ? "Edit your review" : "Saved", idle: "My work" };
    layout.title.textContent = titles[stage] ?? "This case";
    if (stage !== "read" || this.revising) refill(layout.receipt, null, () => []);
    const points = (this.mayChange && data.points) || [];
    refill(layout.points, points, () => points.map((words) => make("li", {}, words)));
    if (stage === "idle") {
      layout.drawNone("No case open", data.words);
      layout.drawBar([next], [["Previous", "P"], ["End session", "F"], ["Keys", "?"]]);
    } else if (stage === "named") {
      layout.drawNone("Not assigned to you", data.words);
      layout.drawBar(...(data.may_take ? [[["Take this case", "T", primary]]] : []), [next]);
    } else if (stage === "over") {
      const mine = ["Show my review", "", primary, () => this.outbox.post("previous", { case: this.caseId })];
      layout.drawNone("This case is no longer open here", data.words);
      layout.drawBar(data.may_take ? [["Reopen this case", "T", primary], close] : [data.mine ? mine : close], [next]);
    } else if (this.revising) {
      const cancel = ["Cancel", "Esc", "", () => this.leaveChange()];
      layout.drawBar([["Save the change", "Ctrl+Enter", "sld-primary sld-save"], cancel]);
    } else if (stage === "read") {
      layout.drawReceipt(data.read, this.caseId);
      layout.drawBar([next], [["Edit my review", "V"], ["End session", "F"], ["Previous", "P"]]);
    } else this.drawReview();
  }

  drawReview() {
    const { layout, shown } = this;
    const covered = shown.text === null;
    if (covered) layout.drawNone("Text hidden", "Press O to view it.", ["Open the text", "O", "sld-primary"]);
    layout.drawBar(
      [["Submit review", "Ctrl+Enter", "sld-primary sld-save"]],
      [["Skip", "S"], ["Hold", "H"], ["Transfer", "B"], ["Decline", "X"]],
      [
        [shown.asked ? "✓ Second review requested" : "Request second review", "A"],
        ...(this.mayOpenAtOnce ? [["Show AI evidence (unblinds)", "I"]] : []),
      ],
    );
    refill(layout.hint, covered, () => [
      !covered && ["Highlight the key words: drag, or press ", make("kbd", {}, "M"), ". "],
      layout.button("Guideline", "G", "sld-link"), " · ", layout.button("Keys", "?", "sld-link"),
    ]);
  }

  drawSave() {
    const { layout, form, saving } = this;
    const button = layout.bar.querySelector(".sld-save");
    form.freeze(Boolean(saving));
    for (const pane of this.panes) pane.frozen = !this.mayChoose;
    layout.root.classList.toggle("sld-saving", Boolean(saving));
    // what the disposition will ask for, before it is saved
    const minutes = this.mayChange && form.chosen("disposition")[3];
    layout.then.textContent = minutes ? `Then: follow-up for you, due ${when(this.now() + 60000 * minutes)}.` : "";
    if (!button) return;
    const does = this.revising ? "Save the change" : "Submit";
    const whole = this.revising ? does : "Submit review";
    const words = form.words();
    button.firstChild.textContent = saving ? `Saving: ${saving.words} …` : words ? `${does}: ${words}` : whole;
    button.disabled = this.shown?.text === null;
  }

  drawPanel() {
    this.layout.panel.hidden = !this.panelShown;
    if (this.panelShown === "guideline") this.layout.drawGuideline(this.page.guideline);
    if (this.panelShown === "keys") this.layout.drawKeys(this.page.offer.keys, this.page.keys);
    this.place();
  }

  drawTimes() {
    const { layout, shown, stage } = this;
    const now = this.now();
    // a target is for what this reviewer may still look at
    const open = stage === "reviewing" || (stage === "over" && this.data.may_take);
    const left = open && shown.due ? shown.due - now : null; // counted here: it goes on on a cut line
    const words = left !== null && `${left > 0 ? "due in" : "overdue"} ${span(left)}`;
    layout.why.textContent = [shown?.why, words].filter(Boolean).join(" · ");
    layout.why.classList.toggle("sld-late", left !== null && left <= 0);
    const held = (shown?.expires ?? 0) - now;
    layout.lease.hidden = !["reviewing", "read"].includes(stage);
    layout.lease.textContent = stage === "read" ? "✓ reviewed by you" : `Assigned to you (${clock(held)}, renews while active)`;
    layout.lease.classList.toggle("sld-low", stage === "reviewing" && held <= LOW_MS);
    this.drawFoot(now);
  }

  // What was saved last, and for how long it can be undone.
  drawFoot(now) {
    const { layout, data: { last } } = this;
    const seconds = Math.max(0, Math.ceil(((last?.until ?? 0) - now) / 1000));
    refill(layout.foot, [last?.review, seconds], () => [
      last && make("span", {}, `Saved ${when(last.at)}: ${last.name}, ${last.words}. `),
      seconds > 0 && [layout.button("Undo", "U", "sld-link"), ` ${seconds} s`],
    ]);
  }

  place() {
    const { root, bar } = this.layout;
    const top = root.getBoundingClientRect().top + (document.querySelector('[data-testid="stMain"]')?.scrollTop ?? 0);
    this.isLow = top > LOW_FROM * window.innerHeight; // below follow-ups, say: it then has the window's height to itself
    const buttons = bar.getBoundingClientRect().height;
    const whole = `${Math.round(buttons + this.form.needed.getBoundingClientRect().height)}px`;
    root.style.setProperty("--sld-top", this.isLow ? "4rem" : `${Math.max(0, Math.round(top))}px`);
    root.style.setProperty("--sld-buttons", `${Math.floor(buttons)}px`);
    document.documentElement.style.setProperty("--sld-bar", whole); // for the end of the page too, which the bar covers
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
  if (!placed) desk.arrive();
  desk.mounted(page, setTriggerValue);
  return () => {
    if (!desk || desk.layout.root.parentElement !== parentElement) return; // it stands elsewhere already
    desk.run = null;
    desk.layout.root.remove();
    leave();
  };
}
