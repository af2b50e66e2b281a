(() => {
  "use strict";
  const UNITS = { n: 1e-9, "µ": 1e-6, "μ": 1e-6, u: 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12 };
  // "258.2 µs" is 0.0002582, "1.07 GB/s" 1.07e9, "<1 %" 1, "×1.5" 1.5; what begins with no number is a text.
  const value = text => {
    const found = /^[<>×x~\s]*([-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?)\s*([^\s\d]*)/i.exec(text);
    if (!found) return null;
    const [, number, unit] = found;
    const scale = unit.length > 1 || /^[kMGT]$/.test(unit) ? UNITS[unit[0]] : 1;
    return parseFloat(number.replaceAll(",", "")) * (/^(min|mm|MHz|months?)/.test(unit) ? 1 : scale || 1);
  };
  const compare = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x !== null && y !== null) return x - y || a.localeCompare(b);
    return x !== null ? -1 : y !== null ? 1 : a.localeCompare(b, "en", { numeric: true });
  };
  const sort = (table, head, column) => {
    const direction = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    order(table, head, column, direction);
  };
  const order = (table, head, column, direction) => {
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => sign * compare(a.cells[column].textContent.trim(), b.cells[column].textContent.trim()));
    table.tBodies[0].append(...rows);
  };
  const filter = (box, table) => {
    const input = document.createElement("input"), shown = document.createElement("output");
    input.type = "search";
    input.placeholder = "Filter rows";
    input.setAttribute("aria-label", "Filter rows");
    input.addEventListener("input", () => {
      const wanted = input.value.trim().toLowerCase();
      let found = 0;
      for (const row of table.tBodies[0].rows) {
        const text = [...row.cells].map(cell => cell.textContent).join(" ").toLowerCase();
        row.hidden = !text.includes(wanted);
        found += !row.hidden;
      }
      shown.textContent = wanted ? `${found} of ${table.tBodies[0].rows.length}` : "";
    });
    box.prepend(input, shown);
  };
  // Where a table is a list of cards its headings are gone: the order is chosen from a list.
  const choose = (box, table) => {
    const list = document.createElement("select"), heads = [...table.tHead.rows[0].cells];
    list.setAttribute("aria-label", "Sort rows");
    list.append(new Option("Sort by …", ""));
    for (const [column, head] of heads.entries())
      for (const [direction, sign] of [["ascending", "\u2191"], ["descending", "\u2193"]])
        list.append(new Option(`${head.textContent} ${sign}`, `${column} ${direction}`));
    list.addEventListener("change", () => {
      const [column, direction] = list.value.split(" ");
      if (direction) order(table, heads[column], Number(column), direction);
    });
    box.prepend(list);
  };
  for (const box of document.querySelectorAll(".kerncast .table")) {
    const table = box.querySelector("table");
    if (table.tBodies[0].rows.length < 2) continue;
    for (const [column, head] of [...table.tHead.rows[0].cells].entries()) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, head, column));
      head.append(button);
    }
    if (box.classList.contains("wide")) choose(box, table);
    if (box.hasAttribute("data-filter")) filter(box, table);
  }
  // A link opens what it leads to, and paper shows all.
  const open = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let each = target; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", open);
  open();
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open]):not(.line)")];
    for (const each of closed) each.open = true;
  });
  addEventListener("afterprint", () => { for (const each of closed) each.open = false; });
})();
