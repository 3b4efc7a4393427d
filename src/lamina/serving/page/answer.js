// The cards of replies: the answer or "not in the text", its confidence in words and as a bar, and the runners-up.

import { h, percent } from "./dom.js";
import { ofWholeWords, sentence } from "./text.js";

const RUNNERS_UP = 4;

/** Return a confidence in words. */
export function words(share) {
  if (share >= 0.85) return "Very sure";
  if (share >= 0.6) return "Fairly sure";
  if (share >= 0.35) return "Unsure";
  return "Little more than a guess";
}

/** Return the place of a quote, such as "report.pdf, page 2". */
export const place = (quote) => `${quote.name}, ${quote.place}`;

/** Return the confidence of a reply in words and as a bar. */
export function confidence(reply) {
  const what = reply.answer === null ? "that the text does not answer it" : "that this is the answer";
  const bar = h("i");
  bar.style.width = percent(reply.confidence);
  return h("div", { class: "sure" },
    h("span", {}, `${words(reply.confidence)}: ${percent(reply.confidence)} ${what}`),
    h("div", { class: "meter", "aria-hidden": "true" }, bar));
}

/** Return the card of a reply. `more` is added below. */
export function card(reply, ...more) {
  const none = reply.answer === null;
  return h("article", { class: `card${none ? " none" : ""}`, "data-answer": reply.answer ?? "" },
    h("p", { class: "asked" }, reply.question),
    h("p", { class: "quoted" }, none ? "Not in the text" : reply.answer),
    confidence(reply),
    none ? null : sentence(reply.quote),
    none ? null : h("p", { class: "where" }, place(reply.quote)),
    ...more);
}

/** Return the list of runners-up. `near` is called with a quote under the pointer and with null; `chosen` with a clicked one. */
export function runnersUp(reply, near, chosen) {
  const others = best(reply);
  if (!others.length) return null;
  const row = (quote) => h("button", {
    type: "button", class: "other", title: quote.sentence.text,
    onpointerenter: () => near(quote), onpointerleave: () => near(null), onfocus: () => near(quote), onblur: () => near(null),
    onclick: () => chosen(quote),
  }, h("span", {}, quote.answer), h("small", {}, `${quote.confidence < 0.005 ? "under 1%" : percent(quote.confidence)} · ${quote.place}`));
  return h("section", { class: "others", "aria-label": "Runners-up" },
    h("h3", {}, reply.answer === null ? "The nearest it found" : "Runners-up"), others.map(row));
}

const letters = (quote) => quote.answer.replace(/[^\p{L}\p{N}]+/gu, " ").trim();

/** Return the runners-up that are elsewhere than the answer and than each other; if they are few, longer or shorter ones too. */
function best(reply) {
  const elsewhere = reply.quote ? [reply.quote] : [];
  for (const one of reply.others) {
    if (elsewhere.every((other) => other.context !== one.context || other.end <= one.start || one.end <= other.start)) elsewhere.push(one);
  }
  const seen = new Set(elsewhere.map(letters));
  const near = reply.others.filter((one) => ofWholeWords(one) && !seen.has(letters(one)) && seen.add(letters(one)));
  const found = [...elsewhere.filter((one) => one !== reply.quote), ...near].slice(0, RUNNERS_UP);
  return found.sort((one, two) => two.confidence - one.confidence);
}

/** Return the place line of a document at a code point that the service counted: "page 3" for a PDF, else its own. */
export function withPages(reply, documents) {
  const fix = (quote) => {
    const pages = documents[quote.context]?.pages ?? [];
    if (!pages.length) return quote;
    return { ...quote, place: `page ${pages.filter((start) => start <= quote.start).length}` };
  };
  return { ...reply, quote: reply.quote && fix(reply.quote), others: reply.others.map(fix) };
}

/** Return a quotation with its place, to paste elsewhere. */
export const quotation = (quote) => `“${quote.answer}” (${place(quote)})\n${quote.sentence.text}`;

/** Return rows as CSV. A cell that a table program could take for a formula gets an apostrophe. */
export function csv(rows) {
  const cell = (value) => {
    const text = String(value ?? "");
    const safe = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}
