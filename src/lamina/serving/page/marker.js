// Right, wrong, mark the right words, or there is none: what a person says about a reply.

import { call } from "./api.js";
import { fill, h } from "./dom.js";

/** Return the buttons for one reply. `spot` has question, context, title and span; `reading` shows the context. */
export function judge(spot, reading, { saved, failed, labels = {} }) {
  const place = h("div", { class: "row" });
  const store = async (answer) => {
    try {
      await call("/project/corrections", { body: { question: spot.question, context: spot.context, title: spot.title, answer } });
      saved(answer);
      fill(place, h("span", { role: "status" }, "Saved. Thank you."));
    } catch (error) {
      failed(error);
    }
  };
  const button = (text, key, onclick) =>
    h("button", { type: "button", onclick, "data-key": labels.keys ? key : null }, text, labels.keys ? h("kbd", {}, key) : null);
  const marking = () => {
    const typed = h("input", { "aria-label": "Or type the right words", placeholder: "or type them" });
    const hint = h("p", { class: "hint", role: "status" }, "Select the right words in the text with the mouse, then save.");
    let last = null; // what was selected; a click on Save may clear the selection
    const watch = () => {
      if (!typed.isConnected) document.removeEventListener("selectionchange", watch);
      last = reading.selection() ?? last;
    };
    document.addEventListener("selectionchange", watch);
    const keep = () => {
      const span = typed.value.trim() ? reading.find(typed.value) : last;
      if (!span) {
        hint.textContent = typed.value.trim() ? "The text does not have these words." : "Select some words in the text first.";
        return;
      }
      reading.show(reading.text, span);
      store(span);
    };
    typed.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); keep(); } });
    fill(place, hint, typed, h("button", { type: "button", class: "primary", onclick: keep }, "Save"), h("button", { type: "button", class: "quiet", onclick: first }, "Cancel"));
    reading.element.focus();
  };
  const first = () => fill(place,
    button(spot.span ? "Right" : "Right: it is not there", "1", () => store(spot.span)),
    button(spot.span ? "Mark the right words" : "Wrong: mark the words", "2", marking),
    spot.span ? button("It is not in the text", "3", () => store(null)) : null,
    labels.skip ? button("Skip", "4", labels.skip) : null);
  first();
  return h("div", { class: "actions", role: "group", "aria-label": "Is this right?" }, place);
}
