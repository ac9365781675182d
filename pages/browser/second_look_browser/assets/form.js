// The form of a review. What is chosen is what is shown: one object, changed and drawn in the same moment.
import { h, keyed } from "./dom.js";

export class Form {
  // ``changed``: something was chosen or typed; ``draw``: nothing may be changed now, so it is shown as it was.
  constructor(offer, { changed, draw }) {
    Object.assign(this, { changed, draw, choices: {}, unfolded: {}, frozen: false });
    this.needing = []; // labels that need a disposition
    this.offers(offer);
  }

  // What may be chosen, as the page says it with each run.
  offers(offer) {
    const { labels, certainties, dispositions } = offer;
    this.offer = offer;
    this.asked = [
      { name: "label", title: "Label", values: labels, look: "sld-labels", lacking: "a label" },
      { name: "certainty", title: "Confidence", values: certainties, look: "sld-sure", lacking: "a confidence level" },
      { name: "disposition", title: "Disposition", values: dispositions, look: "sld-next", lacking: "a disposition" },
    ];
  }

  needed() {
    const missing = this.missing();
    const fields = this.asked.map((field) => this.field({ ...field, required: missing.includes(field) }));
    return h("div", { class: "sld-needed" }, fields);
  }

  optional() {
    const { offer, choices, frozen } = this;
    const oninput = ({ target }) => this.set("note", target.value);
    const value = choices.note ?? "";
    const note = { class: "sld-note", rows: 3, maxlength: offer.longest_note, readOnly: frozen, value, oninput };
    return h("div", { class: "sld-optional" },
      this.fold("c", "Clinical coding (optional)", offer.coding),
      this.fold("d", "Reasons and note", offer.rest, h("label", { class: "sld-block" }, "Note", h("textarea", note))));
  }

  fold(key, words, fields, more) {
    const onclick = (event) => {
      event.preventDefault();
      this.toggle(key);
    };
    return h("details", { class: `sld-fold sld-fold-${key}`, open: Boolean(this.unfolded[key]) },
      h("summary", { onclick }, keyed(words, key.toUpperCase())), fields.map((each) => this.field(each)), more);
  }

  toggle(key) {
    this.unfolded[key] = !this.unfolded[key];
    this.draw();
  }

  // One choice of several, or ``many``.
  field({ name, title, values, many = false, look = "sld-chips", required = false }) {
    const had = this.choices[name] ?? (many ? [] : null);
    const chips = values.map(([value, words, key]) => {
      const checked = many ? had.includes(value) : had === value;
      const toggled = () => (checked ? had.filter((each) => each !== value) : [...had, value]);
      const onchange = () => this.set(name, many ? toggled() : value);
      const input = h("input", { type: many ? "checkbox" : "radio", name: `sld-${name}`, checked, onchange });
      return h("label", { class: `sld-chip sld-v-${value}` }, input, h("span", {}, keyed(words, key)));
    });
    const lacks = required && h("span", { class: "sld-required" }, " required");
    return h("fieldset", { class: look }, h("legend", {}, title, lacks), chips);
  }

  set(name, value) {
    if (this.frozen) return this.draw();
    this.choices = { ...this.choices, [name]: value };
    this.changed();
  }

  // What is filled in is in sight: a part that holds something is unfolded.
  show(choices) {
    this.choices = { ...choices };
    const holds = ({ name }) => [choices[name] ?? []].flat().some((one) => one !== "" && one !== "not_stated");
    this.unfolded = { c: this.offer.coding.some(holds), d: Boolean(choices.note) || this.offer.rest.some(holds) };
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
