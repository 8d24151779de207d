// The matrix: suites, cases and cells in rows, filtered, opened and closed.

// With so few cells left, all of them are shown at once.
const FEW = 40;
// Nobody reads more rows of cells at once, and each keystroke draws them anew; the rest is one click away.
const MANY = 80;
// With so few columns there is room to say why.
const ROOMY = 2;

const matrix = {
  form: document.querySelector(".view-matrix form"),
  table: document.querySelector(".view-matrix table"),
  found: document.querySelector(".view-matrix [role=status]"),
  query: {},
  open: new Set(),
  shut: new Set(),
  whole: new Set(),
  rows: new Map(),
  drawn: "",
  shown: "",
  ready: false,
};

function chip(letter, text) {
  const { name } = VERDICTS.get(letter);
  return el("span", { class: "v v-" + name }, icon(name), el("span", {}, text || name));
}

const FILTERS = ["q", "suite", "feature", "rule", "issue"];

function setUpMatrix() {
  const { form, table } = matrix;
  const fill = (name, options) => form.elements[name].append(...options.map(([value, text]) => el("option", { value }, text)));
  fill("suite", data.suites.map((suite) => [suite, suite]));
  fill("feature", data.features.filter((_, number) => CELLS.some((cell) => cell.features.includes(number))).map(([name, title]) => [name, title]));
  fill("rule", data.rules.map(([id]) => [id, id]));
  fill("issue", data.issues.map(([id]) => [id, id]).sort());
  const used = new Set(COLUMNS.flatMap((column) => [...column.verdicts]));
  form.querySelector(".toggles").append(
    ...[...VERDICTS.values()].filter(({ letter }) => used.has(letter)).map(({ letter, name }) =>
      el("label", {}, el("input", { type: "checkbox", name: "verdict", value: name }), chip(letter))),
  );
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => {
    matrix.query = formQuery();
    showRows();
  });
  form.addEventListener("reset", () => setTimeout(() => {
    matrix.query = {};
    matrix.open.clear();
    showRows();
    form.elements.q.focus();
  }));
  table.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const key = button.dataset.key;
    if (button.classList.contains("open")) toggle(key, button.getAttribute("aria-expanded") !== "true");
    else {
      matrix.whole.add(key);
      showRows();
    }
    focusRow(key);
  });
  table.addEventListener("keydown", onKey);
  matrix.ready = true;
}

function formQuery() {
  const values = new FormData(matrix.form);
  const query = {};
  for (const name of FILTERS) query[name] = String(values.get(name) || "").trim();
  query.verdict = values.getAll("verdict").join(",");
  return query;
}

// Take the filters from the fragment and show what they leave; what cannot be found is returned in words.
async function showMatrix(query) {
  await loadCells();
  if (!matrix.ready) setUpMatrix();
  const { form } = matrix;
  matrix.query = Object.fromEntries([...FILTERS, "verdict"].map((name) => [name, query.get(name) || ""]));
  const troubles = [];
  for (const name of FILTERS) {
    form.elements[name].value = matrix.query[name];
    if (form.elements[name].value === matrix.query[name]) continue;
    troubles.push(`This report has no ${name === "issue" ? "known issue" : name} ${matrix.query[name]}; that filter is left out.`);
    matrix.query[name] = form.elements[name].value = "";
  }
  const verdicts = matrix.query.verdict.split(",");
  for (const box of form.querySelectorAll("[name=verdict]")) box.checked = verdicts.includes(box.value);
  matrix.open = new Set((query.get("open") || "").split(",").filter(Boolean));
  matrix.shut.clear();
  showRows();
  return troubles;
}

// The cells that the query leaves.
function matching(query) {
  const words = (query.q || "").toLowerCase().split(/\s+/).filter(Boolean);
  const suite = query.suite ? data.suites.indexOf(query.suite) : null;
  const rule = query.rule ? data.rules.findIndex(([id]) => id === query.rule) : null;
  const feature = query.feature ? data.features.findIndex(([name]) => name === query.feature) : null;
  const issue = query.issue ? data.issues.findIndex(([id]) => id === query.issue) : null;
  const named = (query.verdict || "").split(",").filter(Boolean);
  const letters = [...VERDICTS.values()].filter(({ name }) => named.includes(name)).map(({ letter }) => letter);
  const columns = columnsChosen();
  return CELLS.filter((cell) =>
    (suite === null || cell.suite === suite) &&
    (rule === null || cell.rules.includes(rule)) &&
    (feature === null || cell.features.includes(feature)) &&
    (issue === null || columns.some((column) => column.issues[cell.number] === issue)) &&
    (!named.length || columns.some((column) => letters.includes(column.verdicts[cell.number]))) &&
    words.every((word) => hayOf(cell).includes(word)));
}

// A link to a known issue or a verdict may be of columns that are not shown now: show where it is.
function columnsWith(issueId) {
  const issue = data.issues.findIndex(([id]) => id === issueId);
  return COLUMNS.filter((column) => Object.values(column.issues).includes(issue)).map((column) => column.number).slice(0, FIRST);
}

function showRows() {
  const { query, table } = matrix;
  if (query.issue && !columnsChosen().some((column) => Object.values(column.issues).some((number) => data.issues[number][0] === query.issue))) {
    Object.assign(chosen, { facets: {}, named: columnsWith(query.issue), one: 0 });
  }
  placeChooser(sections.get("matrix"));
  const cells = matching(query);
  const columns = columnsShown();
  replaceFragment("matrix", Object.assign({}, query, columnQuery(), { open: [...matrix.open].join(",") }));
  const filtered = Object.values(query).some(Boolean);
  matrix.auto = filtered && cells.length <= FEW;
  matrix.found.textContent = filtered ? plural(cells.length, "cell") + " of " + CELLS.length.toLocaleString("en") : plural(cells.length, "cell");
  const rows = rowsOf(cells, columns);
  // What has not changed is not drawn again: typing then costs next to nothing.
  const shown = columns.map((column) => column.number).join();
  const drawn = JSON.stringify([shown, rows.map((row) => row.key)]);
  if (drawn === matrix.drawn) return;
  if (shown !== matrix.shown) matrix.rows.clear();
  Object.assign(matrix, { drawn, shown });
  table.parentElement.classList.toggle("wide", columns.length > FIRST);
  table.tHead.replaceChildren(el("tr", {},
    el("th", { scope: "col", class: "corner" }, el("span", { class: "quiet" }, "Suite, case, cell")),
    columns.map(columnHead),
  ));
  const kept = new Map(rows.map((row) => [row.key, matrix.rows.get(row.key) || row.make()]));
  table.tBodies[0].replaceChildren(...kept.values());
  matrix.rows = kept;
}

// The rows to show: a key that tells all that a row depends on, and how to make it.
function rowsOf(cells, columns) {
  const rows = [];
  const group = (kind, key, label, members) => rows.push({
    key: [kind, key, isOpen(key), ...members.map((cell) => cell.number)].join(" "),
    make: () => groupRow(kind, key, label, members, columns),
  });
  const single = (cell, label, kind) => rows.push({ key: kind + "=" + cell.number, make: () => cellRow(cell, label, columns, kind) });
  let room = MANY;
  for (const [suite, members] of groupBy(cells, (cell) => data.suites[cell.suite])) {
    group("suite", suite, suite, members);
    if (!isOpen(suite)) continue;
    for (const [key, cases] of groupBy(members, (cell) => cell.key)) {
      // A case of one cell is not worth a row of its own.
      if (cases.length === 1) {
        single(cases[0], cases[0].case + " " + axesOf(cases[0]), "case");
        continue;
      }
      group("case", key, cases[0].case, cases);
      if (!isOpen(key)) continue;
      const shown = matrix.whole.has(key) ? cases : cases.slice(0, room);
      room = Math.max(0, room - shown.length);
      for (const cell of shown) single(cell, axesOf(cell) || cell.case, "cell");
      if (shown.length < cases.length) rows.push({ key: [key, cases.length, shown.length].join(" "), make: () => moreRow(key, cases.length - shown.length, shown.length > 0) });
    }
  }
  if (!cells.length) rows.push({ key: "none", make: () => el("tr", {}, el("td", { colspan: columns.length + 1 }, "No cell is left: clear a filter.")) });
  return rows;
}

function moreRow(key, count, some) {
  return el("tr", { class: "cell" }, el("th", { scope: "row" }, el("button", { type: "button", "data-key": key }, "show " + plural(count, some ? "more cell" : "cell"))));
}

function columnHead(column) {
  const wine = column.wine ? el("span", { class: "fact" }, "Wine " + column.wine) : null;
  return el("th", { scope: "col" }, column.label, column.partial ? [" ", el("span", { class: "flag", title: column.partial }, "partial")] : null,
    el("span", { class: "fact" }, [column.kind, column.deepspeed ? "DeepSpeed " + column.deepspeed : ""].filter(Boolean).join(", ")), wine);
}

function groupBy(items, keyOf) {
  const groups = new Map();
  for (const item of items) {
    const key = keyOf(item);
    if (groups.has(key)) groups.get(key).push(item);
    else groups.set(key, [item]);
  }
  return groups;
}

function isOpen(key) {
  return matrix.auto ? !matrix.shut.has(key) : matrix.open.has(key);
}

function toggle(key, open) {
  if (open) {
    matrix.open.add(key);
    matrix.shut.delete(key);
  } else {
    matrix.open.delete(key);
    matrix.shut.add(key);
  }
  showRows();
}

function groupRow(kind, key, label, cells, columns) {
  const open = isOpen(key);
  return el("tr", { class: kind },
    el("th", { scope: "row" },
      el("button", { type: "button", class: "open", "aria-expanded": String(open), "data-key": key }, el("span", {}, label, " ", el("span", { class: "quiet" }, plural(cells.length, "cell"))))),
    columns.map((column) => el("td", {}, tally(cells.map((cell) => column.verdicts[cell.number])))),
  );
}

// `94 of 96` and, each with its shape, what is not a pass.
function tally(letters) {
  const counts = new Map();
  for (const letter of letters) counts.set(letter, (counts.get(letter) || 0) + 1);
  counts.delete(ABSENT);
  if (!counts.size) return el("span", { class: "quiet" }, "not in its plan");
  const chips = [...VERDICTS.keys()].filter((letter) => counts.has(letter)).map((letter) => chip(letter, counts.get(letter).toLocaleString("en") + " " + VERDICTS.get(letter).name));
  return el("span", { class: "tally" }, chips);
}

function axesOf(cell) {
  return cell.axes.slice(1, -1).replace(/,/g, " ");
}

function cellRow(cell, label, columns, kind) {
  return el("tr", { class: kind },
    el("th", { scope: "row" }, el("a", { href: fragment("cell", { id: cell.id, at: columns.length === 1 ? columns[0].slug : "" }), class: "mono" }, label)),
    columns.map((column) => {
      const letter = column.verdicts[cell.number];
      if (letter === ABSENT) return el("td", {}, el("span", { class: "quiet", title: excludedOf(column, cell) }, excludedOf(column, cell) ? "left out" : "not in its plan"));
      const { name } = VERDICTS.get(letter);
      const disagree = column.disagree.has(cell.number);
      return el("td", {}, el("a", {
        class: "v v-" + name + (disagree ? " disagree" : ""),
        href: fragment("cell", { id: cell.id, at: column.slug }),
        title: (disagree ? "Records disagree. " : "") + reasonOf(column, cell),
      }, icon(name), el("span", {}, name)), columns.length <= ROOMY && letter !== "P" ? el("span", { class: "why" }, shortened(reasonOf(column, cell))) : null);
    }),
  );
}

function shortened(text) {
  return text.length > 160 ? text.slice(0, 160) + " …" : text;
}

function focusRow(key) {
  const button = [...matrix.table.querySelectorAll("button.open")].find((each) => each.dataset.key === key);
  if (button) button.focus();
}

// Arrow keys walk the rows' first column; right opens and left closes.
function onKey(event) {
  const here = event.target.closest("tbody th button, tbody th a");
  if (!here || event.ctrlKey || event.metaKey || event.altKey) return;
  const stops = [...matrix.table.querySelectorAll("tbody th button, tbody th a")];
  const at = stops.indexOf(here);
  const opens = here.classList.contains("open");
  if (event.key === "ArrowDown" && at + 1 < stops.length) stops[at + 1].focus();
  else if (event.key === "ArrowUp" && at > 0) stops[at - 1].focus();
  else if (event.key === "ArrowRight" && opens && here.getAttribute("aria-expanded") === "false") here.click();
  else if (event.key === "ArrowLeft" && opens && here.getAttribute("aria-expanded") === "true") here.click();
  else return;
  event.preventDefault();
}
