// Filtering the known issues, which are plain HTML.

const issuesForm = document.querySelector(".view-issues form");
const ISSUES = [...document.querySelectorAll(".issues > li")].map((item) => ({
  item, fault: item.dataset.fault, area: item.closest(".area").dataset.area, hay: "",
}));

function setUpIssues() {
  issuesForm.addEventListener("submit", (event) => event.preventDefault());
  issuesForm.addEventListener("input", filterIssues);
  issuesForm.addEventListener("reset", () => setTimeout(filterIssues));
}

function showIssues(query) {
  for (const name of ["q", "fault", "area"]) issuesForm.elements[name].value = query.get(name) || "";
  const troubles = ["fault", "area"].filter((name) => query.get(name) && issuesForm.elements[name].value !== query.get(name));
  for (const name of troubles) issuesForm.elements[name].value = "";
  filterIssues();
  return troubles.map((name) => `No known issue here has ${name} ${query.get(name)}.`);
}

function filterIssues() {
  const query = Object.fromEntries(["q", "fault", "area"].map((name) => [name, issuesForm.elements[name].value.trim()]));
  const words = query.q.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const issue of ISSUES) {
    if (words.length && !issue.hay) issue.hay = (issue.item.textContent + " " + issue.item.id).toLowerCase();
    const shown = (!query.fault || issue.fault === query.fault) && (!query.area || issue.area === query.area) && words.every((word) => issue.hay.includes(word));
    issue.item.hidden = !shown;
    count += shown;
  }
  for (const area of document.querySelectorAll(".area")) area.hidden = ![...area.querySelectorAll("li")].some((item) => !item.hidden);
  issuesForm.querySelector("[role=status]").textContent = plural(count, "known issue") + (count < ISSUES.length ? " of " + ISSUES.length : "");
  replaceFragment("issues", query);
}
