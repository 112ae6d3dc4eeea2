"use strict";
(() => {
  const PAGE = 25;
  const compare = new Intl.Collator(undefined, { numeric: true }).compare;

  function value(row, column) {
    const cell = row.cells[column];
    return cell.dataset.v ?? cell.textContent.trim();
  }

  function comparator(rows, column, sign) {
    const numeric = rows.every((row) => value(row, column) !== "" && Number.isFinite(Number(value(row, column))));
    const order = numeric
      ? (a, b) => Number(value(a, column)) - Number(value(b, column))
      : (a, b) => compare(value(a, column), value(b, column));
    return (a, b) => sign * order(a, b);
  }

  function makeInteractive(table) {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
    const section = table.closest("section");
    const form = section.querySelector(".controls");
    const more = section.querySelector(".more");
    const output = form.querySelector("output");
    const [query, attribute, state] = ["query", "attribute", "state"].map((name) => form.querySelector("." + name));
    let shown = PAGE;

    function differs(row, name) {
      return [...row.querySelectorAll(".what span")].some((span) => span.textContent === name);
    }

    function matches(row) {
      const wanted = query.value.trim().toLowerCase().split(/\s+/);
      return (
        wanted.every((word) => texts.get(row).includes(word)) &&
        (!attribute.value || differs(row, attribute.value)) &&
        (!state || !state.value || row.dataset.now === state.value)
      );
    }

    function update() {
      const found = [...body.rows].filter(matches);
      const visible = new Set(found.slice(0, shown));
      for (const row of body.rows) row.hidden = !visible.has(row);
      more.hidden = found.length <= shown;
      output.textContent = `${visible.size.toLocaleString("en")} of ${found.length.toLocaleString("en")} shown`;
    }

    function restart() {
      shown = PAGE;
      update();
    }

    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const descending = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", descending ? "descending" : "ascending");
        body.append(...rows.sort(comparator(rows, column, descending ? -1 : 1)));
        update();
      });
    });
    for (const control of [query, attribute, state]) control?.addEventListener("input", restart);
    form.addEventListener("submit", (event) => event.preventDefault());
    more.querySelector("button").addEventListener("click", () => {
      shown += 4 * PAGE;
      update();
    });
    form.hidden = false;
    form.reset();
    update();
  }

  document.querySelectorAll("table.sortable").forEach(makeInteractive);
})();
