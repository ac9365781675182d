// The form of a reading. What is chosen is what is shown: one object, changed and drawn in the same moment.
import { keyed, make } from "./dom.js";

export class Form {
  constructor(offer, changed) {
    this.offer = offer;
    this.changed = changed;
    this.choices = {};
    this.inputs = [];
    this.root = make("div", { class: "sld-form" }, this.needed(), this.folded());
  }

  needed() {
    const { labels, certainties } = this.offer;
    return make(
      "div",
      { class: "sld-needed" },
      this.one("label", "Label of the text", labels, "sld-labels"),
      this.one("certainty", "How sure you are", certainties, "sld-sure"),
    );
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
    this.what = fold("What the text says", "W", ...fields(coding));
    this.why = fold(
      "Reasons, disposition, note",
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

  show(choices) {
    this.choices = { ...choices };
    this.note.value = choices.note ?? "";
    this.draw();
  }

  draw() {
    for (const { input, holds } of this.inputs) input.checked = holds(this.choices);
  }

  freeze(frozen) {
    this.frozen = frozen;
    this.note.readOnly = frozen;
  }

  // What a digit key selects, where it selects anything.
  key(key) {
    const { labels, certainties } = this.offer;
    const label = labels.find(([, , its]) => its === key);
    if (label) return this.set("label", label[0]);
    const sure = certainties.find(([, , its]) => its === key);
    if (sure) this.set("certainty", sure[0]);
  }

  missing() {
    const lacking = [
      this.choices.label ? "" : "a label",
      this.choices.certainty ? "" : "a certainty",
    ].filter(Boolean);
    return lacking.length ? `Choose ${lacking.join(" and ")} first.` : "";
  }

  words() {
    const { label, certainty } = this.choices;
    const named = this.offer.labels.find(([value]) => value === label)?.[1] ?? "";
    const sure = this.offer.certainties.find(([value]) => value === certainty)?.[1] ?? "";
    return [named, sure].filter(Boolean).join(", ").toLowerCase();
  }
}
