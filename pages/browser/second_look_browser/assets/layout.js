// The desk's places, made once: the text and what belongs to it, and beside it the form or what came of it.
import { fill, keyed, make, placer, refill, trusted } from "./dom.js";

const link = (href, words) => make("a", { href, target: "_blank", rel: "noopener noreferrer" }, words);
const paragraphs = (lines) => lines.map((words) => make("p", {}, words));
const entries = (pairs) => pairs.flatMap(([name, words]) => [make("dt", {}, name), make("dd", {}, words)]);

export class Layout {
  // ``press`` does what a key does.
  constructor(form, panes, press) {
    this.press = press;
    const place = placer(this, "sld-");
    place("div", "status", {}, place("p", "then"), place("p", "drafted"), place("p", "foot"));
    place("div", "first");
    place("div", "root", { class: "sld" },
      place("div", "lost", { role: "alert" }),
      place("section", "main", { "aria-label": "The case" },
        place("p", "hidden", { role: "status", hidden: true }),
        place("div", "head", {}, place("h2", "name"), place("span", "priority"), place("span", "why"), place("span", "lease", { role: "timer" })),
        place("p", "said", { role: "status" }),
        place("div", "rest", { class: "sld-none sld-rest", role: "status", hidden: true }),
        place("div", "none", { role: "status" }),
        place("div", "texts", {}, panes),
        place("p", "hint"),
        place("p", "danger", { hidden: true }),
        place("div", "notes", { role: "note", "aria-label": "Notes of other reviewers" }),
        place("section", "panel", { hidden: true, tabindex: 0 }),
        place("section", "near", { hidden: true, "aria-label": "Same person" }),
        place("div", "evidence")),
      place("section", "side", { "aria-label": "Your review" },
        make("div", { class: "sld-titles" }, place("h2", "title"), place("span", "who")),
        place("p", "alert", { role: "alert" }),
        place("div", "receipt", { role: "status" }),
        place("div", "formplace", {}, form),
        place("ul", "points", { "aria-label": "Disagreement" }),
        place("div", "bar")),
      place("dialog", "leave", { "aria-labelledby": "sld-leave-title" }));
  }

  // It says its key, and does what the key does or what ``act`` does.
  button(words, key, look = "", act = () => this.press(key)) {
    const keys = key && { "aria-keyshortcuts": key };
    return make("button", { type: "button", class: `sld-button ${look}`, onclick: () => act(), ...keys }, keyed(words, key));
  }

  row(...buttons) {
    return make("div", { class: "sld-row" }, buttons.map((each) => this.button(...each)));
  }

  drawHead(shown) {
    this.name.textContent = shown?.name ?? "";
    this.priority.hidden = shown?.priority === undefined;
    this.priority.className = `sld-priority sld-t${shown?.priority}`;
    this.priority.textContent = shown?.priority_words ?? "";
    this.head.hidden = !shown?.name;
  }

  // What is said where no text is.
  drawNone(title, words, ...buttons) {
    this.none.hidden = !title;
    const row = () => buttons.length > 0 && this.row(...buttons);
    refill(this.none, [title, words, buttons], () => [make("b", {}, title), make("span", {}, words), row()]);
  }

  // A break that is offered, in the site's own words.
  drawRest(words, goOn) {
    this.rest.hidden = !words;
    const buttons = [["Take a break", "B", "sld-primary"], ["Go on", "", "", goOn]];
    refill(this.rest, words, () => [make("span", { class: "sld-own" }, words), this.row(...buttons)]);
  }

  // The buttons of a stage, in rows.
  drawBar(...rows) {
    refill(this.bar, rows, () => {
      const [first, ...rest] = rows.map((row) => this.row(...row));
      return [fill(this.first, this.status, first), ...rest];
    });
  }

  // How a case is left: one dialog, which keeps the focus until it is confirmed or closed. What is wrong with it is said
  // in it; the note outlives it.
  openLeave({ title, words, needed, colleagues, note, changed, confirm }) {
    const alert = make("p", { class: "sld-refused", role: "alert" });
    this.note = make("input", { type: "text", maxlength: 2000, class: "sld-input", value: note, oninput: () => changed(this.note.value) });
    const people = [["", "Choose a colleague"], ...(colleagues ?? [])];
    const to = colleagues && make("select", { class: "sld-input" }, people.map(([value, name]) => make("option", { value }, name)));
    const refuse = (words, field) => {
      alert.textContent = words;
      field.focus();
    };
    const onsubmit = (event) => {
      event.preventDefault();
      alert.textContent = "";
      if (to && !to.value) return refuse("Choose a colleague.", to);
      if (needed && !this.note.value.trim()) return refuse(needed, this.note);
      this.leave.close();
      confirm(this.note.value, to?.value ?? "");
    };
    fill(this.leave, make("form", { onsubmit },
      make("h3", { id: "sld-leave-title" }, title),
      make("p", { class: "sld-small" }, words),
      to && make("label", { class: "sld-block" }, "Transfer to", to),
      make("label", { class: "sld-block" }, `Note for the next reviewer${needed ? "" : " (optional)"}`, this.note),
      alert,
      make("div", { class: "sld-row" },
        make("button", { type: "submit", class: "sld-button sld-primary" }, title),
        this.button("Cancel", "Esc", "", () => this.leave.close()))));
    this.leave.showModal();
    (to ?? this.note).focus();
  }

  // P0 cases that the filter leaves out.
  drawHidden(number, open) {
    this.hidden.hidden = !number;
    const words = number === 1 ? "1 P0 case is outside your filter. " : `${number} P0 cases are outside your filter. `;
    refill(this.hidden, number, () => [words, this.button("Open the most urgent", "", "sld-link", open)]);
  }

  drawDanger({ words, protocol } = {}) {
    this.danger.hidden = !words && !protocol;
    refill(this.danger, [words, protocol], () => [words, protocol && [" ", link(protocol, "Site protocol")]]);
  }

  // What stands around the text: the evidence after the reveal, the same person's other texts, notes.
  drawAround({ evidence = "", near = [], notes = [] }) {
    refill(this.evidence, evidence, () => trusted(evidence));
    refill(this.notes, notes, () => paragraphs(notes));
    this.near.hidden = !near.length;
    const entry = ({ where, name, text }) => [make("dt", {}, `${where} · ${name}`), make("dd", { dir: "auto" }, text)];
    refill(this.near, near, () => [make("h3", {}, "Same person, other texts in this file"), make("dl", {}, near.map(entry))]);
  }

  // What the review became, and what others and the AI made of the case.
  drawReceipt(read, caseId) {
    const { words, version, blind, becomes, follow_ups, receipt, engine, compared, others, rules, act, form } = read;
    const bold = (text) => make("b", {}, text);
    const small = (text) => make("p", { class: "sld-small" }, text);
    refill(this.receipt, read, () => [
      make("p", {}, "✓ Saved: ", bold(words), version > 1 ? ` (version ${version}).` : "."),
      make("p", { class: "sld-follows" }, becomes),
      follow_ups.map((one) => make("p", { class: "sld-follows" }, bold(one.words), `, by ${when(one.due)}`)),
      !blind && small("Not counted in accuracy estimates, because you had seen the AI result."),
      form.read_to_end === false && small("You submitted before scrolling to the end."),
      engine && [make("p", {}, bold("AI result: "), engine), make("p", {}, compared)],
      paragraphs(rules.map((one) => one.words)),
      act && make("p", {}, bold("Where to act: "), act.href ? link(act.href, act.words) : act.words),
      others.map((other) => make("p", {}, bold(`Another reviewer (${other.who}): `), other.words)),
      make("p", {}, make("a", { href: `case?case=${caseId}`, target: "_self" }, "Full case history")),
    ]);
    this.receipt.title = `Audit ID ${receipt.id}, ${when(receipt.at)}`;
  }

  drawPanel(title, key, ...children) {
    this.panel.ariaLabel = title;
    fill(this.panel, make("h3", {}, keyed(title, key)), children);
  }

  drawGuideline({ labels, reminders, own }) {
    const points = make("ul", {}, reminders.map((words) => make("li", {}, words)));
    const theirs = own && [make("h3", {}, "Your organization's guideline"), make("p", { class: "sld-own" }, own)];
    this.drawPanel("Guideline", "G", make("dl", {}, entries(labels)), points, theirs);
  }

  drawKeys(keys, on) {
    const list = make("dl", { class: "sld-keys" }, entries(keys.map(([key, words]) => [make("kbd", {}, key), words])));
    this.drawPanel("Keys", "?", list, !on && make("p", {}, "Keyboard shortcuts are off."));
  }
}

// A moment as the clock of whoever looks says it; the day where it is another one.
export function when(ms) {
  const at = new Date(ms);
  const day = at.toDateString() === new Date().toDateString() ? {} : { month: "short", day: "numeric" };
  return at.toLocaleString([], { ...day, hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
}

export function span(ms) {
  const minutes = Math.floor(Math.abs(ms) / 60000);
  if (minutes < 1) return "<1 min";
  if (minutes < 60) return `${minutes} min`;
  const parts = [[Math.floor(minutes / 1440), "d"], [Math.floor(minutes / 60) % 24, "h"], [minutes % 60, "min"]];
  const first = parts.findIndex(([number]) => number);
  return parts.slice(first, first + 2).filter(([number]) => number).map((part) => part.join(" ")).join(" ");
}

export function clock(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}
