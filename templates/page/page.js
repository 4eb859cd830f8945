// Above each table: buttons that copy what is shown of it, and of a longer one a filter that shows only the rows that contain all words typed,
// as they are shown or as they are sorted. All of it is made here, so that a page without scripts has no control that does nothing.
const LATEX = new Map(Object.entries({
  "\\": "\\textbackslash{}", "{": "\\{", "}": "\\}", "$": "\\$", "&": "\\&", "#": "\\#", "%": "\\%", "_": "\\_", "~": "\\textasciitilde{}",
  "^": "\\textasciicircum{}", "\u00a0": "~", "\u200b": "", "·": "\\textperiodcentered{}", "×": "\\texttimes{}", "±": "\\textpm{}", "²": "\\texttwosuperior{}",
  "³": "\\textthreesuperior{}", "µ": "\\textmu{}", "°": "\\textdegree{}", "–": "--", "—": "---", "…": "\\ldots{}", "’": "'", "“": "``",
  "”": "''", "−": "$-$", "≤": "$\\le$", "≥": "$\\ge$", "≈": "$\\approx$", "≠": "$\\neq$", "√": "$\\surd$", "Σ": "$\\Sigma$", "α": "$\\alpha$",
  "δ": "$\\delta$", "σ": "$\\sigma$", "⌊": "$\\lfloor$", "⌋": "$\\rfloor$", "→": "$\\rightarrow$", "✓": "\\checkmark{}", "✗": "$\\times$",
  "△": "$\\triangle$", "▲": "$\\blacktriangle$", "◇": "$\\diamond$", "●": "$\\bullet$",
}));
const latex = (text) => [...text].map((c) => LATEX.get(c) ?? (c >= " " && c <= "~" || c >= "À" && c <= "ſ" ? c : `[U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`)).join("");
const plain = (node) => node.textContent.replace(/\u200b/g, "").replace(/\s+/g, " ").trim();
// Parts of a cell: what stands first, the interval below it, and remarks such as flags and notes.
const parts = (cell) => {
  const main = [...cell.childNodes].filter((n) => n.nodeType === Node.TEXT_NODE || n.nodeName === "A" || n.nodeName === "CODE").map((n) => n.textContent).join("").trim();
  const marks = [...cell.children].filter((n) => n.nodeName !== "A" && n.nodeName !== "CODE" && !n.classList.contains("ci"));
  const star = main.endsWith(" *");
  return {
    main: cell.classList.contains("none") ? "" : main,
    value: cell.classList.contains("none") ? "" : main.replace(/^≈ /, "").replace(/ \*$/, ""),
    below: cell.querySelector(".ci")?.textContent ?? "",
    remarks: [...(star ? ["different"] : []), ...marks.map((n) => n.getAttribute("aria-label") ?? plain(n))].join("; "),
    shown: marks.map(plain).join(" "),
  };
};
const headings = (table) => [...table.tHead.rows[0].cells].map((th) => {
  const button = (th.querySelector("button") ?? th).cloneNode(true);
  button.querySelector(".ci")?.remove();
  const unit = button.querySelector(".unit");
  unit?.remove();
  return { name: plain(button), unit: unit ? plain(unit) : "", numeric: th.classList.contains("num") };
});
const shownRows = (table) => [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => [...row.cells].map(parts));
// RFC 4180. A text that a spreadsheet would take for a formula has an apostrophe before it, as in the CSV files beside the page.
const csvLine = (fields) => fields.map((field) => {
  const inert = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(field) && (field.trim() === "" || Number.isNaN(Number(field))) ? `'${field}` : field;
  return /[,"\n\r]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
}).join(",") + "\n";
const asCsv = (table) => {
  const rows = shownRows(table);
  const columns = headings(table).map(({ name, unit }, i) => ({
    heading: unit ? `${name} (${unit})` : name,
    interval: rows.some((row) => row[i].below.startsWith("[")),
    remarks: rows.some((row) => row[i].remarks),
  }));
  const ends = ({ value, below }) => below === "± 0" ? [value, value] : /^\[(.*), (.*)\]$/.exec(below)?.slice(1) ?? ["", ""];
  return csvLine(columns.flatMap(({ heading, interval, remarks }) => [
    heading, ...(interval ? [`${heading} low`, `${heading} high`] : []), ...(remarks ? [`${heading} remarks`] : []),
  ])) + rows.map((row) => csvLine(columns.flatMap(({ interval, remarks }, i) => [
    row[i].value, ...(interval ? ends(row[i]) : []), ...(remarks ? [row[i].remarks] : []),
  ]))).join("");
};
const asLatex = (table, title) => {
  const heads = headings(table);
  // LaTeX would take a bracket or a star after `\\` for its argument
  const line = (cells) => `  ${cells.map((text) => (/^[[*]/.test(text) ? "{}" : "") + latex(text)).join(" & ")} \\\\\n`;
  const caption = document.getElementById(table.getAttribute("aria-describedby"));
  return "% needs \\usepackage{booktabs,textcomp,amssymb}\n\\begin{table}\n\\centering\n"
    + `\\caption{${latex(title)}${caption ? `. ${latex(plain(caption))}` : ""}}\n\\label{tab:${table.id.replace(/[^A-Za-z0-9]+/g, "-")}}\n`
    + `\\begin{tabular}{${heads.map(({ numeric }) => numeric ? "r" : "l").join("")}}\n  \\toprule\n`
    + line(heads.map(({ name, unit }) => unit ? `${name} (${unit})` : name)) + "  \\midrule\n"
    + shownRows(table).map((row) => line(row.map(({ main, below, shown }) => [main, below, shown].filter(Boolean).join(" ")))).join("")
    + "  \\bottomrule\n\\end{tabular}\n\\end{table}\n";
};
// Writes to the clipboard, where the browser does not offer it to a page from a file by the older way.
const copy = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.className = "aside";
    area.value = text;
    const before = document.activeElement;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    before?.focus();
    return copied;
  }
};
for (const table of document.querySelectorAll("table")) {
  const rows = [...table.tBodies[0].rows];
  const box = table.parentElement;
  const title = box.getAttribute("aria-label");
  const tools = document.createElement("div");
  tools.className = "tools";
  tools.setAttribute("role", "group");
  tools.setAttribute("aria-label", `Tools of the table ${title}`);
  const status = document.createElement("span");
  status.className = "status";
  status.setAttribute("aria-live", "polite");
  if (rows.length > 8) {
    const label = document.createElement("label");
    const input = document.createElement("input");
    input.type = "search";
    input.setAttribute("aria-controls", table.id);
    label.append("Filter rows: ", input);
    tools.append(label);
    const texts = new Map(rows.map((row) => [row, [...row.cells].map((cell) => `${cell.textContent} ${cell.dataset.sort ?? ""}`).join(" ").toLowerCase()]));
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let left = 0;
      for (const row of rows) {
        row.hidden = !words.every((word) => texts.get(row).includes(word));
        left += !row.hidden;
      }
      status.textContent = words.length ? `${left} of ${rows.length} rows` : "";
    });
  }
  for (const [format, write] of [["CSV", asCsv], ["LaTeX", asLatex]]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `copy as ${format}`;
    button.setAttribute("aria-label", `copy as ${format}: ${title}`);
    button.addEventListener("click", async () => {
      const text = write(table, title);
      const count = rows.filter((row) => !row.hidden).length;
      status.textContent = await copy(text) ? `${count} ${count === 1 ? "row" : "rows"} copied as ${format}` : "the browser does not let this page copy";
    });
    tools.append(button);
  }
  tools.append(status);
  box.before(tools);
}
// A box that has nothing to scroll needs no stop of the Tab key; above one that is wider than the page stands that it scrolls.
const hints = new Map();
const scrollable = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const wide = target.scrollWidth > target.clientWidth;
    hints.get(target).hidden = !wide;
    if (wide || target.scrollHeight > target.clientHeight) target.tabIndex = 0;
    else if (document.activeElement !== target) target.removeAttribute("tabindex");
  }
});
for (const box of document.querySelectorAll(".scroll")) {
  const hint = document.createElement("p");
  hint.className = "hint";
  hint.hidden = true;
  hint.textContent = "wider than the page: scroll sideways \u2192";
  const tools = box.previousElementSibling?.classList.contains("tools") ? box.previousElementSibling : box;
  tools.before(hint);
  hints.set(box, hint);
  scrollable.observe(box);
}
