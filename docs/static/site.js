/* Buttons that copy a block of code, and blocks that the keyboard can scroll. */
"use strict";

(() => {
  const copied = (button) => {
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  };

  /* A prompt that starts a line is not part of the command. */
  const commands = (text) => text.replace(/^(?:\$|>>>|\.\.\.) /gm, "").trimEnd();

  const addButton = (block) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", () => {
      navigator.clipboard.writeText(commands(block.textContent)).then(() => copied(button));
    });
    block.parentElement.append(button);
  };

  const scrollable = () => {
    for (const block of document.querySelectorAll("pre, .table-wrapper")) {
      if (block.scrollWidth > block.clientWidth) {
        block.tabIndex = 0;
      } else {
        block.removeAttribute("tabindex");
      }
    }
  };

  document.addEventListener("DOMContentLoaded", () => {
    if (navigator.clipboard) {
      document.querySelectorAll("div.highlight > pre").forEach(addButton);
    }
    scrollable();
    window.addEventListener("resize", scrollable);
  });
})();
