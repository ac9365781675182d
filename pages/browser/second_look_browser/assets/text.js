// The text of a case, verbatim: set as text, never as markup. Words in it can be marked, by dragging over them or by
// keyboard, and it says whether its end was on the screen.
import { make } from "./dom.js";

const LEAST = 2;
const points = (text) => [...text].length;

export class TextPane {
  constructor(part, label, { changed, ended, fits }) {
    this.part = part;
    this.marks = [];
    this.others = [];
    this.text = "";
    this.turns = [];
    this.picking = null;
    this.frozen = false;
    this.changed = changed;
    this.fits = fits; // whether so many marks in this part can be kept: whoever says no says why
    this.ended = ended;
    this.box = make("div", {
      class: `sld-text sld-${part}`,
      dir: "auto",
      tabindex: "0",
      role: "region",
      "aria-label": label,
      onmouseup: () => this.markSelection(),
      onscroll: () => this.look(),
      onkeydown: (event) => this.picked(event),
      onclick: (event) => this.unmark(event),
    });
    this.more = make("p", { class: "sld-more", "aria-hidden": "true" }, "↓ the text goes on");
    const heading = part === "reply" ? [make("h3", {}, "Reply")] : [];
    this.root = make("div", { class: `sld-part sld-part-${part}` }, ...heading, this.box, this.more);
    this.seen = new ResizeObserver(() => this.look());
    this.seen.observe(this.box);
  }

  show(text, marks = [], others = [], turns = []) {
    const other = text !== this.text;
    this.text = text;
    this.turns = turns;
    this.picking = null;
    this.marks = marks.filter((mark) => mark.part === this.part);
    this.others = others.filter((mark) => mark.part === this.part);
    this.draw();
    if (other) this.box.scrollTop = 0;
    requestAnimationFrame(() => this.look());
  }

  look() {
    const rest = this.box.scrollHeight - this.box.clientHeight - this.box.scrollTop;
    this.more.hidden = rest <= 4;
    if (rest <= 4 && this.box.clientHeight > 0) this.ended(this.part);
  }

  // Pieces between all ends of marks, each one a text node or a mark.
  draw() {
    const letters = [...this.text];
    const shown = [
      ...this.others.map((mark) => ({ kind: "other", ...mark })),
      ...this.marks.map((mark) => ({ ...mark, kind: "mine" })),
      ...(this.picking ? [{ ...this.pickedRange(), kind: "pick" }] : []),
    ];
    const ofTurns = this.turns.flatMap((turn) => [turn.named, turn.start, turn.end]);
    const ends = [...new Set([0, letters.length, ...ofTurns, ...shown.flatMap((mark) => [mark.start, mark.end])])];
    ends.sort((a, b) => a - b);
    const pieces = [];
    const places = [];
    for (let at = 0; at + 1 < ends.length; at++) {
      const words = letters.slice(ends[at], ends[at + 1]).join("");
      places.push(ends[at]);
      const over = shown.filter((mark) => mark.start <= ends[at] && mark.end >= ends[at + 1]);
      if (!over.length) pieces.push(words);
      else {
        const who = [...new Set(over.map((mark) => mark.who).filter(Boolean))].join(", ");
        const rule = over.find((mark) => mark.kind === "rule");
        const theirs = rule ? rule.words : `Highlighted by ${who}`;
        const title = over.some((mark) => mark.kind === "mine") ? "Highlighted by you; click to remove it" : theirs;
        pieces.push(make("mark", { class: [...new Set(over.map((mark) => `sld-${mark.kind}`))].join(" "), title }, words));
      }
    }
    this.box.replaceChildren(...(this.turns.length ? this.thread(pieces, places) : pieces));
  }

  // A conversation: a block a turn. What is said of a turn is drawn by the style, so that positions count words alone.
  thread(pieces, places) {
    return this.turns.map((turn, number) => {
      const next = this.turns[number + 1]?.named ?? Infinity;
      const within = (from, to) => pieces.filter((_, at) => places[at] >= from && places[at] < to);
      return make(
        "div",
        { class: `sld-turn sld-of-${turn.role}${turn.judged ? " sld-judged" : ""}`, role: "group", tabindex: "-1", dir: "auto", "aria-label": turn.head, "data-head": turn.head },
        make("b", { class: "sld-speaker" }, ...within(turn.named, turn.start)),
        make("span", { class: "sld-words" }, ...within(turn.start, turn.end)),
        make("span", { class: "sld-gap" }, ...within(turn.end, next)),
      );
    });
  }

  // By keyboard from turn to turn; the first press goes to the first, or to the last.
  turn(step) {
    const blocks = [...this.box.querySelectorAll(".sld-turn")];
    if (!blocks.length) return;
    const at = blocks.findIndex((block) => block.contains(document.activeElement));
    const to = at < 0 ? (step > 0 ? 0 : blocks.length - 1) : Math.max(0, Math.min(blocks.length - 1, at + step));
    blocks[to].focus({ preventScroll: true });
    blocks[to].scrollIntoView({ block: "nearest" });
  }

  offset(node, at) {
    const range = document.createRange();
    range.setStart(this.box, 0);
    range.setEnd(node, at);
    return points(range.toString());
  }

  markSelection() {
    const selection = window.getSelection();
    if (this.frozen || !selection || selection.isCollapsed || !selection.rangeCount) return false;
    const range = selection.getRangeAt(0);
    if (!this.box.contains(range.startContainer) || !this.box.contains(range.endContainer)) return false;
    const start = this.offset(range.startContainer, range.startOffset);
    const end = this.offset(range.endContainer, range.endOffset);
    if (end - start < LEAST) return false;
    selection.removeAllRanges();
    this.add({ start, end });
    return true;
  }

  add({ start, end }) {
    const apart = this.marks.filter((mark) => mark.end < start || mark.start > end);
    const joined = this.marks.filter((mark) => !apart.includes(mark));
    if (!this.fits(this.part, apart.length + 1)) return this.draw();
    this.marks = [
      ...apart,
      {
        part: this.part,
        start: Math.min(start, ...joined.map((mark) => mark.start)),
        end: Math.max(end, ...joined.map((mark) => mark.end)),
      },
    ].sort((a, b) => a.start - b.start);
    this.justMarked = true;
    this.draw();
    this.changed();
  }

  unmark(event) {
    if (this.justMarked) {
      this.justMarked = false; // the click that ends a drag
      return;
    }
    if (this.frozen || !event.target.classList?.contains("sld-mine")) return;
    const at = this.offset(event.target.firstChild, 0);
    this.marks = this.marks.filter((mark) => !(mark.start <= at && at < mark.end));
    this.draw();
    this.changed();
  }

  sentences() {
    const letters = [...this.text];
    const parts = this.turns.length ? this.turns : [{ start: 0, end: letters.length }];
    const found = [];
    for (const part of parts) {
      let at = part.start;
      const words = letters.slice(part.start, part.end).join("");
      for (const { segment } of new Intl.Segmenter(undefined, { granularity: "sentence" }).segment(words)) {
        const length = points(segment.trimEnd());
        if (length) found.push({ start: at, end: at + length });
        at += points(segment);
      }
    }
    return found;
  }

  // By keyboard: M picks a sentence, arrows move, Shift and arrows take more of them, M or Enter marks, Escape leaves.
  pick() {
    if (this.frozen || this.markSelection() || !this.text) return;
    const sentences = this.sentences();
    const judged = this.turns.find((turn) => turn.judged);
    const first = Math.max(0, judged ? sentences.findIndex((one) => one.start >= judged.start) : 0);
    if (!sentences.length) return;
    this.picking = { sentences, from: first, to: first };
    this.box.focus();
    this.drawPicked();
  }

  pickedRange() {
    const { sentences, from, to } = this.picking;
    return { start: sentences[Math.min(from, to)].start, end: sentences[Math.max(from, to)].end };
  }

  drawPicked() {
    this.draw();
    this.box.querySelector(".sld-pick")?.scrollIntoView({ block: "nearest" });
  }

  picked(event) {
    if (!this.picking) return;
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const { sentences, from, to } = this.picking;
    if (step) {
      const next = Math.max(0, Math.min(sentences.length - 1, to + step));
      this.picking = { sentences, from: event.shiftKey ? from : next, to: next };
      this.drawPicked();
    } else if (event.key === "Enter" || event.key.toLowerCase() === "m") {
      const range = this.pickedRange();
      this.picking = null;
      this.add(range);
      this.justMarked = false;
    } else if (event.key === "Escape") {
      this.picking = null;
      this.draw();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
