"use strict";
(() => {
  const tables = [...document.querySelectorAll("table.results")];
  const everyRow = tables.flatMap((table) => [...table.tBodies[0].rows]);

  function value(row, column) {
    const cell = row.cells[column];
    if (cell.dataset.key === undefined) return cell.textContent.toLowerCase();
    return cell.dataset.key === "" ? null : Number(cell.dataset.key);
  }

  function sort(table, column) {
    const headers = [...table.tHead.rows[0].cells];
    const header = headers[column];
    const down = header.getAttribute("aria-sort") === "ascending";
    for (const other of headers) other.setAttribute("aria-sort", "none");
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows];
    rows.sort((one, other) => {
      const [a, b] = [value(one, column), value(other, column)];
      if (a === null || b === null) return (a === null) - (b === null); // without a figure: last
      const order = a < b ? -1 : a > b ? 1 : 0;
      return down ? -order : order;
    });
    table.tBodies[0].append(...rows);
  }

  const wanted = ["device", "verdict", "status"].map((name) => [name, document.getElementById(name)]);
  const words = document.getElementById("words");
  const count = document.getElementById("count");

  function filter() {
    const text = words.value.trim().toLowerCase();
    let shown = 0;
    for (const row of everyRow) {
      const fits = wanted.every(([name, select]) => !select.value || row.dataset[name] === select.value);
      row.hidden = !(fits && row.textContent.toLowerCase().includes(text));
      shown += !row.hidden;
    }
    count.textContent = `${shown} of ${everyRow.length} rows`;
  }

  for (const table of tables)
    [...table.tHead.rows[0].cells].forEach((header, column) =>
      header.querySelector("button").addEventListener("click", () => sort(table, column)));
  document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
  for (const field of [words, ...wanted.map(([, select]) => select)])
    for (const kind of ["input", "change"]) field.addEventListener(kind, filter);

  // a link into a folded section opens it, and so does printing
  function unfold() {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let one = target; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
    target.scrollIntoView();
  }
  window.addEventListener("hashchange", unfold);
  unfold();
  window.addEventListener("beforeprint", () => {
    for (const one of document.querySelectorAll("main > details")) one.open = true;
  });

  const root = document.documentElement;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
})();
