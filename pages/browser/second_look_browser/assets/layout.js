// The desk's places, made once: the text and what belongs to it, and beside it the form or what came of it.
import { keyed, make } from "./dom.js";

const button = (words, key, press, look = "") =>
  make("button", { type: "button", class: `sld-button ${look}`, onclick: press, ...(key && { "aria-keyshortcuts": key }) }, ...keyed(words, key));

export class Layout {
  constructor(acts) {
    this.acts = acts;
    this.lost = make("div", { class: "sld-lost", role: "alert" });
    this.name = make("h2", { class: "sld-name" });
    this.priority = make("span", { class: "sld-priority" });
    this.why = make("span", { class: "sld-why" });
    this.lease = make("span", { class: "sld-lease", role: "timer" });
    this.hidden = make("p", { class: "sld-hidden", role: "status", hidden: true });
    this.said = make("p", { class: "sld-said", role: "status" });
    this.rest = make("div", { class: "sld-none sld-rest", role: "status", hidden: true });
    this.texts = make("div", { class: "sld-texts" });
    this.none = make("div", { class: "sld-none", role: "status" });
    this.hint = make("p", { class: "sld-hint" });
    this.notes = make("div", { class: "sld-notes", role: "note", "aria-label": "Notes of other reviewers" });
    this.panel = make("section", { class: "sld-panel", hidden: true, tabindex: 0 });
    this.evidence = make("div", { class: "sld-evidence" });
    this.title = make("h2", { class: "sld-title" });
    this.who = make("span", { class: "sld-who" });
    this.alert = make("p", { class: "sld-alert", role: "alert" });
    this.receipt = make("div", { class: "sld-receipt", role: "status" });
    this.points = make("ul", { class: "sld-points", "aria-label": "Disagreement" });
    this.drafted = make("p", { class: "sld-drafted" });
    this.formPlace = make("div", { class: "sld-formplace" });
    this.bar = make("div", { class: "sld-bar" });
    this.then = make("p", { class: "sld-then" });
    this.foot = make("p", { class: "sld-foot" });
    this.status = make("div", { class: "sld-status" }, this.then, this.drafted, this.foot);
    this.first = make("div", { class: "sld-first" });
    this.dialog = make("dialog", { class: "sld-leave", "aria-labelledby": "sld-leave-title" });
    this.danger = make("p", { class: "sld-danger", hidden: true });
    this.near = make("section", { class: "sld-near", hidden: true, "aria-label": "Same person" });
    this.head = make("div", { class: "sld-head" }, this.name, this.priority, this.why, this.lease);
    this.main = make(
      "section",
      { class: "sld-main", "aria-label": "The case" },
      this.hidden, this.head, this.said, this.rest, this.none, this.texts, this.hint, this.danger, this.notes, this.panel, this.near, this.evidence,
    );
    this.side = make(
      "section",
      { class: "sld-side", "aria-label": "Your review" },
      make("div", { class: "sld-titles" }, this.title, this.who),
      this.alert, this.receipt, this.formPlace, this.points, this.bar,
    );
    this.root = make("div", { class: "sld" }, this.lost, this.main, this.side, this.dialog);
  }

  drawHead(shown) {
    const known = shown?.priority !== undefined;
    this.name.textContent = shown?.name ?? "";
    this.priority.hidden = !known;
    this.priority.className = `sld-priority sld-t${shown?.priority ?? 3}`;
    this.priority.textContent = shown?.priority_words ?? "";
    this.head.hidden = !shown?.name;
  }

  drawNone(title, words, buttons = []) {
    this.none.replaceChildren(make("b", {}, title), make("span", {}, words), ...(buttons.length ? [make("div", { class: "sld-row" }, ...buttons)] : []));
    this.none.hidden = false;
  }

  // A break that is offered, in the site's own words.
  drawRest(words, act) {
    this.rest.hidden = !words;
    if (this.restShown === words) return;
    this.restShown = words;
    const take = button("Take a break", "B", () => act("take_break"), "sld-primary");
    this.rest.replaceChildren(make("span", { class: "sld-own" }, words), make("div", { class: "sld-row" }, take, button("Go on", "", () => act("go_on"))));
  }

  // The buttons of a stage; each says its key, and does what the key does. Those that stay the same are not made anew:
  // a press that is under way while the page is painted would be lost, and so would the focus.
  drawBar(buttons) {
    this.acts = buttons.flat().map(([, , act]) => act);
    const looks = JSON.stringify(buttons);
    if (looks === this.barLooks) return;
    this.barLooks = looks;
    let place = 0;
    const made = ([words, key, , more]) => {
      const own = place++;
      return button(words, key, () => this.acts[own](), more);
    };
    const [first, ...rest] = buttons.map((row) => make("div", { class: "sld-row" }, ...row.map(made)));
    this.first.replaceChildren(this.status, first);
    this.bar.replaceChildren(this.first, ...rest);
  }

  button(...each) {
    return button(...each);
  }

  // How a case is left: one dialog, which keeps the focus until it is confirmed or closed. What is wrong with it is said
  // in it; the note outlives it.
  openLeave({ title, words, needed, colleagues, note, changed, confirm }) {
    const alert = make("p", { class: "sld-refused", role: "alert" });
    this.note = make("input", { type: "text", maxlength: 2000, class: "sld-input", value: note, oninput: () => changed(this.note.value) });
    const choose = make("option", { value: "" }, "Choose a colleague");
    const to = colleagues && make("select", { class: "sld-input" }, choose, ...colleagues.map(([id, name]) => make("option", { value: id }, name)));
    const submit = (event) => {
      event.preventDefault();
      alert.textContent = "";
      if (to && !to.value) {
        alert.textContent = "Choose a colleague.";
        to.focus();
      } else if (needed && !this.note.value.trim()) {
        alert.textContent = needed;
        this.note.focus();
      } else {
        this.dialog.close();
        confirm(this.note.value, to?.value ?? "");
      }
    };
    this.dialog.replaceChildren(
      make("form", { onsubmit: submit },
        make("h3", { id: "sld-leave-title" }, title),
        make("p", { class: "sld-small" }, words),
        ...(to ? [make("label", { class: "sld-block" }, "Transfer to", to)] : []),
        make("label", { class: "sld-block" }, `Note for the next reviewer${needed ? "" : " (optional)"}`, this.note),
        alert,
        make("div", { class: "sld-row" },
          make("button", { type: "submit", class: "sld-button sld-primary" }, title),
          button("Cancel", "Esc", () => this.dialog.close())),
      ),
    );
    this.dialog.showModal();
    (to ?? this.note).focus();
  }

  // P0 cases that the filter leaves out.
  drawHidden(number, open) {
    if (this.hiddenShown === number) return;
    this.hiddenShown = number;
    this.hidden.hidden = !number;
    const words = number === 1 ? "1 P0 case is outside your filter. " : `${number} P0 cases are outside your filter. `;
    this.hidden.replaceChildren(words, button("Open the most urgent", "", open, "sld-link"));
  }

  drawDanger({ words, protocol }) {
    const link = make("a", { href: protocol, target: "_blank", rel: "noopener noreferrer" }, "Site protocol");
    this.danger.replaceChildren(words, ...(protocol ? [" ", link] : []));
    this.danger.hidden = !words && !protocol;
  }

  drawNear(texts) {
    this.near.hidden = !texts.length;
    if (!texts.length) return this.near.replaceChildren();
    this.near.replaceChildren(
      make("h3", {}, "Same person, other texts in this file"),
      make("dl", {}, ...texts.flatMap(({ where, name, text }) => [make("dt", {}, `${where} · ${name}`), make("dd", { dir: "auto" }, text)])),
    );
  }

  drawGuideline({ labels, reminders, own }) {
    this.panel.replaceChildren(
      make("h3", {}, ...keyed("Guideline", "G")),
      make("dl", {}, ...labels.flatMap(([name, words]) => [make("dt", {}, name), make("dd", {}, words)])),
      make("ul", {}, ...reminders.map((words) => make("li", {}, words))),
      ...(own ? [make("h3", {}, "Your organization's guideline"), make("p", { class: "sld-own" }, own)] : []),
    );
    this.panel.setAttribute("aria-label", "Guideline");
  }

  drawKeys(keys, on) {
    this.panel.replaceChildren(
      make("h3", {}, ...keyed("Keys", "?")),
      make("dl", { class: "sld-keys" }, ...keys.flatMap(([key, words]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, words)])),
      ...(on ? [] : [make("p", {}, "Keyboard shortcuts are off.")]),
    );
    this.panel.setAttribute("aria-label", "Keys");
  }
}

// A moment as the clock of whoever looks says it; the day where it is another one.
export function when(ms) {
  const at = new Date(ms);
  const time = at.toLocaleTimeString([], { hour: "numeric", minute: "2-digit" });
  if (at.toDateString() === new Date().toDateString()) return time;
  return `${at.toLocaleDateString([], { month: "short", day: "numeric" })}, ${time}`;
}

// A span of time as pages/ui/words.py says it: its two largest units, rounded down.
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
