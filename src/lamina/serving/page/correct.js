// The view Correct: questions to label, the corrections, and Improve.

import { call, listen, request } from "./api.js";
import { download, fill, get, h, percent } from "./dom.js";
import { judge } from "./marker.js";
import { Reading } from "./text.js";

const NO_TORCH = "Training needs torch, which is not installed here: pip install 'lamina-qa[train]'. Corrections are kept all the same.";
const SHOWN = 10; // corrections, until all are asked for
const SCORES = { f1: "F1", exact: "Exact match", accuracy: "Accuracy", pearson: "Pearson" };

/** Set the view up. `switched` is called after a switch to another model. */
export function start({ tell, model, switched }) {
  const reading = new Reading(get("label-text"));
  let project = { corrections: [], needed: 30, formats: [] }, skipped = 0, following = false, every = false;

  async function refresh() {
    try {
      project = await call("/project");
      corrections();
      improvement(await call("/project/improve"));
      await label();
    } catch (error) {
      tell(error.message);
    }
  }

  // ---- questions to label

  async function label() {
    const found = await call("/project/labels");
    if (found.failure) tell(found.failure);
    if (!found.data) { fill(get("labelling")); get("label-text").hidden = true; return; }
    const waiting = found.answered < found.total || (!found.total && !found.failure);
    if (waiting) setTimeout(() => { if (!get("view-correct").hidden) progress(); }, 1500);
    const one = found.questions.length ? found.questions[skipped % found.questions.length] : undefined;
    get("label-text").hidden = !one;
    const state = `${found.data}: ${found.left} of ${found.total} left${waiting ? `, ${found.answered} answered so far` : ""}. The least certain come first.`;
    if (!one) return void fill(get("labelling"), h("p", { class: "empty", id: "label-state" }, waiting ? "Answering the questions first…" : "All questions are labelled."));
    reading.show(one.context, one.answer);
    const next = () => { skipped = 0; refresh(); };
    const source = { text: one.context, name: one.title };
    const spot = { question: one.question, span: one.answer, source, sources: [source], shown: () => source };
    fill(get("labelling"), h("div", { class: "card" },
      h("p", { class: "where", id: "label-state" }, state),
      h("p", { class: "quoted" }, one.question),
      h("p", {}, one.answer ? `Its answer: ${reading.slice(one.answer)} (${percent(one.confidence)})` : `It says: not in the text (${percent(one.confidence)})`),
      judge(spot, reading, { saved: next, failed: (error) => tell(error.message), labels: { keys: true, skip: () => { skipped += 1; label(); } } })));
  }

  async function progress() {
    const found = await call("/project/labels").catch(() => null);
    if (!found) return;
    if (!get("labelling").querySelector(".quoted")) return void label();
    get("label-state").textContent = `${found.data}: ${found.left} of ${found.total} left. The least certain come first.`;
  }

  // ---- corrections

  function corrections() {
    const all = project.corrections;
    const files = all.length ? [h("span", { class: "hint" }, "Download:")] : [];
    if (all.length) files.push(...project.formats.map((format) => h("button", { type: "button", class: "quiet", onclick: () => save(format) }, format.toUpperCase())));
    fill(get("exports"), files);
    if (!all.length) return void fill(get("corrections"), h("li", {}, h("p", { class: "empty" }, "No corrections yet. Say of an answer whether it is right, or mark the right words.")));
    const newest = [...all].reverse(), shown = every ? newest : newest.slice(0, SHOWN);
    const rest = shown.length < all.length && h("li", {}, h("button", { type: "button", class: "quiet", onclick: () => { every = true; corrections(); } }, `Show all ${all.length}`));
    fill(get("corrections"), shown.map((one) => h("li", { "data-id": one.id },
      h("div", {},
        h("p", { class: "asked" }, one.question),
        h("p", { class: "right" }, one.text ?? h("em", {}, "Not in the text")),
        h("p", { class: "where" }, one.title)),
      h("div", { class: "row" },
        h("button", { type: "button", class: "quiet", "aria-label": `Edit: ${one.question}`, onclick: (event) => edit(one, event.currentTarget.closest("li")) }, "Edit"),
        h("button", { type: "button", class: "quiet danger", "aria-label": `Remove: ${one.question}`, onclick: () => remove(one) }, "Remove")))), rest);
    return undefined;
  }

  function edit(one, item) {
    const question = h("textarea", { rows: 2, "aria-label": "Question" }, one.question);
    const answer = h("input", { "aria-label": "Answer, empty if there is none", value: one.text ?? "", placeholder: "empty: not in the text" });
    const scratch = new Reading(h("div"));
    scratch.show(one.context);
    const keep = async () => {
      const span = answer.value.trim() ? (answer.value === one.text ? one.answer : scratch.find(answer.value)) : null;
      if (answer.value.trim() && !span) return tell("The text does not have these words.");
      try {
        await call(`/project/corrections/${one.id}`, { method: "PUT", body: { question: question.value, context: one.context, title: one.title, answer: span } });
        tell(null);
        return refresh();
      } catch (error) {
        return tell(error.message);
      }
    };
    fill(item, h("div", { class: "pane" }, question, answer),
      h("div", { class: "row" }, h("button", { type: "button", class: "primary", onclick: keep }, "Save"), h("button", { type: "button", class: "quiet", onclick: corrections }, "Cancel")));
    answer.focus();
  }

  async function remove(one) {
    try {
      await call(`/project/corrections/${one.id}`, { method: "DELETE" });
    } catch (error) {
      tell(error.message);
    }
    refresh();
  }

  async function save(format) {
    try {
      download(`corrections.${format}`, await (await request(`/project/export?format=${format}`)).blob());
    } catch (error) {
      tell(error.message);
    }
  }

  // ---- improve

  function improvement(state) {
    const count = project.corrections.length, enough = count >= project.needed, running = state.stage === "running";
    if (!project.trains) return void fill(get("improve"), h("div", { class: "card" }, h("h2", { id: "improve-title" }, "Improve"), h("p", { class: "empty" }, NO_TORCH)));
    const minutes = h("input", { id: "minutes", type: "number", min: "0.1", max: "1440", step: "any", value: "5" });
    const parts = [h("h2", { id: "improve-title" }, "Improve"),
      h("p", { class: "empty" }, "Lamina trains the model on your corrections, and tests it on some that it has not seen. You decide whether to switch.")];
    if (!running) {
      parts.push(h("p", { id: "count" }, enough ? `${count} corrections.` : `${count} of the ${project.needed} corrections that it needs.`),
        h("progress", { value: Math.min(count, project.needed), max: project.needed, "aria-label": "Corrections that Improve needs" }),
        h("div", { class: "row" }, h("label", {}, "Minutes", minutes), h("span", { class: "grow" }),
          h("button", { type: "button", class: "primary", id: "start", disabled: !enough, onclick: () => begin(Number(minutes.value)) }, "Improve")));
    }
    if (running) {
      parts.push(h("p", { class: "busy" }, state.label || "Starting…"),
        h("progress", { "aria-label": "Progress", ...(state.total ? { value: state.done, max: state.total } : {}) }),
        h("div", {}, h("button", { type: "button", onclick: stop }, "Stop")));
    }
    if (state.lines.length && state.stage !== "done") parts.push(h("div", { class: "log", tabindex: "0", role: "log", "aria-label": "What happens" }, state.lines.join("\n")));
    if (state.stage === "done") parts.push(result(state));
    if (state.stage === "failed") parts.push(h("p", { class: "down" }, "It failed. The last line says why."));
    fill(get("improve"), h("div", { class: "card" }, parts));
    if (running && !following) follow();
    return undefined;
  }

  function result(state) {
    const { scores, kept_start: kept, changed } = state.result;
    const row = ([name, one]) => h("tr", {}, h("th", { scope: "row" }, SCORES[name] ?? name),
      h("td", { class: "number" }, one.before.toFixed(1)), h("td", { class: "number" }, one.after.toFixed(1)),
      h("td", { class: `number ${one.after >= one.before ? "up" : "down"}` }, `${one.after >= one.before ? "+" : "−"}${Math.abs(one.after - one.before).toFixed(1)}`));
    return h("div", { class: "pane", id: "result" },
      h("p", {}, kept ? "The trained model is not better for sure, so the old one stays. More corrections may help." : state.switched ? "The improved model answers now." : "The improved model is better on questions that it has not seen."),
      h("div", { class: "scroll" }, h("table", {},
        h("thead", {}, h("tr", {}, ["Held out", "Before", "After", "Change"].map((name, column) => h("th", { scope: "col", class: column ? "number" : null }, name)))),
        h("tbody", {}, Object.entries(scores).map(row)))),
      changed?.length ? h("details", {}, h("summary", {}, "Answers that changed"), changed.map((one) => h("p", { class: "where" }, `${one.text} Before: ${one.before || "no answer"}. After: ${one.after || "no answer"}.`))) : null,
      kept || state.switched ? null : h("button", { type: "button", class: "primary", id: "switch", onclick: change }, "Switch to the improved model"));
  }

  async function begin(minutes) {
    try {
      improvement(await call("/project/improve", { body: { minutes, model: model() } }));
    } catch (error) {
      tell(error.message);
    }
  }

  async function follow() {
    following = true;
    try {
      await listen("/project/improve/events", improvement);
    } catch (error) {
      tell(error.message);
    } finally {
      following = false;
    }
  }

  async function stop() {
    await call("/project/improve", { method: "DELETE" }).catch((error) => tell(error.message));
  }

  async function change() {
    try {
      await call("/project/improve/switch", { method: "POST" });
      await switched();
      improvement(await call("/project/improve"));
    } catch (error) {
      tell(error.message);
    }
  }

  document.addEventListener("keydown", (event) => {
    if (get("view-correct").hidden || event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "")) return;
    get("labelling").querySelector(`[data-key="${CSS.escape(event.key)}"]`)?.click();
  });
  return { refresh };
}
