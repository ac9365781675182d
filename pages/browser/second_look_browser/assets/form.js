// The form of a review. What is chosen is what is shown: one object, changed and drawn in the same moment.
import { keyed, make } from "./dom.js";

export class Form {
  constructor(offer, changed) {
    this.offer = offer;
    this.changed = changed;
    this.choices = {};
    this.inputs = [];
    this.needing = []; // labels that need a disposition
    this.needed = this.makeNeeded();
    this.root = make("div", { class: "sld-form" }, this.needed, this.folded());
  }

  makeNeeded() {
    const { labels, certainties, dispositions } = this.offer;
    const needed = [
      this.one("label", "Label", labels, "sld-labels"),
      this.one("certainty", "Confidence", certainties, "sld-sure"),
      this.one("disposition", "Disposition", dispositions, "sld-next"),
    ];
    this.required = needed.map((group) => {
      const mark = make("span", { class: "sld-required" }, " required");
      group.querySelector("legend").append(mark);
      return mark;
    });
    return make("div", { class: "sld-needed" }, ...needed);
  }

  folded() {
    const { coding, rest, longest_note: longest } = this.offer;
    const fields = (group) =>
      group.map((field) => (field.many ? this.many(field) : this.one(field.name, field.title, field.values, "sld-chips")));
    this.note = make("textarea", {
      class: "sld-note",
      rows: "3",
      maxlength: longest,
      oninput: () => this.set("note", this.note.value),
    });
    const fold = (words, key, ...children) =>
      make("details", { class: "sld-fold" }, make("summary", {}, ...keyed(words, key)), ...children);
    this.what = fold("Clinical coding (optional)", "C", ...fields(coding));
    this.why = fold(
      "Reasons and note",
      "D",
      ...fields(rest),
      make("label", { class: "sld-block" }, "Note", this.note),
    );
    return make("div", { class: "sld-optional" }, this.what, this.why);
  }

  one(name, title, values, look) {
    const chips = values.map(([value, words, key]) => {
      const input = make("input", { type: "radio", name: `sld-${name}`, onchange: () => this.set(name, value) });
      this.inputs.push({ input, name, holds: (choices) => (choices[name] ?? null) === value });
      return make("label", { class: `sld-chip sld-v-${value}` }, input, make("span", {}, ...keyed(words, key)));
    });
    return make("fieldset", { class: look }, make("legend", {}, title), ...chips);
  }

  many({ name, title, values }) {
    const chips = values.map(([value, words]) => {
      const input = make("input", {
        type: "checkbox",
        onchange: () => {
          const had = this.choices[name] ?? [];
          this.set(name, input.checked ? [...had, value] : had.filter((each) => each !== value));
        },
      });
      this.inputs.push({ input, name, holds: (choices) => (choices[name] ?? []).includes(value) });
      return make("label", { class: "sld-chip" }, input, make("span", {}, words));
    });
    return make("fieldset", { class: "sld-chips" }, make("legend", {}, title), ...chips);
  }

  set(name, value) {
    if (this.frozen) return this.draw();
    this.choices = { ...this.choices, [name]: value };
    this.draw();
    this.changed();
  }

  // What is filled in is in sight: a part that holds something is unfolded.
  show(choices) {
    this.choices = { ...choices };
    this.note.value = choices.note ?? "";
    this.draw();
    const { coding, rest } = this.offer;
    const holds = (fields) => fields.some(({ name }) => ![undefined, null, "", "not_stated"].includes(choices[name]) && choices[name].length !== 0);
    this.what.open = holds(coding);
    this.why.open = Boolean(choices.note) || holds(rest);
  }

  draw() {
    for (const { input, holds } of this.inputs) input.checked = holds(this.choices);
    this.missing().forEach((what, place) => (this.required[place].hidden = !what));
  }

  needsDisposition() {
    return this.needing.includes(this.choices.label);
  }

  get disposition() {
    return this.offer.dispositions.find(([value]) => value === this.choices.disposition);
  }

  freeze(frozen) {
    this.frozen = frozen;
    this.note.readOnly = frozen;
  }

  // What a key selects, where it selects anything.
  key(key) {
    const { labels, certainties, dispositions } = this.offer;
    const next = dispositions.find(([, , its]) => its === key.toUpperCase());
    if (next) return this.set("disposition", next[0]);
    const label = labels.find(([, , its]) => its === key);
    if (label) return this.set("label", label[0]);
    const sure = certainties.find(([, , its]) => its === key);
    if (sure) this.set("certainty", sure[0]);
  }

  // What is still to be chosen, of label, confidence and disposition; empty where nothing is.
  missing() {
    return [
      this.choices.label ? "" : "a label",
      this.choices.certainty ? "" : "a confidence level",
      this.needsDisposition() && !this.disposition ? "a disposition" : "",
    ];
  }

  missingWords() {
    const lacking = this.missing().filter(Boolean);
    return lacking.length ? `Select ${lacking.join(" and ")}.` : "";
  }

  words() {
    const { label, certainty } = this.choices;
    const named = this.offer.labels.find(([value]) => value === label)?.[1] ?? "";
    const sure = this.offer.certainties.find(([value]) => value === certainty)?.[3] ?? "";
    return [named, this.disposition?.[1] ?? sure].filter(Boolean).join(", ").toLowerCase();
  }
}
