// Right, wrong, mark the right words, or there is none: what a person says about a reply.

import { call } from "./api.js";
import { fill, h } from "./dom.js";

const short = (words) => (words.length > 60 ? `${words.slice(0, 57)}…` : words);

/**
 * Return the buttons for one reply. `spot` has `question`, `span` (of the reply, or null), `source` (the text of the span),
 * `sources` (all texts that were asked) and `shown` (returns the text that `reading` shows). A text has `text` and `name`.
 */
export function judge(spot, reading, { saved, failed, labels = {} }) {
  const place = h("div", { class: "row" });
  const store = async (answer, sources) => {
    try {
      for (const one of sources) await call("/project/corrections", { body: { question: spot.question, context: one.text, title: one.name, answer } });
      fill(place, h("span", { role: "status" }, "Saved. ", labels.keys ? null : h("a", { href: "#correct" }, "See all corrections")));
      saved(answer);
    } catch (error) {
      failed(error);
    }
  };
  const button = (text, key, onclick) =>
    h("button", { type: "button", onclick, "data-key": labels.keys ? key : null }, text, labels.keys ? h("kbd", {}, key) : null);
  const marking = () => {
    const typed = h("input", { "aria-label": "Or type the right words", placeholder: "or type them" });
    const hint = h("p", { class: "hint", role: "status" }, "Select the right words in the text with the mouse, then save.");
    let last = null; // what was selected, and in which text; a click on Save may clear the selection
    const watch = () => {
      if (!typed.isConnected) document.removeEventListener("selectionchange", watch);
      const span = reading.selection();
      if (!span) return;
      last = { span, source: spot.shown() };
      if (!typed.value.trim()) hint.textContent = `Selected: “${short(reading.slice(span))}”`;
    };
    document.addEventListener("selectionchange", watch);
    const keep = () => {
      const span = typed.value.trim() ? reading.find(typed.value) : last?.span;
      const source = typed.value.trim() ? spot.shown() : last?.source;
      if (!span) {
        hint.textContent = typed.value.trim() ? "The text does not have these words." : "Select some words in the text first.";
        return;
      }
      if (source === spot.shown()) reading.show(reading.text, span);
      store(span, [source]);
    };
    typed.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); keep(); } });
    fill(place, hint, typed, h("button", { type: "button", class: "primary", onclick: keep }, "Save"), h("button", { type: "button", class: "quiet", onclick: first }, "Cancel"));
    reading.element.focus();
  };
  const first = () => fill(place,
    button(spot.span ? "Right" : "Right: it is not there", "1", () => store(spot.span, spot.span ? [spot.source] : spot.sources)),
    button(spot.span ? "Wrong: mark the right words" : "Wrong: mark the words", "2", marking),
    spot.span ? button("Wrong: not in the text", "3", () => store(null, spot.sources)) : null,
    labels.skip ? button("Skip", "4", labels.skip) : null);
  first();
  return h("div", { class: "actions", role: "group", "aria-label": "Is this right?" }, place);
}
