"use strict";
// A click on a heading sorts its table: ascending first, then descending. Rows without a value stay last. Hexadecimal digits
// are text, even if they look like a number.
const isNumber = (text) => text !== "" && Number.isFinite(Number(text));
const compareTexts = (a, b) => a.localeCompare(b);
const compareNumbers = (a, b) =>
  isNumber(a) && isNumber(b) ? Number(a) - Number(b) : isNumber(a) ? -1 : isNumber(b) ? 1 : compareTexts(a, b);
for (const head of document.querySelectorAll("thead th")) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  head.append(button);
  const compare = head.classList.contains("hex") ? compareTexts : compareNumbers;
  button.addEventListener("click", () => {
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
    const body = head.closest("table").tBodies[0];
    const rows = [...body.rows].map((row) => {
      const cell = row.cells[head.cellIndex];
      const text = cell && cell.colSpan === 1 ? cell.dataset.value ?? cell.textContent.trim() : "";
      return { row, text: text === "-" ? "" : text };
    });
    rows.sort((a, b) => (a.text === "") - (b.text === "") || sign * compare(a.text, b.text));
    body.append(...rows.map((entry) => entry.row));
  });
}
