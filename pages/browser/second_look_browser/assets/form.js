// The form of a review. What is chosen is what is shown: one object, changed and drawn in the same moment.
import { keyed, make } from "./dom.js";

export class Form {
  constructor(offer, changed) {
    this.offer = offer;
    this.changed = changed;
    this.choices = {};
    this.inputs = [];
    this.needing = []; // labels that need a disposition
    this.asked = [
      { name: "label", title: "Label", values: offer.labels, look: "sld-labels", lacking: "a label" },
      { name: "certainty", title: "Confidence", values: offer.certainties, look: "sld-sure", lacking: "a confidence level" },
      { name: "disposition", title: "Disposition", values: offer.dispositions, look: "sld-next", lacking: "a disposition" },
    ];
    for (const field of this.asked) field.required = make("span", { class: "sld-required" }, " required");
    this.needed = make("div", { class: "sld-needed" }, this.asked.map((field) => this.field(field)));
    const note = { class: "sld-note", rows: 3, maxlength: offer.longest_note, oninput: () => this.set("note", this.note.value) };
    this.note = make("textarea", note);
    this.what = this.fold("Clinical coding (optional)", "C", offer.coding);
    this.why = this.fold("Reasons and note", "D", offer.rest, make("label", { class: "sld-block" }, "Note", this.note));
    this.root = make("div", { class: "sld-form" }, this.needed, make("div", { class: "sld-optional" }, this.what, this.why));
  }

  fold(words, key, fields, ...more) {
    return make("details", { class: "sld-fold" }, make("summary", {}, keyed(words, key)), fields.map((each) => this.field(each)), ...more);
  }

  // One choice of several, or ``many``.
  field({ name, title, values, many = false, look = "sld-chips", required = "" }) {
    const chips = values.map(([value, words, key]) => {
      const had = () => this.choices[name] ?? (many ? [] : null);
      const toggled = () => (input.checked ? [...had(), value] : had().filter((each) => each !== value));
      const onchange = () => this.set(name, many ? toggled() : value);
      const input = make("input", { type: many ? "checkbox" : "radio", name: `sld-${name}`, onchange });
      this.inputs.push({ input, holds: () => (many ? had().includes(value) : had() === value) });
      return make("label", { class: `sld-chip sld-v-${value}` }, input, make("span", {}, keyed(words, key)));
    });
    return make("fieldset", { class: look }, make("legend", {}, title, required), chips);
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
    const holds = ({ name }) => [choices[name] ?? []].flat().some((one) => one !== "" && one !== "not_stated");
    this.what.open = this.offer.coding.some(holds);
    this.why.open = Boolean(choices.note) || this.offer.rest.some(holds);
  }

  draw() {
    for (const { input, holds } of this.inputs) input.checked = holds();
    const missing = this.missing();
    for (const field of this.asked) field.required.hidden = !missing.includes(field);
  }

  freeze(frozen) {
    this.frozen = frozen;
    this.note.readOnly = frozen;
  }

  // What a key selects, where it selects anything.
  key(key) {
    for (const { name, values } of this.asked) {
      const found = values.find(([, , its]) => its === key.toUpperCase());
      if (found) this.set(name, found[0]);
    }
  }

  // What is offered under the name of what is chosen: its value, words, key and what else belongs to it.
  chosen(name) {
    const { values } = this.asked.find((field) => field.name === name);
    return values.find(([value]) => value === this.choices[name]) ?? [];
  }

  missing() {
    const { label } = this.choices; // before one is chosen: where every label needs one
    const needs = label ? this.needing.includes(label) : this.needing.length === this.offer.labels.length;
    const optional = needs ? "" : "disposition";
    return this.asked.filter(({ name }) => name !== optional && !this.chosen(name).length);
  }

  missingWords() {
    const lacking = this.missing().map((field) => field.lacking);
    return lacking.length ? `Select ${lacking.join(" and ")}.` : "";
  }

  words() {
    const [, label] = this.chosen("label");
    const [, disposition] = this.chosen("disposition");
    const [, , , sure] = this.chosen("certainty");
    return [label, disposition ?? sure].filter(Boolean).join(", ").toLowerCase();
  }
}
