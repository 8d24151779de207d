// Showing the view that the fragment names.

let shown = null;
let asking = 0;

// Without their ids the browser does not jump to a section that the script shows from its top.
const sections = new Map(VIEWS.map((name) => {
  const section = document.getElementById(name);
  section.removeAttribute("id");
  return [name, section];
}));

const SHOW = {
  summary: () => showSummary(),
  matrix: (query) => showMatrix(query),
  cell: (query) => showCell(query),
  issues: (query) => showIssues(query),
  compare: (query) => showCompare(query),
  rules: () => showRules(),
};

function showSummary() {
  placeChooser(sections.get("summary"));
  showAnswers();
}

async function show() {
  const mine = ++asking;
  const hash = decodeURIComponent(location.hash.slice(1));
  const asked = readFragment();
  // Any other fragment is an anchor of the page; rules are made when they are asked for.
  if (asked === null && hash.startsWith("rule-")) await showRules();
  const anchor = asked === null ? document.getElementById(hash) : null;
  const holder = [...sections.keys()].find((name) => sections.get(name).contains(anchor));
  if (asked === null && anchor !== null && holder === undefined) return;
  const { view, query } = asked || { view: holder || "summary", query: new URLSearchParams() };
  const troubles = asked === null && holder === undefined ? [`Nothing in this report is called ${hash}. A known issue that is gone was mended or renamed.`] : [];
  if (asked !== null && ["summary", "matrix", "rules"].includes(view)) troubles.push(...readColumns(query));
  try {
    if (SHOW[view] && (asked !== null || holder === undefined)) troubles.push(...((await SHOW[view](query)) || []));
  } catch (error) {
    troubles.push(error.message);
  }
  // Whoever clicks on while data is loading is shown what he clicked last.
  if (mine !== asking) return;
  for (const [name, section] of sections) section.hidden = name !== view;
  tellStale(...troubles);
  if (holder === "issues" && anchor.querySelector("details")) {
    anchor.hidden = anchor.closest(".area").hidden = false;
    anchor.querySelector("details").open = true;
  }
  for (const link of document.querySelectorAll(".top nav a")) {
    const current = link.getAttribute("href") === "#" + (view === "cell" ? "matrix" : view);
    if (current) link.setAttribute("aria-current", view === "cell" ? "true" : "page");
    else link.removeAttribute("aria-current");
  }
  const heading = sections.get(view).querySelector("h1");
  document.title = heading.textContent + " · DeepSpeed conformance";
  // On the first showing the browser's own start of the page is the right place for the focus.
  if (shown !== null) heading.focus({ preventScroll: true });
  if (asked !== null || holder === undefined) window.scrollTo(0, 0);
  else anchor.scrollIntoView();
  shown = view;
  document.documentElement.dataset.shown = location.hash;
}

// Other columns were chosen.
function columnsChanged() {
  if (shown === "summary") {
    replaceFragment("summary", columnQuery());
    showSummary();
  } else if (shown === "matrix") showRows();
  else if (shown === "rules") {
    replaceFragment("rules", columnQuery());
    showRules();
  }
}

// `3 days ago`, with the moment itself at hand.
function tellAges() {
  const words = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
  const units = [["year", 31557600], ["month", 2629800], ["day", 86400], ["hour", 3600], ["minute", 60]];
  for (const time of document.querySelectorAll("time[datetime]")) {
    const seconds = (new Date(time.dateTime) - Date.now()) / 1000;
    const [unit, length] = units.find(([, each]) => Math.abs(seconds) >= each) || ["second", 1];
    time.title = time.textContent;
    time.textContent = unit === "second" ? "just now" : words.format(Math.trunc(seconds / length), unit);
  }
}

document.documentElement.classList.remove("plain");
setUpColumns(columnsChanged);
setUpIssues();
compareForm.addEventListener("submit", (event) => event.preventDefault());
compareForm.addEventListener("input", showChanges);
tellAges();
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});
window.addEventListener("hashchange", show);
show().then(() => {
  // What the columns share needs the cells; they come after what is looked at first.
  if (shown === "summary") loadCells().then(tellShared, () => {});
});
