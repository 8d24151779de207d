// Showing the view that the fragment names.

let shown = null;

// Without their ids the browser does not jump to a section that the script shows from its top.
const sections = new Map(VIEWS.map((name) => {
  const section = document.getElementById(name);
  section.removeAttribute("id");
  return [name, section];
}));

async function show() {
  const asked = readFragment();
  // Any other fragment is an anchor of the page; the browser has gone there if it is in what is shown.
  const anchor = asked === null ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
  const holder = [...sections.keys()].find((name) => sections.get(name).contains(anchor));
  if (asked === null && shown !== null && (holder === undefined || holder === shown)) return;
  const { view, query } = asked || { view: holder || "summary", query: new URLSearchParams() };
  if (view === "matrix") showMatrix(query);
  if (view === "compare") showCompare(query);
  if (view === "cell") await showCell(query);
  for (const [name, section] of sections) section.hidden = name !== view;
  for (const link of document.querySelectorAll(".top nav a")) {
    const current = link.getAttribute("href") === "#" + (view === "cell" ? "matrix" : view);
    if (current) link.setAttribute("aria-current", view === "cell" ? "true" : "page");
    else link.removeAttribute("aria-current");
  }
  const heading = sections.get(view).querySelector("h1");
  document.title = heading.textContent + " · DeepSpeed conformance";
  // On the first showing the browser's own start of the page is the right place for the focus.
  if (shown !== null) heading.focus({ preventScroll: true });
  if (asked !== null) window.scrollTo(0, 0);
  else if (anchor !== null && holder !== undefined) anchor.scrollIntoView();
  shown = view;
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
setUpMatrix();
setUpCompare();
tellAges();
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});
window.addEventListener("hashchange", show);
show();
