// The view Runs: a table of runs, F1 against cost, and the curves and mistakes of one run.

import { call } from "./api.js";
import { fill, get, h, percent, s } from "./dom.js";

const WIDTH = 420, HEIGHT = 220, LEFT = 44, BOTTOM = 30;
const short = (value) => value === null || value === undefined ? "" : value >= 1e6 ? `${(value / 1e6).toFixed(1)} M` : value >= 1e3 ? `${(value / 1e3).toFixed(0)} k` : String(value);
const main = (run) => run.scores.f1 ?? (run.scores.accuracy === undefined ? run.scores.score : 100 * run.scores.accuracy);

/** Set the view up. */
export function start({ tell }) {
  async function refresh() {
    fill(get("runs"), h("p", { class: "busy" }, "Looking for runs…"));
    try {
      const { folder, runs } = await call("/runs");
      if (!runs.length) return void fill(get("runs"), h("p", { class: "empty" }, `There are no runs in the folder ${folder}. lamina train and lamina fit write them; --runs names another folder.`));
      const scored = runs.filter((run) => run.minutes > 0 && main(run) !== undefined);
      fill(get("runs"), h("div", { class: "scroll" }, table(runs)), h("div", { class: "charts" }, scored.length > 1 ? cost(scored) : null));
    } catch (error) {
      fill(get("runs"));
      tell(error.message);
    }
    return undefined;
  }

  function table(runs) {
    const head = ["Run", "Encoder", "Mixer and head", "F1", "EM", "Minutes", "Trained weights", "All weights"];
    return h("table", {}, h("thead", {}, h("tr", {}, head.map((name, column) => h("th", { scope: "col", class: column > 2 ? "number" : null }, name)))),
      h("tbody", {}, runs.map((run) => h("tr", {},
        h("td", {}, h("button", { type: "button", class: "link", onclick: () => open(run.name) }, run.name), run.finished ? null : " (not finished)"),
        h("td", {}, run.encoder), h("td", {}, `${run.mixers.join(", ")}; ${run.heads.join(", ")}`),
        h("td", { class: "number" }, main(run)?.toFixed(1) ?? ""), h("td", { class: "number" }, run.scores.exact?.toFixed(1) ?? ""),
        h("td", { class: "number" }, run.minutes?.toFixed(1) ?? ""), h("td", { class: "number" }, short(run.trainable)), h("td", { class: "number" }, short(run.total))))));
  }

  async function open(name) {
    fill(get("run"), h("p", { class: "busy" }, "Reading the run…"));
    try {
      const run = await call(`/runs/details?name=${encodeURIComponent(name)}`);
      const curves = Object.entries(run.curves).filter(([, points]) => points.length > 1);
      fill(get("run"), h("h2", {}, run.name),
        h("div", { class: "charts" }, curves.map(([label, points]) => chart(label, points, "step"))),
        h("h2", {}, "Most confident mistakes"),
        run.mistakes.length ? h("ul", { class: "cards" }, run.mistakes.map(mistake)) : h("p", { class: "empty" }, run.why ?? "None were saved."));
      get("run").scrollIntoView({ behavior: "smooth", block: "start" });
    } catch (error) {
      fill(get("run"));
      tell(error.message);
    }
  }

  const mistake = (one) => h("li", {}, h("div", {},
    h("p", {}, one.question),
    h("p", { class: "right" }, h("span", { class: "down" }, one.prediction || "no answer"), one.confidence === null ? "" : ` (${percent(one.confidence)})`),
    h("p", { class: "where" }, `Right: ${one.gold.join(" / ") || "no answer"}`),
    h("details", {}, h("summary", { class: "where" }, "Text"), h("p", { class: "sentence" }, one.text))));

  return { refresh };
}

function cost(runs) {
  return chart("F1 against minutes of training", runs.map((run) => [run.minutes, main(run), run.name]), "minutes", true);
}

function chart(label, points, unit, dots = false) {
  const [xs, ys] = [points.map((point) => point[0]), points.map((point) => point[1])];
  const [left, right, low, high] = [dots ? 0 : Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const x = (value) => LEFT + (WIDTH - LEFT - 14) * (value - left) / (right - left || 1);
  const y = (value) => 12 + (HEIGHT - BOTTOM - 12) * (1 - (value - low) / (high - low || 1));
  const written = (value) => Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3);
  const marks = dots
    ? points.map((point) => [s("circle", { class: "dot", cx: x(point[0]), cy: y(point[1]), r: 4 }, s("title", {}, `${point[2]}: ${written(point[1])}`)),
      s("text", { x: x(point[0]) + (x(point[0]) > WIDTH - 100 ? -7 : 7), y: Math.max(10, y(point[1]) - 6), "text-anchor": x(point[0]) > WIDTH - 100 ? "end" : "start" }, point[2].slice(-18))])
    : [s("polyline", { class: "line", points: points.map((point) => `${x(point[0]).toFixed(1)},${y(point[1]).toFixed(1)}`).join(" ") })];
  const spoken = `${label}: from ${written(ys[0])} to ${written(ys.at(-1))}`;
  return h("figure", { class: "card" }, h("figcaption", {}, h("h3", {}, label)),
    s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": spoken },
      s("line", { class: "axis", x1: LEFT, x2: WIDTH, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }),
      s("text", { x: 0, y: y(high) + 4 }, written(high)), s("text", { x: 0, y: y(low) + 4 }, written(low)),
      s("text", { x: LEFT, y: HEIGHT - 10 }, written(left)), s("text", { x: WIDTH - 10, y: HEIGHT - 10, "text-anchor": "end" }, `${written(right)} ${unit === "step" ? "steps" : unit}`),
      marks));
}
