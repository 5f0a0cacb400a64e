// The runs side by side: what they are, how accurate, what differs by more than chance, how they were trained.

const BETTER = "better by more than chance";

function overview() {
  const main = byId("main");
  main.append(el("h1", {}, runs.map(run => run.name).join(" · ")));
  const cards = el("div", { class: "cards", id: "overview" });
  for (const run of runs) cards.append(card(run));
  main.append(cards, scoreTable(), el("p", { class: "sentence", id: "sentence", role: "status" }));
  byId("nav").prepend(el("a", { href: "#overview" }, "Overview"));
  whenChosen(() => (byId("sentence").textContent = sentence()));
}

function card(run) {
  const swatch = el("span", { class: "swatch", "aria-hidden": "true" });
  const style = ["solid", "dashed", "dotted"][run.index % 3];
  swatch.style.borderTop = `3px ${style} var(--run-${run.index % 6})`;
  const best = run.best, trained = run.trained;
  const rows = [
    ["method", run.method], ["model", run.model], ["data", run.data], ["seed", run.seed],
    ["trained with", trained ? `${trained.norm}, eps ${number(trained.eps, 4)}` : "no attack"],
    ["epochs", `${run.epochs[0]} of ${run.epochs[1]}, ${run.state}`],
    ["best epoch", best ? `${best.epoch + 1}: clean ${percent(best.clean)}, PGD ${percent(best.robust)} on select` : "none yet"],
  ];
  const events = run.events.map(text => el("p", { class: "note" }, `While training: ${text}`));
  const notes = run.notes.map(text => el("p", { class: "note" }, text));
  return el("article", { class: "card" }, el("h3", {}, runs.length > 1 ? swatch : null, run.name), el("dl", {}, rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])), events, notes);
}

const attacksOf = () => [...new Set(Object.values(facts.figures.scores).flatMap(held => held.attack || []))];
function scoreOf(run, attack) {
  const held = facts.figures.scores[run.name], at = held && held.attack ? held.attack.indexOf(attack) : -1;
  return at < 0 ? null : Object.fromEntries(["accuracy", "low", "high", "hits", "n", "reliable"].map(key => [key, held[key][at]]));
}
const pairsOf = attack => (Array.isArray(facts.figures.comparison) ? facts.figures.comparison.filter(one => one.attack === attack) : []);
function isBest(run, attack) {
  const rivals = runs.filter(other => other !== run && scoreOf(other, attack) && scoreOf(other, attack).reliable !== false);
  return rivals.length > 0 && rivals.every(other => pairsOf(attack).some(one => one.better === run.name && [one.a, one.b].includes(other.name)));
}

function badge(reliable) {
  if (reliable === false) return el("span", { class: "badge bad", title: "A check of the audit failed: see the audit" }, "UNRELIABLE");
  return reliable === null ? el("span", { class: "badge open", title: "Evaluated without an audit" }, "not audited") : null;
}

function scoreTable() {
  const scores = facts.figures.scores;
  if (scores.missing) return el("p", { class: "empty" }, scores.missing);
  const attacks = attacksOf();
  const cell = (run, attack) => {
    const score = scoreOf(run, attack);
    if (!score) return el("td", {}, "–");
    const best = isBest(run, attack) ? el("span", { class: "badge good" }, `★ ${BETTER}`) : null;
    return el("td", {}, el("b", {}, percent(score.accuracy)), el("span", {}, `${percent(score.low)} to ${percent(score.high)}`), el("span", {}, `${count(score.hits)} of ${count(score.n)}`), badge(score.reliable), best);
  };
  const rows = runs.map(run => el("tr", {}, el("th", { scope: "row" }, run.name), attacks.map(attack => cell(run, attack))));
  const head = el("tr", {}, el("th", { scope: "col" }, "accuracy, 95 % interval"), attacks.map(name => el("th", { scope: "col" }, name)));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Accuracies" }, el("table", { class: "scores" }, el("thead", {}, head), el("tbody", {}, rows)));
}

function between(attack) {
  const [a, b] = [runA(), runB()];
  const one = b && pairsOf(attack).find(pair => [pair.a, pair.b].includes(a.name) && [pair.a, pair.b].includes(b.name));
  if (!one) return null;
  const turned = one.a !== a.name;
  return turned ? { ...one, a: one.b, b: one.a, only_a: one.only_b, only_b: one.only_a, difference: -one.difference, low: -one.high, high: -one.low } : one;
}

function sentence() {
  if (!runB()) return "";
  const told = attacksOf().map(attack => between(attack)).filter(Boolean);
  if (!told.length) return `${runA().name} and ${runB().name} were not judged on the same samples, so nothing says which is better.`;
  return told.map(one => verdictWords(one)).join(" ");
}
const chance = p => (p < 0.0001 ? "p < 0.0001" : `p = ${number(p, 2)}`);
const unsure = attack => [runA(), runB()].some(run => scoreOf(run, attack).reliable === false);
function verdictWords(one) {
  const where = one.attack === "clean" ? "On clean images" : `Under ${one.attack}`;
  if (unsure(one.attack)) return `${where} a number is unreliable, so nothing says which is better.`;
  if (!one.better) return `${where} the difference may be chance (${points(one.difference)} points, ${chance(one.p)}).`;
  return `${where} ${one.better} is better by ${Math.abs(100 * one.difference).toFixed(1)} points (${chance(one.p)}).`;
}

function robustness() {
  const part = section("robustness", "Robustness", "Accuracy with its uncertainty: under each attack, along the budget, and for every class.");
  const held = grid(part);
  addPanel(held, { title: "Accuracy under each attack", note: "95 % Wilson intervals. A hollow mark is unreliable: a check of the audit failed.", draw: drawScores, height: 280 });
  addPanel(held, { title: "Accuracy along the budget", draw: drawBudget, height: 280 });
  addPanel(held, { title: "Accuracy of each class", draw: drawClasses, wide: true, height: 340 });
}

function drawScores() {
  const scores = facts.figures.scores;
  if (scores.missing) return scores;
  const attacks = attacksOf(), rows = [];
  const traces = runs.filter(run => scores[run.name]).map(run => {
    const held = scores[run.name], marks = look(run.index).marker;
    held.attack.forEach((attack, i) => rows.push([run.name, attack, percent(held.accuracy[i], 2), `${percent(held.low[i], 2)} to ${percent(held.high[i], 2)}`, count(held.n[i]), held.reliable[i] === false ? "UNRELIABLE" : held.reliable[i] ? "audited" : "not audited"]));
    return {
      type: "scatter", mode: "markers", name: shown(run.name), y: held.attack.map(name => attacks.indexOf(name) + (run.index - (runs.length - 1) / 2) * 0.16), x: held.accuracy,
      error_x: { type: "data", symmetric: false, array: held.high.map((v, i) => v - held.accuracy[i]), arrayminus: held.accuracy.map((v, i) => v - held.low[i]), color: marks.color },
      marker: { ...marks, size: 9, symbol: held.reliable.map(sure => marks.symbol + (sure === false ? "-open" : "")) },
      text: held.reliable.map(sure => (sure === false ? "UNRELIABLE" : "")), customdata: held.n, hovertemplate: "%{x:.2%} of %{customdata} %{text}<extra></extra>",
    };
  });
  const layout = { xaxis: axis("accuracy", { tickformat: ".0%", range: [0, 1.02] }), yaxis: axis("", { tickvals: attacks.map((_, i) => i), ticktext: attacks.map(shown), range: [attacks.length - 0.5, -0.5], zeroline: false }) };
  return { traces, layout, height: 110 + 56 * attacks.length, table: { head: ["run", "attack", "accuracy", "95 % interval", "samples", ""], rows } };
}

function drawBudget() {
  const data = facts.figures.budget;
  if (typeof data.missing === "string") return data; // a run may be called "missing"
  const traces = [], rows = [], names = Object.keys(data), first = data[names[0]];
  for (const name of names) {
    const held = data[name], style = look(place(name));
    traces.push(band(held.radius, held.low, held.high, style.line.color, shown(name)));
    traces.push({ x: held.radius, y: held.accuracy, name: shown(name), type: "scatter", mode: "lines+markers", ...style, hovertemplate: "eps %{x:.4g}: %{y:.1%}<extra></extra>" });
    held.radius.forEach((radius, i) => rows.push([name, number(radius, 4), percent(held.accuracy[i]), `${percent(held.low[i])} to ${percent(held.high[i])}`]));
  }
  const shapes = [...new Set(names.map(name => data[name].eps))].map(eps => ({ type: "line", x0: eps, x1: eps, y0: 0, y1: 1, yref: "paper", line: { color: css("--soft"), width: 1, dash: "dot" } }));
  const layout = { shapes, xaxis: axis(`budget eps (${first.norm})`, { rangemode: "tozero" }), yaxis: axis("accuracy", { tickformat: ".0%", range: [0, 1.02] }) };
  return { traces, layout, note: `PGD-20 on ${count(first.n)} samples; the band is the 95 % interval, the dotted line the eps of the evaluation.`, table: { head: ["run", "eps", "accuracy", "95 % interval"], rows } };
}

const CLASSES = 40;
function drawClasses() {
  const data = facts.figures.classes;
  if (typeof data.missing === "string") return data; // a run may be called "missing"
  const names = Object.keys(data), first = data[names[0]], rows = [], traces = [];
  let order = first.classes.map((_, c) => c);
  if (order.length > CLASSES) order = order.sort((i, j) => (first.robust[i][0] ?? 2) - (first.robust[j][0] ?? 2)).slice(0, CLASSES);
  names.forEach((name, turn) => {
    const held = data[name], style = look(place(name)), x = order.map((_, i) => i + (turn - (names.length - 1) / 2) * 0.2);
    const pick = (part, i) => order.map(c => held[part][c] && held[part][c][i]);
    const robust = pick("robust", 0), mark = held.reliable === false ? " UNRELIABLE" : "";
    const words = order.map(c => shown(held.classes[c]));
    traces.push({ x, y: robust, text: words, type: "scatter", mode: "markers", name: shown(`${name}: ${held.attack}${mark}`), marker: { ...style.marker, size: 8 }, error_y: { type: "data", symmetric: false, color: style.marker.color, array: pick("robust", 2).map((v, i) => v - robust[i]), arrayminus: robust.map((v, i) => v - pick("robust", 1)[i]) }, hovertemplate: "%{text}: %{y:.1%}<extra></extra>" });
    traces.push({ x, y: pick("clean", 0), text: words, type: "scatter", mode: "markers", name: shown(`${name}: clean`), marker: { ...style.marker, symbol: style.marker.symbol + "-open" }, hovertemplate: "%{text}, clean: %{y:.1%}<extra></extra>" });
    held.classes.forEach((word, c) => rows.push([name, word, percent(held.clean[c][0]), percent(held.robust[c][0]), `${percent(held.robust[c][1])} to ${percent(held.robust[c][2])}`, count(held.robust[c][3])]));
  });
  const layout = { showlegend: true, xaxis: axis("", { tickvals: order.map((_, i) => i), ticktext: order.map(c => shown(short(first.classes[c], 14))), zeroline: false }), yaxis: axis("accuracy", { tickformat: ".0%", range: [0, 1.04] }) };
  const many = order.length < first.classes.length ? ` The ${CLASSES} least robust of ${first.classes.length} classes are shown.` : "";
  const others = names.length < runs.filter(run => run.pool).length ? " Runs on other classes are left out." : "";
  return { traces, layout, note: `Filled: under attack, with its 95 % interval; hollow: clean.${many}${others}`, table: { head: ["run", "class", "clean", "robust", "95 % interval", "samples"], rows } };
}

function comparison() {
  if (runs.length < 2) return;
  const part = section("compare", "Comparison", "The two runs chosen above, on the same samples: what only one of them gets right, and whether the difference is more than chance.");
  const held = el("div", { class: "scroll", id: "pairs" });
  part.append(held);
  whenChosen(() => held.replaceChildren(pairTable()));
  const panel = addPanel(grid(part), { title: "Paired differences", wide: true, draw: drawPairs, height: 240 });
  whenChosen(() => redraw([panel]));
}

function pairTable() {
  const told = attacksOf().map(attack => between(attack)).filter(Boolean);
  if (!runB()) return el("p", { class: "empty" }, "Choose a second run above, to compare it with the first.");
  if (!told.length) return el("p", { class: "empty" }, facts.figures.comparison.missing || "These two runs were not judged on the same samples in the same ball.");
  const only = (one, which, n) => el("button", { type: "button", onclick: () => showSamples({ attack: one.attack, verdict: which }) }, `${count(n)} samples`);
  const rows = told.map(one => el("tr", {}, el("th", { scope: "row" }, one.attack), el("td", {}, `${points(one.difference)} points`), el("td", {}, `${points(one.low)} to ${points(one.high)}`), el("td", {}, chance(one.p).replace("p = ", "").replace("p ", "")), el("td", {}, only(one, "only a", one.only_a)), el("td", {}, only(one, "only b", one.only_b)), el("td", {}, verdictShort(one))));
  const head = ["", `${runA().name} − ${runB().name}`, "95 % interval", "p", `only ${runA().name} right`, `only ${runB().name} right`, ""];
  const note = el("p", { class: "note" }, `McNemar's exact test on the ${count(told[0].n)} samples or those that were attacked; p is adjusted for all pairs of runs (Holm); the interval is the paired bootstrap's.`);
  return el("div", {}, el("table", {}, el("thead", {}, el("tr", {}, head.map(name => el("th", { scope: "col" }, name)))), el("tbody", {}, rows)), note);
}
function verdictShort(one) {
  if (unsure(one.attack)) return badge(false);
  return one.better ? el("span", { class: "badge good" }, `★ ${one.better} is ${BETTER}`) : "may be chance";
}

function drawPairs() {
  const told = attacksOf().map(attack => between(attack)).filter(Boolean);
  if (!told.length) return { missing: "There is nothing to compare on the same samples." };
  const ink = css("--ink"), y = told.map(one => shown(one.attack));
  const trace = { type: "scatter", mode: "markers", y, x: told.map(one => 100 * one.difference), marker: { color: ink, size: 9, symbol: told.map(one => (one.better ? "circle" : "circle-open")) }, error_x: { type: "data", symmetric: false, color: ink, array: told.map(one => 100 * (one.high - one.difference)), arrayminus: told.map(one => 100 * (one.difference - one.low)) }, hovertemplate: "%{y}: %{x:+.1f} points<extra></extra>", showlegend: false };
  const layout = { xaxis: axis(shown(`points: ${runA().name} − ${runB().name}`), { zerolinecolor: css("--soft"), rangemode: "tozero" }), yaxis: axis("", { autorange: "reversed", type: "category" }) };
  return { traces: [trace], layout, height: 110 + 44 * told.length, note: "Filled: more than chance, no check of either number's audit having failed. Hollow: it may be chance. Right of zero the first run is better." };
}

const CURVES = [["loss", "training loss", ""], ["clean", "clean accuracy on select", ".0%"], ["robust", "PGD accuracy on select", ".0%"], ["lr", "learning rate", ""], ["ess", "effective sample size", ".0%"], ["seconds", "seconds an epoch", ""]];
function training() {
  const part = section("training", "Training", "How each run came about. The ring marks the epoch that was kept: the best PGD accuracy on select, training samples held out for that choice.");
  const held = grid(part);
  for (const [key, title, format] of CURVES) {
    addPanel(held, { title: title[0].toUpperCase() + title.slice(1), note: key === "ess" ? "How many samples of a batch count: 100 % means that all weigh the same." : "", height: 230, draw: () => drawCurve(key, format) });
  }
  addPanel(held, { title: "Time and memory", note: "Seconds of each phase, on a logarithmic scale.", wide: true, draw: drawCost, height: 260 });
}

function drawCurve(key, format) {
  const data = facts.figures.curves;
  if (typeof data.missing === "string") return data; // a run may be called "missing"
  const names = Object.keys(data).filter(name => data[name][key].some(isNumber)), traces = [];
  if (!names.length) return { missing: "No epoch has this number." };
  for (const name of names) {
    const held = data[name], style = look(place(name)), many = held.epoch.length > 40;
    traces.push({ x: held.epoch.map(e => e + 1), y: held[key], name: shown(name), type: "scatter", mode: many ? "lines" : "lines+markers", line: style.line, marker: { ...style.marker, size: 5 } });
    const at = held.epoch.indexOf(held.best);
    if (key === "robust" && at >= 0) traces.push({ x: [held.best + 1], y: [held[key][at]], type: "scatter", mode: "markers", marker: { color: style.line.color, symbol: "circle-open", size: 14, line: { width: 2 } }, showlegend: false, hoverinfo: "skip" });
  }
  const rows = names.flatMap(name => data[name].epoch.map((epoch, i) => [name, epoch + 1, number(data[name][key][i], 5)]));
  const own = { lr: { type: "log", dtick: 1 }, ess: { range: [0, 1.05] }, seconds: { rangemode: "tozero" } };
  const few = Math.max(...names.map(name => data[name].epoch.length)) <= 12;
  const layout = { xaxis: axis("epoch", few ? { dtick: 1 } : {}), yaxis: axis("", { tickformat: format, ...own[key] }) };
  return { traces, layout, table: { head: ["run", "epoch", key], rows } };
}

function drawCost() {
  const data = facts.figures.cost;
  if (typeof data.missing === "string") return data; // a run may be called "missing"
  const names = Object.keys(data);
  const phases = [...new Set(names.flatMap(name => data[name].phase))];
  const traces = names.map(name => ({ type: "bar", orientation: "h", y: data[name].phase.map(shown), x: data[name].seconds, name: shown(name), marker: bars(place(name)), text: data[name].seconds.map(seconds), textposition: "outside", cliponaxis: false, textfont: { color: css("--soft"), size: 11 }, hovertemplate: "%{y}: %{text}<extra></extra>" }));
  const words = names.map(name => `${name}: ${number(data[name]["ms a step"], 3)} ms a step, at most ${isNumber(data[name]["peak MiB"]) ? count(data[name]["peak MiB"]) : "–"} MiB`).join("; ");
  const rows = names.flatMap(name => data[name].phase.map((phase, i) => [name, phase, seconds(data[name].seconds[i])]));
  return { traces, note: `${words}. The probe is what this report had to compute itself.`, layout: { xaxis: axis("seconds", { type: "log", dtick: 1 }), yaxis: axis("", { autorange: "reversed", type: "category" }), barmode: "group", margin: { l: 56, r: 60, t: 10, b: 44 } }, height: 100 + (14 + 18 * names.length) * phases.length, table: { head: ["run", "phase", "time"], rows } };
}

function audit() {
  const part = section("audit", "Audit", "What speaks against the numbers. A failed check marks those it concerns as UNRELIABLE, wherever they are shown.");
  const held = grid(part);
  for (const run of runs) {
    const found = run.figures.audit, marks = { pass: "✓ passed", warn: "! warning", fail: "✗ failed" };
    const lines = found.missing ? el("p", { class: "empty" }, found.missing) : el("div", { class: "scroll" }, el("table", { class: "audit" }, el("thead", {}, el("tr", {}, ["", "check", "what was seen"].map(name => el("th", { scope: "col" }, name)))), el("tbody", {}, found.check.map((check, i) => el("tr", { class: found.verdict[i] }, el("td", {}, marks[found.verdict[i]]), el("td", {}, check), el("td", {}, found.meaning[i] + concerned(found, i)))))));
    held.append(el("article", { class: "panel" }, el("h3", {}, run.name), lines));
  }
}
function concerned(found, i) {
  if (found.verdict[i] !== "fail") return "";
  return ` – concerns ${found.concerns[i].length ? found.concerns[i].join(", ") : "every number"}`;
}
