// The desk's places, made once: the text and what belongs to it, and beside it the form or what came of it.
import { keyed, make } from "./dom.js";

const button = (words, key, press, look = "") =>
  make("button", { type: "button", class: `sld-button ${look}`, onclick: press, ...(key && { "aria-keyshortcuts": key }) }, ...keyed(words, key));

export class Layout {
  constructor(acts) {
    this.acts = acts;
    this.lost = make("div", { class: "sld-lost", role: "alert" });
    this.name = make("h2", { class: "sld-name" });
    this.tier = make("span", { class: "sld-tier" });
    this.why = make("span", { class: "sld-why" });
    this.lease = make("span", { class: "sld-lease", role: "timer" });
    this.said = make("p", { class: "sld-said", role: "status" });
    this.texts = make("div", { class: "sld-texts" });
    this.none = make("div", { class: "sld-none", role: "status" });
    this.hint = make("p", { class: "sld-hint" });
    this.notes = make("div", { class: "sld-notes", role: "note", "aria-label": "Notes of other readers" });
    this.panel = make("section", { class: "sld-panel", hidden: true, tabindex: 0 });
    this.evidence = make("div", { class: "sld-evidence" });
    this.title = make("h2", { class: "sld-title" });
    this.who = make("span", { class: "sld-who" });
    this.alert = make("p", { class: "sld-alert", role: "alert" });
    this.receipt = make("div", { class: "sld-receipt", role: "status" });
    this.points = make("ul", { class: "sld-points", "aria-label": "What does not fit together" });
    this.drafted = make("p", { class: "sld-drafted" });
    this.formPlace = make("div", { class: "sld-formplace" });
    this.bar = make("div", { class: "sld-bar" });
    this.away = make("div", { class: "sld-away", hidden: true });
    this.foot = make("p", { class: "sld-foot" });
    this.head = make("div", { class: "sld-head" }, this.name, this.tier, this.why, this.lease);
    this.main = make(
      "section",
      { class: "sld-main", "aria-label": "The case" },
      this.head, this.said, this.none, this.texts, this.hint, this.notes, this.panel, this.evidence,
    );
    this.side = make(
      "section",
      { class: "sld-side", "aria-label": "Your decision" },
      make("div", { class: "sld-titles" }, this.title, this.who),
      this.alert, this.receipt, this.formPlace, this.points, this.bar, this.away, this.drafted, this.foot,
    );
    this.root = make("div", { class: "sld" }, this.lost, this.main, this.side);
  }

  drawHead(shown) {
    const known = shown?.tier !== undefined;
    this.name.textContent = shown?.name ?? "";
    this.tier.hidden = !known;
    this.tier.className = `sld-tier sld-t${shown?.tier ?? 3}`;
    this.tier.textContent = shown?.tier_words ?? "";
    this.head.hidden = !shown?.name;
  }

  drawNone(title, words, buttons = []) {
    this.none.replaceChildren(make("b", {}, title), make("span", {}, words), ...(buttons.length ? [make("div", { class: "sld-row" }, ...buttons)] : []));
    this.none.hidden = false;
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
    this.bar.replaceChildren(...buttons.map((row) => make("div", { class: "sld-row" }, ...row.map(made))));
  }

  button(...each) {
    return button(...each);
  }

  drawAway(shown, { give, leaving, changed }) {
    const looks = `${shown.id}/${shown.needs_note}`; // a case may become urgent while it is read
    if (this.awayLooks === looks) return;
    this.awayLooks = looks;
    this.awayFor = shown.id;
    this.note = make("input", { type: "text", maxlength: 2000, class: "sld-input", value: leaving, oninput: changed });
    const choose = make("option", { value: "" }, "Choose a colleague");
    const to = make("select", { class: "sld-input" }, choose, ...shown.colleagues.map(([id, name]) => make("option", { value: id }, name)));
    const buttons = [
      ...(shown.needs_note ? [button("Skip", "", () => give("skip", this.note.value))] : []),
      button("Set aside", "", () => give("hold", this.note.value)),
      button("Give back", "", () => give("release", this.note.value)),
      ...(shown.colleagues.length ? [button("Hand over", "", () => give("hand_over", this.note.value, to.value))] : []),
    ];
    this.away.replaceChildren(
      make("label", { class: "sld-block" }, "Note for the next reader", this.note),
      ...(shown.colleagues.length ? [make("label", { class: "sld-block" }, "Hand over to", to)] : []),
      make("div", { class: "sld-row" }, ...buttons),
    );
  }

  drawGuideline({ labels, reminders, own }) {
    this.panel.replaceChildren(
      make("h3", {}, ...keyed("Guideline", "G")),
      make("dl", {}, ...labels.flatMap(([name, words]) => [make("dt", {}, name), make("dd", {}, words)])),
      make("ul", {}, ...reminders.map((words) => make("li", {}, words))),
      ...(own ? [make("h3", {}, "Of this site"), make("p", { class: "sld-own" }, own)] : []),
    );
    this.panel.setAttribute("aria-label", "Guideline");
  }

  drawKeys(keys, on) {
    this.panel.replaceChildren(
      make("h3", {}, ...keyed("Keys", "?")),
      make("dl", { class: "sld-keys" }, ...keys.flatMap(([key, words]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, words)])),
      ...(on ? [] : [make("p", {}, "They are switched off at the moment.")]),
    );
    this.panel.setAttribute("aria-label", "Keys");
  }
}

// A span of time in its largest unit, rounded down.
export function span(ms) {
  const minutes = Math.floor(Math.abs(ms) / 60000);
  if (minutes < 1) return "<1 min";
  if (minutes < 60) return `${minutes} min`;
  return minutes < 60 * 48 ? `${Math.floor(minutes / 60)} h` : `${Math.floor(minutes / 1440)} d`;
}

export function clock(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}
