// Every sample: filter, sort, look. Rows exist only where the eye is, so ten thousand scroll like ten.

const HIGH = 44; // pixels of a row, as in style.css
const VERDICTS = ["broken", "robust", "wrong", "not judged"];
const VERDICT_MARKS = ["✗", "✓", "–", ""];
const explorer = { order: [], at: 0, sort: "place", down: false, filter: {} };

function explore() {
  const part = section("samples", "Samples", "The lightest and heaviest samples of the first run chosen above, then every sample: filter, sort by a column, and look. “Then for” is what a sample is taken for under PGD-20, “held for” how many of its 20 steps it stayed right. Arrow keys move through the rows.");
  gallery(part);
  explorer.filters = el("div", { class: "filters", role: "group", "aria-label": "Filters" });
  explorer.told = el("p", { id: "told", role: "status", class: "sentence" });
  explorer.head = el("div", { class: "head", role: "row" });
  explorer.body = el("div", { class: "body", role: "rowgroup" });
  explorer.view = el("div", { class: "rows", id: "rows", tabindex: "0", role: "grid", "aria-label": "Samples", onscroll: fillRows, onkeydown: moveRow }, explorer.head, explorer.body);
  explorer.detail = el("aside", { class: "panel detail", id: "detail", "aria-live": "polite", "aria-label": "The chosen sample" });
  explorer.empty = el("p", { class: "empty", hidden: true });
  explorer.whole = el("div", {}, el("h3", {}, "All samples"), explorer.filters, explorer.told, el("div", { class: "explorer" }, explorer.view, explorer.detail));
  part.append(explorer.empty, explorer.whole);
  whenChosen(startExplorer);
  whenPictured.push(() => explorer.run && (fillRows(true), showDetail(explorer.order[explorer.at])));
}

// What a row shows: its name, how it is sorted, how it is told.
function columnsShown(run) {
  const held = run.columns, numbers = key => row => held[key][row], other = runB();
  const shared = other && other.pool === run.pool ? other : null, attack = explorer.filter.attack;
  return [
    { key: "clean", name: "clean", picture: true },
    { key: "adv", name: "attacked", picture: true },
    { key: "place", name: "#", wide: "3.2rem", value: row => run.pool.place[row], told: row => String(run.pool.place[row]) },
    { key: "label", name: "class", value: row => run.pool.y[row], told: row => className(run, run.pool.y[row]) },
    { key: "predicted", name: "taken for", value: numbers("predicted"), told: row => className(run, held.predicted[row]), wrong: row => held.predicted[row] !== run.pool.y[row] },
    { key: "adversarial", name: "then for", value: numbers("adversarial"), told: row => className(run, held.adversarial[row]), wrong: row => held.adversarial[row] !== run.pool.y[row] },
    held.weight && { key: "weight", name: "weight", wide: "3.9rem", value: numbers("weight"), told: row => number(held.weight[row]) },
    { key: "margin", name: "margin", wide: "3.9rem", value: numbers("margin"), told: row => number(held.margin[row], 2) },
    { key: "adversarial margin", name: "attacked margin", wide: "4.3rem", value: numbers("adversarial margin"), told: row => number(held["adversarial margin"][row], 2) },
    { key: "survived", name: "held for", wide: "4.3rem", value: numbers("survived"), told: row => `${held.survived[row]} of 20` },
    attack && { key: "verdict", name: shared ? short(run.name, 12) : attack, value: row => verdictOf(run, row), told: row => verdictWord(run, row) },
    attack && shared && { key: "verdict b", name: short(shared.name, 12), value: row => verdictOf(shared, row), told: row => verdictWord(shared, row) },
  ].filter(Boolean);
}

function verdictOf(run, row, attack = explorer.filter.attack) {
  const held = run.columns && run.columns[`verdict ${attack}`];
  return held ? held[row] : 3;
}
function brokenBy(run, row, attack = explorer.filter.attack) {
  const held = run.columns && run.columns[`by ${attack}`];
  return held && held[row] >= 2 ? run.attacks[attack][held[row] - 2] : null;
}
function verdictWord(run, row, attack = explorer.filter.attack) {
  const word = verdictOf(run, row, attack);
  return `${VERDICT_MARKS[word]} ${VERDICTS[word]}`.trim();
}

function startExplorer() {
  const run = runA();
  explorer.run = run.pool ? run : null;
  explorer.whole.hidden = !run.pool;
  explorer.empty.hidden = Boolean(run.pool);
  explorer.empty.textContent = run.notes.join(" ") || "This run was not probed.";
  if (!run.pool) return;
  const attacks = Object.keys(run.attacks);
  const first = attacks.find(name => name !== "clean") || attacks[0] || null;
  const known = attacks.includes(explorer.filter.attack) ? explorer.filter.attack : first;
  explorer.filter = { attack: known };
  if (explorer.sort === "weight" && !run.columns.weight) explorer.sort = "place";
  buildFilters(run, attacks);
  apply();
}

function option(value, name, chosen) {
  return el("option", { value, selected: value === chosen }, name);
}
function picker(name, key, choices, tell) {
  const held = explorer.filter[key], value = held === undefined || held === null ? "" : String(held);
  const box = el("select", { id: `by-${key}`, onchange: event => { explorer.filter[key] = event.target.value === "" ? null : tell ? tell(event.target.value) : event.target.value; if (key === "attack") Object.assign(explorer.filter, { verdict: null, by: null }), buildFilters(explorer.run); apply(); } }, choices.map(([v, words]) => option(String(v), words, value)));
  return el("label", {}, name, box);
}
function range(name, key) {
  const set = (end, event) => {
    explorer.filter[key] = { ...explorer.filter[key], [end]: event.target.value === "" ? null : Number(event.target.value) };
    apply();
  };
  const held = explorer.filter[key] || {};
  const box = end => el("input", { type: "number", step: "any", placeholder: end, "aria-label": `${name} ${end}`, id: `${key.replace(" ", "-")}-${end}`, value: String(held[end] ?? ""), oninput: event => set(end, event) });
  return el("fieldset", {}, el("legend", {}, name), el("div", {}, box("from"), " ", box("to")));
}

function buildFilters(run, attacks = Object.keys(run.attacks)) {
  const classes = [["", "any"], ...run.pool.classes.map((name, c) => [c, name])];
  const other = runB() && runB().pool === run.pool ? runB() : null, attack = explorer.filter.attack;
  const verdicts = [["", "any"], ["robust", "robust"], ["broken", "broken"], ["wrong", "wrong as it is"], ["unknown", "not judged"]];
  if (other) verdicts.push(["only a", `only ${short(run.name, 18)} robust`], ["only b", `only ${short(other.name, 18)} robust`], ["both", "both robust"], ["neither", "neither robust"]);
  const breakers = attack ? run.attacks[attack] : [];
  explorer.filters.replaceChildren(
    picker("class", "label", classes, Number), picker("taken for", "predicted", classes, Number), picker("under PGD-20 for", "adversarial", classes, Number),
    ...(attacks.length ? [picker("attack", "attack", attacks.map(name => [name, name])), picker("verdict", "verdict", verdicts)] : []),
    ...(breakers.length > 1 ? [picker("broken by", "by", [["", "any"], ...breakers.map(name => [name, name])])] : []),
    ...(run.columns.weight ? [range("weight", "weight")] : []), range("attacked margin", "adversarial margin"),
    el("button", { type: "button", id: "clear", onclick: () => { explorer.filter = { attack: explorer.filter.attack }; buildFilters(run); apply(); } }, "Clear"),
  );
}

function passes(row, run, other) {
  const { label, predicted, adversarial, verdict, by, weight, attack, "adversarial margin": margin } = explorer.filter, held = run.columns;
  const within = (given, value) => !given || ((given.from ?? null) === null || value >= given.from) && ((given.to ?? null) === null || value <= given.to);
  if (!held.known[row]) return false;
  if (isNumber(label) && run.pool.y[row] !== label) return false;
  if (isNumber(predicted) && held.predicted[row] !== predicted) return false;
  if (isNumber(adversarial) && held.adversarial[row] !== adversarial) return false;
  if (weight && held.weight && !within(weight, held.weight[row])) return false;
  if (!within(margin, held["adversarial margin"][row])) return false;
  if (by && brokenBy(run, row) !== by) return false;
  if (!verdict || !attack) return true;
  const mine = verdictOf(run, row);
  if (["broken", "robust", "wrong", "unknown"].includes(verdict)) return mine === ["broken", "robust", "wrong", "unknown"].indexOf(verdict);
  const theirs = verdictOf(other, row);
  if (mine === 3 || theirs === 3) return false;
  return { "only a": mine === 1 && theirs !== 1, "only b": mine !== 1 && theirs === 1, both: mine === 1 && theirs === 1, neither: mine !== 1 && theirs !== 1 }[verdict];
}

function apply() {
  const run = explorer.run, other = runB() && runB().pool === run.pool ? runB() : null;
  explorer.shown = columnsShown(run);
  const sorted = explorer.shown.find(column => column.key === explorer.sort && column.value) || explorer.shown.find(column => column.key === "place");
  explorer.order = [];
  for (let row = 0; row < run.pool.n; row++) if (passes(row, run, other)) explorer.order.push(row);
  const turn = explorer.down ? -1 : 1, value = sorted.value, late = v => (Number.isNaN(v) ? Infinity : turn * v);
  explorer.order.sort((i, j) => late(value(i)) - late(value(j)) || i - j);
  const all = run.columns.known.reduce((sum, one) => sum + one, 0);
  explorer.told.textContent = `${count(explorer.order.length)} of ${count(all)} samples of ${run.pool.name} (${run.pool.half})`;
  buildHead(sorted);
  explorer.body.style.height = `${explorer.order.length * HIGH}px`;
  explorer.view.style.setProperty("--columns", explorer.shown.map(column => (column.picture ? "58px" : column.wide || "minmax(4.4rem, 1fr)")).join(" "));
  explorer.view.setAttribute("aria-rowcount", explorer.order.length + 1);
  explorer.at = Math.max(0, Math.min(explorer.at, explorer.order.length - 1));
  fillRows(true);
  showDetail(explorer.order[explorer.at]);
}

function buildHead(sorted) {
  explorer.head.replaceChildren(...explorer.shown.map(column => {
    if (column.picture) return el("div", { role: "columnheader" }, column.name);
    const on = column === sorted;
    const by = () => { explorer.down = explorer.sort === column.key ? !explorer.down : ["weight", "survived"].includes(column.key); explorer.sort = column.key; explorer.at = 0; explorer.view.scrollTop = 0; apply(); };
    return el("div", { role: "columnheader", "aria-sort": on ? (explorer.down ? "descending" : "ascending") : "none" }, el("button", { type: "button", onclick: by, "data-sort": column.key }, column.name));
  }));
}

let drawnRows = new Map();
function fillRows(anew = false) {
  const { view, body, order, run, shown: columns } = explorer;
  if (!run) return;
  const first = Math.max(0, Math.floor(view.scrollTop / HIGH) - 4), last = Math.min(order.length, Math.ceil((view.scrollTop + view.clientHeight) / HIGH) + 4);
  if (anew === true) {
    body.replaceChildren();
    drawnRows = new Map();
  }
  for (const [i, row] of drawnRows) if (i < first || i >= last) row.remove(), drawnRows.delete(i);
  const added = [];
  for (let i = first; i < last; i++) if (!drawnRows.has(i)) added.push(rowOf(i, order[i], run, columns));
  body.append(...added);
  markRow();
}

function rowOf(i, sample, run, columns) {
  const cells = columns.map(column => {
    if (column.picture) return pictured(run, sample, column.key === "clean" ? "clean" : "adversarial");
    return el("div", { role: "gridcell", class: column.wrong && column.wrong(sample) ? "wrong" : "" }, column.told(sample));
  });
  const made = el("div", { class: "row", role: "row", id: `row-${i}`, "aria-rowindex": String(i + 2), onclick: () => goTo(i), onmouseenter: () => showDetail(sample), onmouseleave: () => showDetail(order()) }, cells);
  const order = () => explorer.order[explorer.at];
  made.style.top = `${i * HIGH}px`;
  drawnRows.set(i, made);
  return made;
}

function markRow() {
  for (const [i, row] of drawnRows) row.classList.toggle("at", i === explorer.at);
  explorer.view.setAttribute("aria-activedescendant", drawnRows.has(explorer.at) ? `row-${explorer.at}` : "");
}

function goTo(i) {
  explorer.at = Math.max(0, Math.min(i, explorer.order.length - 1));
  const head = explorer.head.offsetHeight, top = explorer.at * HIGH, { view } = explorer;
  if (top < view.scrollTop) view.scrollTop = top;
  else if (top + HIGH + head > view.scrollTop + view.clientHeight) view.scrollTop = top + HIGH + head - view.clientHeight;
  fillRows();
  showDetail(explorer.order[explorer.at]);
}

function moveRow(event) {
  if (event.target !== explorer.view) return;
  const page = Math.max(1, Math.floor(explorer.view.clientHeight / HIGH) - 2);
  const to = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  goTo(to === Infinity ? explorer.order.length - 1 : to === -Infinity ? 0 : explorer.at + to);
}

function showDetail(row) {
  const run = explorer.run;
  if (row === undefined) return explorer.detail.replaceChildren(el("p", { class: "note" }, "No sample is like this."));
  const others = runs.filter(other => other.pool === run.pool && other.columns.known[row]);
  const three = KINDS_SHOWN.map(kind => el("div", {}, pictured(run, row, kind), el("span", {}, kind)));
  const lines = [
    ["taken for", other => className(other, other.columns.predicted[row])],
    ["under PGD-20", other => className(other, other.columns.adversarial[row])],
    ...(others.some(other => other.columns.weight) ? [["weight", other => (other.columns.weight ? number(other.columns.weight[row]) : "as all")]] : []),
    ["margin", other => number(other.columns.margin[row], 2)],
    ["adversarial margin", other => number(other.columns["adversarial margin"][row], 2)],
    ["right for", other => `${other.columns.survived[row]} of 20 steps`],
    ...Object.keys(run.attacks).filter(name => name !== "clean").map(attack => [attack, other => verdictWord(other, row, attack) + (brokenBy(other, row, attack) && run.attacks[attack].length > 1 ? ` (${brokenBy(other, row, attack)})` : "")]),
  ];
  const head = others.length > 1 ? el("thead", {}, el("tr", {}, el("th", {}), others.map(other => el("th", { scope: "col" }, short(other.name, 14))))) : null;
  explorer.detail.replaceChildren(
    el("h3", {}, `#${run.pool.place[row]}: ${className(run, run.pool.y[row])}`),
    el("p", { class: "note" }, `Pictures under ${run.name}. A change of at most ${number(run.columns.size[row], 3)} a pixel; the difference is shown at full contrast.`),
    el("div", { class: "three" }, three),
    el("table", {}, head, el("tbody", {}, lines.map(([name, told]) => el("tr", {}, el("th", { scope: "row" }, name), others.map(other => el("td", {}, told(other))))))),
  );
}

// Show some samples from anywhere in the page: a filter, and the row to begin with.
function showSamples(filter, row = null) {
  const run = runA();
  if (!run.pool) return;
  explorer.filter = { attack: explorer.filter.attack, ...filter };
  explorer.at = 0;
  explorer.view.scrollTop = 0;
  buildFilters(run);
  apply();
  if (row !== null) goTo(explorer.order.indexOf(row));
  explorer.whole.scrollIntoView({ block: "start" });
  explorer.view.focus({ preventScroll: true });
}
