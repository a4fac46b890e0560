// A box above each long table: rows that do not hold all words in it are hidden. What it holds is kept in the address.
document.addEventListener("DOMContentLoaded", () => {
  const LONG = 15;
  const wanted = new URLSearchParams(location.search).get("filter") ?? "";
  for (const table of document.querySelectorAll("article table")) {
    const rows = [...table.tBodies].flatMap((body) => [...body.rows]);
    if (rows.length <= LONG) continue;
    const texts = rows.map((row) => row.textContent.toLowerCase());
    const box = document.createElement("input");
    box.type = "search";
    box.className = "table-filter";
    box.placeholder = `Filter ${rows.length} rows, such as: fi_sum int64`;
    box.setAttribute("aria-label", "Filter the rows of the table below");
    const count = document.createElement("span");
    count.className = "table-filter-count";
    const apply = () => {
      const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, index) => {
        row.hidden = !words.every((word) => texts[index].includes(word));
        shown += !row.hidden;
      });
      count.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
    };
    box.addEventListener("input", apply);
    box.value = wanted;
    const place = table.closest(".table-wrapper") ?? table;
    place.before(box, count);
    apply();
  }
});
