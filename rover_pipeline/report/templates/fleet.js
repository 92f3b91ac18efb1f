"use strict";
// Sorts by the column whose head is clicked, and shows only the recordings that are looked for.
(() => {
  const table = document.querySelector("table.fleet");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const form = document.querySelector("form.filters");

  for (const button of table.querySelectorAll("thead button")) {
    const head = button.parentElement;
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const ascending = before ? before === "descending" : button.dataset.order === "asc";
      for (const other of table.querySelectorAll("[aria-sort]")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const key = (row) => row.cells[head.cellIndex].dataset.key ?? "";
      const number = rows.every((row) => Number.isFinite(parseFloat(key(row))));
      const compare = number ? (a, b) => parseFloat(key(a)) - parseFloat(key(b)) : (a, b) => key(a).localeCompare(key(b), undefined, { numeric: true });
      body.append(...rows.sort((a, b) => (ascending ? compare(a, b) : compare(b, a))));
    });
  }
  table.querySelector("thead th").setAttribute("aria-sort", "ascending");

  const show = () => {
    const wanted = form.querySelector("input[type=search]").value.trim().toLowerCase();
    const states = new Set([...form.querySelectorAll("input:checked")].map((box) => box.value));
    let shown = 0;
    for (const row of rows) {
      row.hidden = !states.has(row.dataset.verdict) || !row.textContent.toLowerCase().includes(wanted);
      shown += row.hidden ? 0 : 1;
    }
    form.querySelector("output").textContent = shown === rows.length ? "" : `${shown} of ${rows.length} shown`;
  };
  form.hidden = false;
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  show();
})();
