// Sorts a table on a click on a heading, or Enter or Space on it: numbers by size, texts in natural order, empty cells last.
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.querySelectorAll("th")];
  const body = table.tBodies[0];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((h) => h.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const numeric = head.classList.contains("num");
      const keyed = [...body.rows].map((row) => [row.cells[column].dataset.sort, row]);
      keyed.sort(([a], [b]) => {
        if (a === "" || b === "") return (a === "") - (b === "");
        const x = Number(a), y = Number(b);
        const order = numeric && !Number.isNaN(x) && !Number.isNaN(y) ? x - y : a.localeCompare(b, "en", { numeric: true });
        return down ? -order : order;
      });
      body.append(...keyed.map(([, row]) => row));
    });
  });
}
