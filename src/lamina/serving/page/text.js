// Texts with marks. The service counts code points; strings of JavaScript count UTF-16 units. 😀 is one of the first, two of the second.

import { fill, h } from "./dom.js";

/** Converts positions in a text between code points and UTF-16 units. */
export class Positions {
  constructor(text) {
    this.long = []; // the code points that take two units
    if (!/[\uD800-\uDBFF]/.test(text)) return;
    let point = 0;
    for (const letter of text) {
      if (letter.length === 2) this.long.push(point);
      point += 1;
    }
  }

  /** Return the unit at which a code point begins. */
  unit(point) {
    return point + this.#below((index) => this.long[index] < point);
  }

  /** Return the code point that begins at a unit. A unit inside a code point counts as the next one. */
  point(unit) {
    return unit - this.#below((index) => this.long[index] + index < unit);
  }

  #below(smaller) { // the number of long code points for which `smaller` holds; they come first
    let low = 0, high = this.long.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (smaller(middle)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Shows a text with one marked span, and with a fainter one while the pointer is over a runner-up. */
export class Reading {
  constructor(element) {
    this.element = element;
    this.text = "";
    this.positions = new Positions("");
  }

  /** Show a text. `span` has code points, or is null. */
  show(text, span = null) {
    if (text !== this.text) this.positions = new Positions(text);
    this.text = text;
    this.span = span;
    this.near(null);
    if (!span) return fill(this.element, text);
    const [start, end] = [this.positions.unit(span.start), this.positions.unit(span.end)];
    this.mark = h("mark", {}, text.slice(start, end));
    fill(this.element, text.slice(0, start), this.mark, text.slice(end));
    this.#scrollTo(this.mark.getBoundingClientRect());
    return undefined;
  }

  /** Highlight a second span and scroll to it; null removes it. */
  near(span) {
    if (!globalThis.CSS?.highlights) return;
    CSS.highlights.delete("near");
    if (!span) return;
    const range = this.#range(this.positions.unit(span.start), this.positions.unit(span.end));
    CSS.highlights.set("near", new Highlight(range));
    this.#scrollTo(range.getBoundingClientRect());
  }

  /** Return the selected span in code points without white space around it, or null. */
  selection() {
    const selected = getSelection();
    if (!selected.rangeCount || selected.isCollapsed) return null;
    const range = selected.getRangeAt(0);
    if (!this.element.contains(range.commonAncestorContainer)) return null;
    const before = document.createRange();
    before.selectNodeContents(this.element);
    before.setEnd(range.startContainer, range.startOffset);
    let start = before.toString().length, end = start + range.toString().length;
    while (start < end && /\s/.test(this.text[start])) start += 1;
    while (end > start && /\s/.test(this.text[end - 1])) end -= 1;
    return start < end ? { start: this.positions.point(start), end: this.positions.point(end) } : null;
  }

  /** Return the first span of some words in code points, or null. */
  find(words) {
    const start = words.trim() ? this.text.indexOf(words.trim()) : -1;
    if (start < 0) return null;
    return { start: this.positions.point(start), end: this.positions.point(start + words.trim().length) };
  }

  slice(span) {
    return this.text.slice(this.positions.unit(span.start), this.positions.unit(span.end));
  }

  #range(start, end) {
    const range = document.createRange();
    let position = 0;
    const walker = document.createTreeWalker(this.element, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode, next = position + node.length;
      if (start >= position && start <= next) range.setStart(node, start - position);
      if (end >= position && end <= next) { range.setEnd(node, end - position); break; }
      position = next;
    }
    return range;
  }

  #scrollTo(box) {
    const frame = this.element.getBoundingClientRect();
    if (box.top >= frame.top + 20 && box.bottom <= frame.bottom - 20) return;
    this.element.scrollTop += box.top - frame.top - frame.height / 3;
  }
}

/** Return the sentence around a quote in three parts: before it, the quote, after it. */
function parts(quote) {
  const text = quote.sentence.text, positions = new Positions(text);
  const start = positions.unit(Math.max(0, quote.start - quote.sentence.start));
  const end = positions.unit(Math.min(quote.end, quote.sentence.end) - quote.sentence.start);
  return [text.slice(0, start), text.slice(start, end), text.slice(end)];
}

/** Return the sentence around a quote, with the quote marked. Positions are code points of the whole text. */
export function sentence(quote) {
  const [before, quoted, after] = parts(quote);
  return h("p", { class: "sentence" }, before, h("mark", {}, quoted), after);
}

/** Return whether a quote begins and ends between words. */
export function ofWholeWords(quote) {
  const [before, quoted, after] = parts(quote), inside = /[\p{L}\p{N}]\|[\p{L}\p{N}]/u;
  return !inside.test(`${[...before].at(-1) ?? ""}|${quoted}`) && !inside.test(`${quoted}|${[...after][0] ?? ""}`);
}

/** Return a text that the service accepts: halves of letters become question marks, and lines end with one sign. */
export function whole(text) {
  return (text.toWellFormed?.() ?? text.replace(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g, "\uFFFD"))
    .replace(/\r\n?/g, "\n");
}
