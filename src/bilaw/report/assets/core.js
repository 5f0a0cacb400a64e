// What everything else uses: elements, packed data, numbers in words, and the choice of runs and theme.

const byId = id => document.getElementById(id);

// Make an element. Children that are strings become text, never markup: names may hold anything.
function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made && name !== "list" && typeof value !== "string") made[name] = value;
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter(child => child !== null && child !== undefined).map(child => child.nodeType ? child : String(child)));
  return made;
}

function bytesOf(id) {
  const held = byId(id).textContent;
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(held);
  const text = atob(held);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

async function inflated(id) {
  const stream = new Blob([bytesOf(id)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

const KINDS = { uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, float32: Float32Array };
async function columnsOf(id, about) {
  const held = await inflated(id);
  return Object.fromEntries(about.map(one => [one.name, new KINDS[one.kind](held, one.at, one.count)]));
}

// Plotly reads a little markup in its texts: names are shown as they are.
const shown = text => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const short = (text, most = 26) => (String(text).length > most ? String(text).slice(0, most - 1) + "…" : String(text));

const isNumber = value => typeof value === "number" && Number.isFinite(value);
const percent = (value, digits = 1) => (isNumber(value) ? (100 * value).toFixed(digits) + " %" : "–");
const points = value => (value > 0 ? "+" : value < 0 ? "−" : "") + Math.abs(100 * value).toFixed(1);
const number = (value, digits = 3) => (isNumber(value) ? (Object.is(value, -0) ? "0" : Number(value.toPrecision(digits)).toString().replace("-", "−")) : "–");
const count = value => Math.round(value).toLocaleString("en");
const seconds = value => (!isNumber(value) ? "–" : value >= 3600 ? number(value / 3600, 3) + " h" : value >= 60 ? number(value / 60, 3) + " min" : number(value, 3) + " s");

let facts = null; // as payload.py tells them
const pools = []; // {name, half, classes, n, place, y, ...}
const runs = []; // {name, ..., columns, pool}
const state = { a: 0, b: null };
const watchers = [];
const whenChosen = watcher => watchers.push(watcher);
function choose(change) {
  Object.assign(state, change);
  watchers.forEach(watcher => watcher(state));
}
const runA = () => runs[state.a];
const runB = () => (state.b === null ? null : runs[state.b]);

// Runs are told apart by colour, dashes and marks together: in grey, too.
const DASHES = ["solid", "dash", "dashdot", "dot"], SYMBOLS = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross"];
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
function look(i) {
  const colour = css(`--run-${i % 6}`);
  return { line: { color: colour, dash: DASHES[i % 4], width: 2 }, marker: { color: colour, symbol: SYMBOLS[i % 6], size: 7 } };
}
const place = name => runs.findIndex(run => run.name === name);

async function unpack() {
  facts = JSON.parse(new TextDecoder().decode(await inflated("facts")));
  for (const [i, pool] of facts.pools.entries()) {
    pools.push({ ...pool, ...(await columnsOf(`pool-${i}`, pool.columns)) });
  }
  for (const [i, run] of facts.runs.entries()) {
    const columns = run.pool === null ? null : await columnsOf(`run-${i}`, run.columns);
    runs.push({ ...run, index: i, columns, pool: run.pool === null ? null : pools[run.pool] });
  }
  state.a = Math.max(0, runs.findIndex(run => run.weighs)); // the first whose weights there are to see
  state.b = runs.length > 1 ? (state.a ? 0 : 1) : null;
}

async function library() {
  const text = new TextDecoder().decode(await inflated("plotly"));
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  await new Promise((done, failed) => {
    document.head.append(el("script", { src: address, onload: done, onerror: failed }));
  });
  URL.revokeObjectURL(address);
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const dark = theme === "dark";
  byId("theme").textContent = dark ? "Light" : "Dark";
  byId("theme").setAttribute("aria-pressed", String(dark));
  byId("theme").setAttribute("aria-label", dark ? "Light colours" : "Dark colours");
}
