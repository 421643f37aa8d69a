for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const text = body.rows[0].cells[column].dataset.v === undefined, was = head.getAttribute("aria-sort");
      const down = was === null ? !text : was !== "descending"; // numbers from the largest, names from A
      heads.forEach(h => h.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = row => { const c = row.cells[column]; return c.dataset.v === undefined ? c.textContent : Number(c.dataset.v); };
      const order = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b));
      body.append(...[...body.rows].sort((a, b) => (down ? -1 : 1) * order(key(a), key(b))));
    });
  });
}
