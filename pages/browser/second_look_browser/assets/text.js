// The text of a case, verbatim: set as text, never as markup. Words in it can be marked, by dragging over them or by
// keyboard, and it says whether its end was on the screen.
import { h } from "./dom.js";

const LEAST = 2;
const MINE = "Highlighted by you; click to remove it";
const points = (text) => [...text].length;

export class TextPane {
  // ``fits``: whether one more mark can be kept; whoever says no says why.
  constructor(part, label, { changed, ended, fits, draw }) {
    Object.assign(this, { part, label, changed, ended, fits, draw, marks: [], others: [], text: null, turns: [], picking: null });
    this.frozen = false;
  }

  // ``text`` is null where there is none.
  show(text, marks, others, turns) {
    const ours = (mark) => mark.part === this.part;
    if (text !== this.text) this.picking = null;
    if (text !== this.text && this.box) this.box.scrollTop = 0;
    Object.assign(this, { text, turns, marks: marks.filter(ours), others: others.filter(ours) });
  }

  freeze(frozen) {
    this.frozen = frozen;
    if (frozen) this.picking = null;
  }

  // Whether its end is on the screen, after each drawing and while it is scrolled.
  look() {
    const { scrollHeight, clientHeight, scrollTop } = this.box;
    const rest = scrollHeight - clientHeight - scrollTop;
    if (rest <= 4 && clientHeight > 0) this.ended(this.part);
    if (this.goesOn === rest > 4) return;
    this.goesOn = rest > 4;
    this.draw();
  }

  view() {
    const box = {
      class: `sld-text sld-${this.part}`,
      dir: "auto",
      tabindex: 0,
      role: "region",
      "aria-label": this.label,
      ref: (element) => (this.box = element),
      onmouseup: () => (this.dragged = this.markSelection()),
      onscroll: () => this.look(),
      onkeydown: (event) => this.picked(event),
      onclick: (event) => this.unmark(event),
    };
    const title = this.part === "reply" && h("h3", {}, "Reply");
    const more = h("p", { class: "sld-more", "aria-hidden": "true", hidden: !this.goesOn }, "↓ the text goes on");
    const root = { class: `sld-part sld-part-${this.part}`, hidden: this.text === null };
    return h("div", root, title, h("div", box, this.written()), more);
  }

  // Pieces between all ends of marks, each one words or a mark; a long text is not cut anew for each key.
  written() {
    const mine = this.marks.map((mark) => ({ ...mark, kind: "mine", title: MINE }));
    const marks = [...this.others, ...mine, ...(this.picking ? [{ ...this.pickedRange(), kind: "pick" }] : [])];
    const from = JSON.stringify([this.text, this.turns, marks]);
    if (from !== this.from) this.pieces = this.cut(marks);
    this.from = from;
    return this.pieces;
  }

  cut(marks) {
    const letters = [...(this.text ?? "")];
    const ofTurns = this.turns.flatMap((turn) => [turn.named, turn.start, turn.end]);
    const ends = [...new Set([0, letters.length, ...ofTurns, ...marks.flatMap((mark) => [mark.start, mark.end])])];
    ends.sort((a, b) => a - b);
    const pieces = ends.slice(1).map((end, at) => {
      const start = ends[at];
      const words = letters.slice(start, end).join("");
      const over = marks.filter((mark) => mark.start <= start && mark.end >= end);
      if (!over.length) return { start, node: words };
      const kinds = new Set(over.map((mark) => `sld-${mark.kind}`));
      const titles = new Set(over.map((mark) => mark.title).filter(Boolean));
      return { start, node: h("mark", { class: [...kinds].join(" "), title: [...titles].join("; ") }, words) };
    });
    return this.turns.length ? this.thread(pieces) : pieces.map((piece) => piece.node);
  }

  // A conversation: a block a turn. What is said of a turn is drawn by the style, so that positions count words alone.
  thread(pieces) {
    return this.turns.map((turn, number) => {
      const next = this.turns[number + 1]?.named ?? Infinity;
      const within = (name, from, to) => {
        const ours = pieces.filter(({ start }) => start >= from && start < to);
        return h(name === "speaker" ? "b" : "span", { class: `sld-${name}` }, ours.map((piece) => piece.node));
      };
      const look = `sld-turn sld-of-${turn.role}${turn.judged ? " sld-judged" : ""}`;
      const block = { class: look, role: "group", tabindex: -1, dir: "auto", "aria-label": turn.head, "data-head": turn.head };
      return h("div", block,
        within("speaker", turn.named, turn.start), within("words", turn.start, turn.end), within("gap", turn.end, next));
    });
  }

  // By keyboard from turn to turn; the first press goes to the first, or to the last.
  turn(step) {
    const blocks = [...this.box.querySelectorAll(".sld-turn")];
    const at = blocks.findIndex((block) => block.contains(document.activeElement));
    const to = blocks.at(at < 0 && step < 0 ? -1 : Math.max(0, Math.min(blocks.length - 1, at + step)));
    to?.focus({ preventScroll: true });
    to?.scrollIntoView({ block: "nearest" });
  }

  offset(node, at) {
    const range = document.createRange();
    range.setStart(this.box, 0);
    range.setEnd(node, at);
    return points(range.toString());
  }

  // Whether words of this text were selected, which are marked then.
  markSelection() {
    const selection = window.getSelection();
    if (this.frozen || selection.isCollapsed) return false;
    const range = selection.getRangeAt(0);
    if (!this.box.contains(range.commonAncestorContainer)) return false;
    const start = this.offset(range.startContainer, range.startOffset);
    const end = this.offset(range.endContainer, range.endOffset);
    if (end - start < LEAST) return false;
    selection.removeAllRanges();
    this.add({ start, end });
    return true;
  }

  add(range) {
    const joined = this.marks.filter((mark) => mark.end >= range.start && mark.start <= range.end);
    if (!joined.length && !this.fits()) return;
    const start = Math.min(range.start, ...joined.map((mark) => mark.start));
    const end = Math.max(range.end, ...joined.map((mark) => mark.end));
    const apart = this.marks.filter((mark) => !joined.includes(mark));
    this.change([...apart, { part: this.part, start, end }].sort((a, b) => a.start - b.start));
  }

  unmark(event) {
    if (this.dragged || this.frozen || !event.target.classList.contains("sld-mine")) return; // the click that ends a drag
    const at = this.offset(event.target.firstChild, 0);
    this.change(this.marks.filter((mark) => at < mark.start || at >= mark.end));
  }

  change(marks) {
    this.marks = marks;
    this.changed();
  }

  sentences() {
    const letters = [...this.text];
    const parts = this.turns.length ? this.turns : [{ start: 0, end: letters.length }];
    const segmenter = new Intl.Segmenter(undefined, { granularity: "sentence" });
    const found = parts.flatMap((part) => {
      let at = part.start;
      return [...segmenter.segment(letters.slice(part.start, part.end).join(""))].map(({ segment }) => {
        const start = at;
        at += points(segment);
        return { start, end: start + points(segment.trimEnd()) };
      });
    });
    return found.filter(({ start, end }) => start < end);
  }

  // By keyboard: M picks a sentence, arrows move, Shift and arrows take more of them, M or Enter marks, Escape leaves.
  pick() {
    if (this.frozen || this.markSelection()) return;
    const sentences = this.sentences();
    if (!sentences.length) return;
    const judged = this.turns.find((turn) => turn.judged)?.start ?? 0;
    const first = Math.max(0, sentences.findIndex((one) => one.start >= judged));
    this.picking = { sentences, from: first, to: first };
    this.box.focus();
    this.showPicked();
  }

  showPicked() {
    this.draw();
    this.box.querySelector(".sld-pick")?.scrollIntoView({ block: "nearest" });
  }

  pickedRange() {
    const { sentences, from, to } = this.picking;
    return { start: sentences[Math.min(from, to)].start, end: sentences[Math.max(from, to)].end };
  }

  picked(event) {
    if (!this.picking || this.frozen) return;
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const { sentences, from, to } = this.picking;
    if (step) {
      const next = Math.max(0, Math.min(sentences.length - 1, to + step));
      this.picking = { sentences, from: event.shiftKey ? from : next, to: next };
      this.showPicked();
    } else if (event.key === "Enter" || event.key.toLowerCase() === "m") {
      const range = this.pickedRange();
      this.picking = null;
      this.add(range);
    } else if (event.key === "Escape") {
      this.picking = null;
      this.draw();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
