// The view Compare: two models, the same question and text.

import { call } from "./api.js";
import { card, runnersUp } from "./answer.js";
import { fill, get, h } from "./dom.js";
import { whole } from "./text.js";

/** Set the view up. `text` returns the text of the view Ask. */
export function start({ tell, text }) {
  get("compare").addEventListener("submit", async (event) => {
    event.preventDefault();
    const question = whole(get("compare-question").value).trim(), context = whole(get("compare-text").value);
    if (!question || !context.trim()) return tell("Give a question and a text.");
    tell(null);
    fill(get("compared"), h("p", { class: "busy" }, "Both models read…"));
    try {
      const models = [get("first").value, get("second").value];
      const replies = await Promise.all(models.map((model) => call("/answer", { body: { question, context, model, top_k: 12 } })));
      const same = replies[0].answer === replies[1].answer && replies[0].quote?.start === replies[1].quote?.start;
      const verdict = same ? "Both models give the same reply." : replies[0].answer === replies[1].answer
        ? "The same words, from different places." : "The replies differ.";
      fill(get("compared"), h("p", { class: "verdict", role: "status" }, verdict),
        h("div", { class: "sides" }, replies.map((reply) => {
          const side = card(reply, runnersUp(reply, () => {}, () => {}));
          side.classList.toggle("differ", !same);
          side.prepend(h("h2", {}, reply.model));
          return side;
        })));
    } catch (error) {
      fill(get("compared"));
      tell(error.message);
    }
    return undefined;
  });

  function refresh(models) {
    const names = models.filter((one) => one.answers).map((one) => one.name);
    for (const [id, number] of [["first", 0], ["second", Math.min(1, names.length - 1)]]) {
      const chosen = get(id).value;
      fill(get(id), names.map((name) => h("option", {}, name)));
      get(id).value = names.includes(chosen) ? chosen : names[number] ?? "";
    }
    get("one-model").hidden = names.length !== 1;
    if (!get("compare-text").value) get("compare-text").value = text();
  }
  return { refresh };
}
