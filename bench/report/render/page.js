"use strict";
(() => {
  const tables = [...document.querySelectorAll("table.sortable")];
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

  // the filters are made of what the tables hold; without this script the tables are whole
  function addFilters() {
    const form = document.createElement("form");
    form.id = "filters";
    form.setAttribute("role", "search");
    form.addEventListener("submit", (event) => event.preventDefault());
    const field = (name, control) => {
      const label = document.createElement("label");
      label.append(`${name} `, control);
      form.append(label);
      control.id = `filter-${name.toLowerCase()}`;
      for (const kind of ["input", "change"]) control.addEventListener(kind, filter);
      return control;
    };
    const words = field("Contains", document.createElement("input"));
    Object.assign(words, { type: "search", placeholder: "model, backend, status …" });

    const title = (table) => table.closest(".wide").previousElementSibling.textContent;
    const cell = (row, header) => {
      const headers = [...row.closest("table").tHead.rows[0].cells];
      return row.cells[headers.findIndex((one) => one.textContent === header)]?.textContent ?? "";
    };
    const values = {
      Machine: (row) => title(row.closest("table")),
      Verdict: (row) => cell(row, "verdict"),
      Status: (row) => cell(row, "status"),
    };
    const selects = Object.entries(values).map(([name, valueOf]) => {
      const select = document.createElement("select");
      select.append(new Option("all", ""));
      for (const each of [...new Set(everyRow.map(valueOf))].sort()) if (each !== "–") select.append(new Option(each, each));
      return [field(name, select), valueOf];
    });
    const count = document.createElement("span");
    Object.assign(count, { id: "count", className: "faint" });
    count.setAttribute("aria-live", "polite");
    form.append(count);

    function filter() {
      const text = words.value.trim().toLowerCase();
      let shown = 0;
      for (const row of everyRow) {
        const fits = selects.every(([select, valueOf]) => !select.value || valueOf(row) === select.value);
        row.hidden = !(fits && row.textContent.toLowerCase().includes(text));
        shown += !row.hidden;
      }
      count.textContent = `${shown} of ${everyRow.length} rows`;
    }
    filter();
    tables[0].closest("details").querySelector("summary").after(form);
  }

  if (tables.length) addFilters();
  for (const table of tables)
    [...table.tHead.rows[0].cells].forEach((header, column) =>
      header.querySelector("button").addEventListener("click", () => sort(table, column)));

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
