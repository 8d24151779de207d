// The data of the page: what names the columns at once, cells and details as script files when they are asked for.

const data = JSON.parse(document.getElementById("data").textContent);

// Verdicts by letter, in the order in which they are listed.
const VERDICTS = new Map(data.verdicts.map(([letter, name, meaning], order) => [letter, { letter, name, meaning, order }]));
const ABSENT = ".";
// What says nothing about the thing under test.
const UNTESTED = "NDE";
// What is as it should be: PASS and UNSUPPORTED.
const HOLDS = "PU";

const COLUMNS = data.columns.map((column, number) => Object.assign(column, { number }));
let CELLS = [];
let NUMBER_OF = new Map();

// Scripts work where requests do not: in a page opened from a folder.
const parts = new Map();
const arriving = new Map();

window.conformanceData = (name, value) => {
  if (arriving.has(name)) arriving.get(name)(value);
};

// A promise of the value that a file of data holds.
function part(file) {
  if (!parts.has(file)) {
    parts.set(file, new Promise((resolve, reject) => {
      arriving.set(file.slice(file.indexOf("/") + 1, file.indexOf(".")), resolve);
      const script = document.createElement("script");
      script.addEventListener("error", () => {
        parts.delete(file);
        reject(new Error(file + " cannot be opened. Keep the folder data beside index.html; if the report was built anew, load the page again."));
      });
      script.src = file;
      document.head.append(script);
    }));
  }
  return parts.get(file);
}

// Load the cells, once; whatever shows single cells waits for it.
async function loadCells() {
  if (CELLS.length) return;
  const told = await part(data.files.cells);
  if (CELLS.length) return;
  Object.assign(data, { suites: told.suites, rules: told.rules, reasons: told.reasons, issues: told.issues, since: told.since });
  told.columns.forEach((column, number) => Object.assign(COLUMNS[number], column, { disagree: new Set(column.disagree) }));
  CELLS = told.cells.map(([id, suite, label, title, rules, features], number) => ({
    number, id, suite, title: told.titles[title], rules, features,
    case: label,
    key: told.suites[suite] + "/" + label,
    axes: id.includes("[") ? id.slice(id.indexOf("[")) : "",
  }));
  NUMBER_OF = new Map(CELLS.map((cell) => [cell.id, cell.number]));
}

function reasonOf(column, cell) {
  const number = column.reasons[cell.number];
  return number === undefined ? "" : data.reasons[number];
}

function excludedOf(column, cell) {
  const number = column.excluded[cell.number];
  return number === undefined ? "" : data.reasons[number];
}

// All text that a search may hit, in lower case; made when first searched.
function hayOf(cell) {
  if (cell.hay === undefined) {
    const words = new Set([cell.id, cell.title, ...cell.rules.map((rule) => data.rules[rule][0])]);
    for (const column of COLUMNS) {
      words.add(reasonOf(column, cell));
      const issue = column.issues[cell.number];
      if (issue !== undefined) data.issues[issue].forEach((word) => words.add(word));
    }
    cell.hay = [...words].join("\n").toLowerCase();
  }
  return cell.hay;
}

const opened = new Map();

// The details of one suite in one column: a promise of { cells, provenances }; null where there are none.
async function detailsOf(suite, column) {
  const key = suite + " " + column;
  if (!opened.has(key)) {
    const file = data.files.columns[column];
    const blocks = file ? await part(file) : {};
    opened.set(key, blocks[suite] ? unpack(blocks[suite]) : Promise.resolve(null));
  }
  return opened.get(key);
}

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}
