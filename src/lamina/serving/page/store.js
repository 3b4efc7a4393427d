// What survives a reload: the texts, the question and the earlier questions, in this browser only.

const KEY = "lamina.ask.v1";
const MOST = 50; // earlier questions
const EMPTY = { documents: [], current: 0, question: "", history: [] };

/** Return what was saved last. */
export function load() {
  try {
    return { ...EMPTY, ...JSON.parse(localStorage.getItem(KEY) ?? "{}") };
  } catch {
    return { ...EMPTY };
  }
}

/** Save the state. Without room for the texts, only the questions are saved. */
export function save(state) {
  const kept = { ...state, history: state.history.slice(0, MOST) };
  for (const value of [kept, { ...kept, documents: [], current: 0 }]) {
    try {
      return localStorage.setItem(KEY, JSON.stringify(value));
    } catch { /* the browser's room is full */ }
  }
  return undefined;
}

/** Forget everything. */
export const forget = () => localStorage.removeItem(KEY);
