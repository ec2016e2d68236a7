"use strict";
// Sorts and filters the tables of a report, opens the part that a link names, and saves the report's JSON.

// Numbers come before texts, and rows without a value last. Hexadecimal digits are text, even if they look like a number.
const number = (text) => text === "" ? NaN : Number(text.replace(/,(?=\d{3})/g, ""));
const compareTexts = (a, b) => a.localeCompare(b);
const compareNumbers = (a, b) =>
  isNaN(number(a)) - isNaN(number(b)) || (isNaN(number(a)) ? compareTexts(a, b) : number(a) - number(b));
// A table with more rows has a field to filter them.
const manyRows = 8;

for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  // Each entry is a row with its values, and the row below it that has its note.
  const entries = [];
  for (const row of body.rows) {
    if (row.classList.contains("note")) entries.at(-1).rows.push(row);
    else entries.push({ cells: [...row.cells], rows: [row], isShown: true });
  }
  let order = entries;

  const show = () => {
    body.append(...order.flatMap((entry) => entry.rows));
    let above = [];
    for (const { cells, rows, isShown } of order) {
      for (const row of rows) row.hidden = !isShown;
      if (!isShown) continue;
      // A label is visible unless the shown row above has it too.
      const labels = cells.slice(0, table.dataset.labels);
      let isRepeated = true;
      labels.forEach((cell, index) => {
        isRepeated &&= above[index] === cell.textContent;
        cell.classList.toggle("repeated", isRepeated);
      });
      above = labels.map((cell) => cell.textContent);
    }
  };

  // A click on a heading sorts: ascending, then descending, then in the first order again.
  for (const head of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    const compare = head.classList.contains("hex") ? compareTexts : compareNumbers;
    const value = ({ cells }) => {
      const cell = cells[head.cellIndex];
      const text = cell && cell.colSpan === 1 ? cell.dataset.value ?? cell.textContent.trim() : "";
      return text === "-" ? "" : text;
    };
    button.addEventListener("click", () => {
      const next = { ascending: "descending", descending: null }[head.ariaSort];
      for (const other of head.parentNode.cells) other.ariaSort = null;
      head.ariaSort = next === undefined ? "ascending" : next;
      const sign = head.ariaSort === "descending" ? -1 : 1;
      order = !head.ariaSort ? entries : entries.toSorted((a, b) =>
        (value(a) === "") - (value(b) === "") || sign * compare(value(a), value(b)));
      show();
    });
  }

  if (entries.length <= manyRows) continue;
  const field = document.createElement("input");
  const count = document.createElement("output");
  Object.assign(field, { type: "search", placeholder: "Filter the rows", ariaLabel: "Filter the rows" });
  const line = document.createElement("p");
  line.className = "filter";
  line.append(field, count);
  table.closest(".table").before(line);
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/);
    for (const entry of entries) {
      const text = entry.rows.map((row) => [...row.cells].map((cell) => cell.textContent).join(" ")).join(" ");
      entry.isShown = words.every((word) => text.toLowerCase().includes(word));
    }
    const shown = entries.filter((entry) => entry.isShown).length;
    count.textContent = shown < entries.length ? `${shown} of ${entries.length} rows` : "";
    show();
  });
}

const open = () => document.getElementById(location.hash.slice(1))?.closest("details")?.setAttribute("open", "");
addEventListener("hashchange", open);
open();

const link = document.createElement("a");
const data = document.getElementById("data").textContent;
link.textContent = "JSON";
link.title = "Save the numbers of this report";
link.className = "save";
link.download = document.title.replace(/[^A-Za-z0-9]+/g, "-") + ".json";
link.href = URL.createObjectURL(new Blob([data], { type: "application/json" }));
document.querySelector("header").prepend(link);
