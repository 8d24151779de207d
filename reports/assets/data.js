// The data of the page: the index at once, details when they are asked for.

const data = JSON.parse(document.getElementById("data").textContent);

// Verdicts by letter, in the order in which they are listed.
const VERDICTS = new Map(data.verdicts.map(([letter, name, meaning], order) => [letter, { letter, name, meaning, order }]));
const ABSENT = ".";
// What says nothing about the thing under test.
const UNTESTED = "NDE";
// What is as it should be: PASS and UNSUPPORTED.
const HOLDS = "PU";

const CELLS = data.cells.map(([id, suite, label, title, rules, features], number) => ({
  number, id, suite, title: data.titles[title], rules, features,
  case: label,
  key: data.suites[suite] + "/" + label,
  axes: id.includes("[") ? id.slice(id.indexOf("[")) : "",
}));
const NUMBER_OF = new Map(CELLS.map((cell) => [cell.id, cell.number]));

const COLUMNS = data.columns.map((column, number) => Object.assign(column, { number, disagree: new Set(column.disagree) }));

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
    const words = [cell.id, cell.title, ...cell.rules.map((rule) => data.rules[rule][0])];
    for (const column of COLUMNS) words.push(reasonOf(column, cell));
    cell.hay = words.join("\n").toLowerCase();
  }
  return cell.hay;
}

const opened = new Map();

// The details of one suite in one column: a promise of { cells, provenances }; null where there are none.
function detailsOf(suite, column) {
  const id = "d-" + suite + "-" + column;
  if (!opened.has(id)) {
    const block = document.getElementById(id);
    opened.set(id, block ? unpack(block.textContent) : Promise.resolve(null));
  }
  return opened.get(id);
}

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}
