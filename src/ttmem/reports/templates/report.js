// SPDX-License-Identifier: Apache-2.0
"use strict";
(() => {
  const root = document.getElementById("ttmem-report");
  const tables = [...root.querySelectorAll("[data-role=table]")];
  const numberOf = (cell) => {
    const match = cell.textContent.replace(/,/g, "").match(/[-+]?[\d.]+/);
    return match ? Number(match[0]) : -Infinity;
  };

  // Bars behind the figures that a table is sorted by.
  for (const table of tables) {
    if (!("bars" in table.dataset)) continue;
    const cells = [...table.tBodies[0].rows].map((row) => row.cells[Number(table.dataset.bars)]);
    const highest = Math.max(...cells.map(numberOf), 0);
    for (const cell of cells) {
      const share = highest > 0 ? Math.max(0, (100 * numberOf(cell)) / highest) : 0;
      cell.classList.add("bar");
      cell.style.backgroundImage = "linear-gradient(var(--bar), var(--bar))";
      cell.style.backgroundSize = `${share.toFixed(1)}% 78%`;
    }
  }

  // Search: every word must occur somewhere in the row.
  const search = root.querySelector("[data-role=search]");
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const table of tables) {
      let shown = 0;
      const rows = table.tBodies[0].rows;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        shown += row.hidden ? 0 : 1;
      }
      const count = table.closest("section").querySelector("[data-role=count]");
      count.textContent = words.length ? `${shown} of ${rows.length}` : `${rows.length}`;
    }
  };
  search.addEventListener("input", filter);

  // Sort by a column: first click descending for numbers, ascending for text.
  for (const table of tables) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const numeric = head.classList.contains("number");
        const before = head.getAttribute("aria-sort");
        const down = before ? before !== "descending" : numeric;
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows];
        const order = numeric
          ? (a, b) => numberOf(a.cells[column]) - numberOf(b.cells[column])
          : (a, b) => a.cells[column].textContent.localeCompare(b.cells[column].textContent, undefined, { numeric: true });
        rows.sort((a, b) => (down ? order(b, a) : order(a, b)));
        table.tBodies[0].append(...rows);
      });
    });
  }

  // The state under the pointer.
  const points = JSON.parse(document.getElementById("ttmem-points").textContent);
  for (const chart of root.querySelectorAll("[data-role=chart]")) {
    const { x_percent: places, megabytes, label } = points[Number(chart.dataset.chart)];
    const plot = chart.querySelector(".plot");
    const cursor = chart.querySelector(".cursor");
    const tip = chart.querySelector(".tip");
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      const at = (100 * (event.clientX - box.left)) / box.width;
      let low = 0;
      let high = places.length - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (places[middle] <= at) low = middle;
        else high = middle - 1;
      }
      cursor.style.left = `${places[low]}%`;
      tip.textContent = `${megabytes[low]} MB/bank ${label[low]}`;
      tip.hidden = cursor.hidden = false;
      const left = event.clientX - chart.getBoundingClientRect().left + 14;
      tip.style.left = `${Math.max(0, Math.min(left, chart.clientWidth - tip.offsetWidth - 4))}px`;
    });
    plot.addEventListener("pointerleave", () => { tip.hidden = cursor.hidden = true; });
  }

  const page = document.documentElement;
  root.querySelector("[data-role=theme]").addEventListener("click", () => {
    const dark = page.dataset.theme ? page.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    page.dataset.theme = dark ? "light" : "dark";
  });

  filter();
  root.dataset.ready = "true";
})();
