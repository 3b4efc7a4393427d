// The view Ask: texts on the left, questions and answers on the right.

import { call } from "./api.js";
import { card, csv, place, quotation, runnersUp, withPages, words } from "./answer.js";
import { download, fill, get, h, percent } from "./dom.js";
import { judge } from "./marker.js";
import { forget, load, save } from "./store.js";
import { Reading, whole } from "./text.js";
import { why } from "./why.js";

const TOP = 12; // answers with the runners-up
const NARROW = "(max-width: 60rem)"; // the text is above the question, as in style.css
const EXAMPLE = {
  text: "The old mill at Dunmore was built in 1712 by Ada Thorn, a widow from the coast. Its wheel has 24 paddles and turned until the flood of 1841.\n\nToday the mill is a small museum. It opens on Sundays in summer, and the miller's book lies in a glass case by the door.",
  question: "Who built the mill?",
};

/** Set the view up. `tell` shows a notice; `model` returns the name of the chosen model. */
export function start({ tell, model }) {
  const state = load(), reading = new Reading(get("reading"));
  let asking = 0;

  const documents = () => state.documents;
  const current = () => state.documents[state.current] ?? null;

  function keep() {
    state.question = get("question").value;
    save(state);
  }

  // ---- texts

  function show(span = null) {
    const one = current(), editing = !one || one.editing;
    get("paste").hidden = !editing;
    get("reading").hidden = editing;
    get("edit").hidden = editing;
    if (editing) get("paste").value = one?.text ?? "";
    else reading.show(one.text, span);
    fill(get("documents"), documents().length > 1 || (one && one.name !== "text") ? documents().map(chip) : null);
  }

  function chip(one, number) {
    return h("span", { class: "chip", "data-on": number === state.current },
      h("button", { type: "button", "aria-pressed": String(number === state.current), onclick: () => { state.current = number; show(); keep(); } }, one.name),
      h("button", { type: "button", "aria-label": `Remove ${one.name}`, onclick: () => remove(number) }, "×"));
  }

  function remove(number) {
    state.documents.splice(number, 1);
    state.current = Math.max(0, Math.min(state.current, documents().length - 1));
    fill(get("answer"));
    show();
    keep();
  }

  /** Show what the page is for, while there is nothing else to show. */
  function hello() {
    const example = () => {
      state.documents = [{ name: "text", pages: [], text: EXAMPLE.text }];
      get("question").value = EXAMPLE.question;
      ask();
    };
    fill(get("answer"), h("div", { class: "intro" },
      h("p", {}, "Lamina quotes the answer from your text, or says that the text does not have it."),
      h("div", {}, h("button", { type: "button", id: "example", onclick: example }, "Try an example"))));
  }

  function pasted() {
    const text = whole(get("paste").value);
    if (!current()) state.documents.push({ name: "text", pages: [], editing: true });
    Object.assign(current(), { text, pages: [] });
  }

  async function add(files) {
    for (const file of files) {
      try {
        const found = await call(`/documents?name=${encodeURIComponent(file.name)}`, { raw: file });
        state.documents = documents().filter((one) => one.text?.trim());
        state.documents.push({ name: found.name, text: found.text, pages: found.pages });
        state.current = documents().length - 1;
        tell(null);
      } catch (error) {
        tell(error.message);
      }
    }
    show();
    keep();
    past();
  }

  // ---- questions

  const questions = () => get("question").value.split("\n").map((line) => whole(line).trim()).filter(Boolean);

  async function ask() {
    const asked = questions(), texts = documents().filter((one) => one.text?.trim());
    if (!texts.length) { tell("There is no text yet: paste one, or add a file."); return get("paste").focus(); }
    if (!asked.length) { tell("Type a question first."); return get("question").focus(); }
    state.documents = texts;
    for (const one of texts) one.editing = false;
    state.current = Math.min(state.current, texts.length - 1);
    tell(null);
    show();
    const turn = ++asking;
    get("send").disabled = true;
    fill(get("answer"), h("p", { class: "busy" }, asked.length > 1 ? `Answering ${asked.length} questions…` : "Reading…"));
    const body = { contexts: texts.map((one) => one.text), names: texts.map((one) => one.name), top_k: TOP, model: model() };
    try {
      const { replies } = await call("/answer/batch", { body: { ...body, questions: asked } });
      if (turn !== asking) return undefined;
      const found = replies.map((reply) => withPages(reply, texts));
      if (found.length > 1) table(found);
      else one(found[0]);
      remember(found);
      if (matchMedia(NARROW).matches) get("answer").scrollIntoView({ block: "start" });
    } catch (error) {
      if (turn === asking) { fill(get("answer")); tell(error.message); }
    } finally {
      if (turn === asking) get("send").disabled = false;
    }
    return undefined;
  }

  function goTo(quote) {
    if (quote) state.current = quote.context;
    show(quote);
  }

  function one(reply, back = null) {
    goTo(reply.quote);
    const near = (quote) => { if (!quote || quote.context === state.current) reading.near(quote); };
    const more = h("div", {}), context = () => documents()[reply.quote?.context ?? state.current];
    const explain = async () => {
      fill(more, h("p", { class: "busy" }, "Looking…"));
      try {
        fill(more, await why(reply.question, context().text, reply.model));
      } catch (error) {
        fill(more);
        tell(error.message);
      }
    };
    const copied = async (event) => {
      const button = event.currentTarget;
      await navigator.clipboard.writeText(quotation(reply.quote));
      button.textContent = "Copied";
    };
    const spot = {
      question: reply.question, span: reply.quote && { start: reply.quote.start, end: reply.quote.end },
      source: context(), sources: documents(), shown: current,
    };
    fill(get("answer"),
      back ? h("div", {}, h("button", { type: "button", class: "quiet", onclick: back }, "← All answers")) : null,
      card(reply,
        h("div", { class: "row" },
          reply.quote ? h("button", { type: "button", class: "quiet", onclick: copied }, "Copy with its place") : null,
          h("button", { type: "button", class: "quiet", onclick: explain }, "Why?")),
        more,
        judge(spot, reading, { saved: () => {}, failed: (error) => tell(error.message) })),
      runnersUp(reply, near, (quote) => goTo(quote)));
  }

  function table(replies) {
    const rows = replies.map((reply) => [reply.question, reply.answer ?? "", reply.confidence.toFixed(4), reply.quote?.name ?? "", reply.quote?.place ?? "", reply.quote?.start ?? "", reply.quote?.end ?? ""]);
    const head = ["question", "answer", "confidence", "text", "place", "start", "end"];
    const save = () => download("answers.csv", `\uFEFF${csv([head, ...rows])}`, "text/csv");
    const again = () => table(replies);
    show();
    fill(get("answer"),
      h("div", { class: "row spread" }, h("h2", {}, `${replies.length} answers`), h("button", { type: "button", id: "csv", onclick: save }, "Download CSV")),
      h("div", { class: "scroll" }, h("table", {},
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Question"), h("th", { scope: "col" }, "Answer"), h("th", { scope: "col", class: "number" }, "Sure"))),
        h("tbody", {}, replies.map((reply) => h("tr", {},
          h("td", {}, h("button", { type: "button", class: "link", onclick: () => one(reply, again) }, reply.question)),
          h("td", { title: reply.quote ? place(reply.quote) : "" }, reply.answer ?? h("em", {}, "Not in the text")),
          h("td", { class: "number", title: words(reply.confidence) }, percent(reply.confidence))))))));
  }

  // ---- earlier questions

  function remember(replies) {
    const news = replies.map((reply) => ({ question: reply.question, answer: reply.answer }));
    const asked = new Set(news.map((one) => one.question));
    state.history = [...news, ...state.history.filter((one) => !asked.has(one.question))];
    keep();
    past();
  }

  function past() {
    get("history").hidden = !state.history.length && !documents().some((one) => one.text?.trim());
    get("history-title").textContent = state.history.length ? "Earlier questions" : "Kept in this browser";
    fill(get("past"), state.history.map((one) => h("li", {}, h("button", {
      type: "button", onclick: () => { get("question").value = one.question; ask(); },
    }, h("span", {}, one.question), h("span", {}, one.answer ?? "not in the text")))));
  }

  // ---- events

  get("paste").addEventListener("input", () => { pasted(); keep(); past(); });
  get("edit").addEventListener("click", () => { current().editing = true; show(); get("paste").focus(); });
  get("files").addEventListener("change", async (event) => { const files = [...event.target.files]; event.target.value = ""; await add(files); });
  get("ask").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
  get("question").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); ask(); }
  });
  get("question").addEventListener("input", keep);
  get("forget").addEventListener("click", () => {
    forget();
    Object.assign(state, { documents: [], current: 0, question: "", history: [] });
    get("question").value = "";
    hello();
    show();
    past();
  });
  for (const name of ["dragover", "dragleave", "drop"]) {
    get("pane").addEventListener(name, (event) => {
      event.preventDefault();
      get("pane").classList.toggle("drop", name === "dragover");
      if (name === "drop") add([...event.dataTransfer.files]);
    });
  }
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
    if (event.key === "/" && !typing && !get("view-ask").hidden) { event.preventDefault(); get("question").focus(); }
  });

  get("question").value = state.question;
  if (!documents().length && !state.history.length) hello();
  show();
  past();
  return { current };
}
