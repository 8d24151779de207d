// Making elements. Text goes in as text, so that nothing from a record can become markup.

function el(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== "").map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("class", "i");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(space, "use");
  use.setAttribute("href", "#i-" + name);
  svg.append(use);
  return svg;
}

// A part that scrolls by itself can be reached and scrolled with the keyboard.
function scrolling(label, child) {
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, child);
}

function passage(label, text) {
  return el("pre", { tabindex: 0, role: "region", "aria-label": label }, text);
}

function plural(count, noun) {
  return count.toLocaleString("en") + " " + noun + (count === 1 ? "" : "s");
}

// A reference that can be followed becomes a link; any other stays text.
function reference(text, label) {
  return /^https?:\/\/[^\s"'<>]+$/.test(text) ? el("a", { href: text, rel: "noopener noreferrer" }, label || text) : label ? label + " (" + text + ")" : text;
}
