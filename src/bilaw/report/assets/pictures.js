// Pictures of samples, cut out of sheets: clean, what the attack changed, and the adversarial image that both make.

const sheets = new Map(); // "clean-0" of a pool, "change-0" of a run -> {image, about, at: row of the pool -> place}
const whenPictured = [];

async function openSheet(id, i, about, n) {
  const rows = new Uint32Array(await inflated(`${id}-${i}-rows`));
  const address = URL.createObjectURL(new Blob([bytesOf(`${id}-${i}`)], { type: "image/webp" }));
  const image = new Image();
  image.src = address;
  await image.decode();
  URL.revokeObjectURL(address);
  const at = new Int32Array(n).fill(-1);
  rows.forEach((row, where) => (at[row] = where));
  sheets.set(`${id}-${i}`, { image, about, at });
}

async function openSheets() {
  for (const [i, pool] of pools.entries()) if (pool.sheet) await openSheet("clean", i, pool.sheet, pool.n);
  for (const run of runs) if (run.sheet) await openSheet("change", run.index, run.sheet, run.pool.n);
  whenPictured.forEach(watcher => watcher());
}

const scratch = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
function tile(id, row) {
  const sheet = sheets.get(id), where = sheet ? sheet.at[row] : -1;
  if (where < 0) return null;
  const { columns, width, height } = sheet.about;
  scratch.canvas.width = width;
  scratch.canvas.height = height;
  scratch.drawImage(sheet.image, (where % columns) * width, Math.floor(where / columns) * height, width, height, 0, 0, width, height);
  return scratch.getImageData(0, 0, width, height);
}

// Draw one picture; returns whether there is one.
function picture(canvas, run, row, kind) {
  const clean = kind === "difference" ? null : tile(`clean-${pools.indexOf(run.pool)}`, row);
  const change = kind === "clean" ? null : tile(`change-${run.index}`, row);
  const made = kind === "clean" ? clean : kind === "difference" ? change : clean && change;
  canvas.classList.add("pic");
  if (!made) {
    canvas.width = canvas.height = 1;
    canvas.title = "This picture was left out to keep the page small";
    return false;
  }
  if (kind === "adversarial") {
    const size = run.columns.size[row];
    for (let i = 0; i < made.data.length; i++) if (i % 4 < 3) made.data[i] = clean.data[i] + (change.data[i] - 127.5) * 2 * size;
  }
  canvas.width = made.width;
  canvas.height = made.height;
  canvas.getContext("2d").putImageData(made, 0, 0);
  canvas.title = kind;
  return true;
}

function pictured(run, row, kind) {
  const canvas = el("canvas", { role: "img", "aria-label": `${kind} picture of sample ${run.pool.place[row]}` });
  picture(canvas, run, row, kind);
  return canvas;
}

const KINDS_SHOWN = ["clean", "adversarial", "difference"];
const className = (run, c) => run.pool.classes[c] ?? String(c);

function describeSample(run, row) {
  const held = run.columns;
  return `${className(run, run.pool.y[row])}; taken for ${className(run, held.predicted[row])}, under PGD-20 for ${className(run, held.adversarial[row])}`;
}

function showHover(run, row, event) {
  const box = byId("hover");
  const weight = run.columns.weight ? `weight ${number(run.columns.weight[row])}, ` : "";
  box.replaceChildren(
    el("div", { class: "three" }, KINDS_SHOWN.map(kind => pictured(run, row, kind))),
    el("div", {}, `#${run.pool.place[row]} ${describeSample(run, row)}`),
    el("div", { class: "note" }, `${weight}margin ${number(run.columns.margin[row])}, adversarial ${number(run.columns["adversarial margin"][row])}`),
  );
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  box.style.left = `${Math.max(4, Math.min(event.clientX + 16, innerWidth - width - 8))}px`;
  box.style.top = `${Math.max(4, Math.min(event.clientY + 16, innerHeight - height - 8))}px`;
}
function hideHover() {
  byId("hover").hidden = true;
}

const EXTREMES = 12;
function gallery(parent) {
  const held = el("div", { id: "gallery" });
  parent.append(held);
  const fill = () => held.replaceChildren(...galleryOf(runA()));
  whenChosen(fill);
  whenPictured.push(fill);
}

function galleryOf(run) {
  if (!run.pool) return [el("p", { class: "empty" }, run.notes.join(" ") || "This run was not probed.")];
  const weight = run.columns.weight, values = weight || run.columns["adversarial margin"].map(m => -m);
  const rows = [...run.columns.known.keys()].filter(row => run.columns.known[row]).sort((i, j) => values[i] - values[j] || i - j);
  const titles = weight ? ["Lightest samples", "Heaviest samples"] : ["Largest adversarial margins", "Smallest adversarial margins"];
  const lede = weight ? [] : [el("p", { class: "note" }, `${run.method} gives these samples no weights of their own, so they are in the order of their adversarial margins.`)];
  const key = el("p", { class: "note" }, `Of ${run.name}. From above: clean, attacked, difference at full contrast. Below: its class, what it is taken for as it is, what then for under PGD-20, and its ${weight ? "weight" : "adversarial margin"}.`);
  const card = row => el("li", {}, el("button", { type: "button", title: describeSample(run, row), onclick: () => showSamples({}, row) },
    el("span", { class: "three-up" }, pictured(run, row, "clean"), pictured(run, row, "adversarial"), pictured(run, row, "difference")),
    el("span", { class: "words" }, words(row))));
  const told = row => [[className(run, run.pool.y[row]), false], ...[["as", "predicted"], ["then", "adversarial"]].map(([sign, key]) => [`${sign} ${className(run, run.columns[key][row])}`, run.columns[key][row] !== run.pool.y[row]]), [number(weight ? weight[row] : run.columns["adversarial margin"][row], 4), false]];
  const words = row => told(row).map(([text, wrong]) => el("span", { class: wrong ? "wrong" : "" }, text));
  return [key, ...lede].concat([rows.slice(0, EXTREMES), rows.slice(-EXTREMES).reverse()].flatMap((some, i) => [el("h3", {}, titles[i]), el("ul", { class: "gallery" }, some.map(card))]));
}
