// Why an answer: the start and end probability over the text as heat lines, and the layers of the tokens around the answer.

import { call } from "./api.js";
import { h, s } from "./dom.js";
import { Positions } from "./text.js";

const BINS = 240; // of a heat line
const CELL = 14;

/** Return the strip for a question on a text. */
export async function why(question, text, model) {
  const found = await call("/why", { body: { question, context: text, model } });
  const length = Math.max(1, [...text].length);
  return h("div", { class: "why" },
    h("dl", {},
      h("dt", {}, "Start"), h("dd", {}, heat(found, found.starts, length, "heat-start", "Where the answer may start")),
      h("dt", {}, "End"), h("dd", {}, heat(found, found.ends, length, "heat-end", "Where it may end"))),
    h("p", { class: "hint" }, "From the first word of the text to the last. Darker is more probable."),
    found.layers ? layers(found, text) : h("p", { class: "hint" }, found.exported ? "An exported model does not show its layers." : "This model reads the last layer only, so no layers are weighed."));
}

function heat(found, shares, length, style, label) {
  const bins = new Float64Array(BINS);
  shares.forEach((share, token) => {
    const bin = Math.min(BINS - 1, Math.floor(BINS * found.start[token] / length));
    bins[bin] = Math.max(bins[bin], share);
  });
  const best = shares.reduce((top, share, token) => (share > shares[top] ? token : top), 0);
  const highest = Math.max(...bins, 1e-9);
  const spoken = `${label}: most probable at ${Math.round(100 * (found.start[best] ?? 0) / length)}% of the text`;
  const cells = [...bins].map((share, bin) => share / highest > 0.02
    && s("rect", { class: style, x: bin, y: 0, width: 1.6, height: 26, opacity: Math.sqrt(share / highest).toFixed(2) }));
  return s("svg", { class: "heat", viewBox: `0 0 ${BINS} 26`, preserveAspectRatio: "none", role: "img", "aria-label": spoken }, cells);
}

function layers(found, text) {
  const { first, numbers, weights, mixer } = found.layers, positions = new Positions(text);
  const highest = Math.max(...weights.flat(2), 1e-9), left = 44, top = 66;
  const height = top + CELL * numbers.length + 4, width = left + CELL * weights.length + 40;
  const parts = [];
  numbers.forEach((layer, row) => parts.push(s("text", { x: 0, y: top + CELL * (numbers.length - row) - 3 }, `layer ${layer}`)));
  weights.forEach((ends, token) => {
    const [from, to] = [positions.unit(found.start[first + token]), positions.unit(found.end[first + token])];
    const x = left + CELL * token;
    parts.push(s("text", { x: x + 10, y: top - 6, transform: `rotate(-60 ${x + 10} ${top - 6})` }, text.slice(from, to).slice(0, 10)));
    ends[0].forEach((weight, row) => parts.push(s("rect", {
      class: "cell", x, y: top + CELL * (numbers.length - 1 - row), width: CELL - 1, height: CELL - 1, rx: 2,
      opacity: (0.06 + 0.94 * Math.max(weight, ends[1][row]) / highest).toFixed(2),
    })));
  });
  return h("figure", {},
    h("figcaption", { class: "hint" }, `The weight of each layer for the words around the answer (mixer ${mixer}).`),
    h("div", { class: "layers", tabindex: "0", role: "region", "aria-label": "Layer weights" },
      s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "A row for each layer, a column for each word" }, parts)));
}
