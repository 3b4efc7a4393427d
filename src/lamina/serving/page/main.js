// The page: its views, the choice of the model, and notices.

import { call, Failed } from "./api.js";
import { start as startAsk } from "./ask.js";
import { start as startCompare } from "./compare.js";
import { start as startCorrect } from "./correct.js";
import { fill, get, h } from "./dom.js";
import { start as startRuns } from "./runs.js";

const VIEWS = ["ask", "correct", "compare", "runs"];
let models = [];

/** Show a notice; null removes it. */
function tell(message, calm = false) {
  const notice = get("notice");
  notice.hidden = !message;
  notice.classList.toggle("calm", calm);
  fill(notice, h("span", {}, message ?? ""), h("button", { type: "button", class: "quiet", "aria-label": "Close this notice", onclick: () => tell(null) }, "×"));
}

const model = () => get("model").value || null;

async function loadModels() {
  for (;;) {
    try {
      models = (await call("/models")).models;
      break;
    } catch (error) {
      if (!(error instanceof Failed) || (error.status !== 503 && error.status !== 0)) throw error;
      if (error.status === 0) tell(error.message);
      await new Promise((resolve) => { setTimeout(resolve, 700); });
    }
  }
  fill(get("model"), models.filter((one) => one.answers).map((one) => h("option", {}, one.name)));
  get("model").disabled = false;
  document.documentElement.dataset.ready = "yes";
  compare.refresh(models);
}

function view() {
  const [asked] = location.hash.slice(1).split("/");
  const name = asked === "label" ? "correct" : VIEWS.includes(asked) ? asked : "ask";
  for (const one of VIEWS) get(`view-${one}`).hidden = one !== name;
  for (const link of document.querySelectorAll(".top nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${name[0].toUpperCase()}${name.slice(1)} · Lamina`;
  if (name === "correct") correct.refresh();
  if (name === "compare") compare.refresh(models);
  if (name === "runs") runs.refresh();
}

const ask = startAsk({ tell, model });
const correct = startCorrect({ tell, model, switched: loadModels });
const compare = startCompare({ tell, text: () => ask.current()?.text ?? "" });
const runs = startRuns({ tell });
addEventListener("hashchange", () => { tell(null); view(); });
view();
loadModels().catch((error) => tell(error.message));
