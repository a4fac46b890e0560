// On pages with many rows of tables, a box that hides rows, tables and sections which do not hold all words in it.
// The words are kept in the address, so that a view can be linked to: testplan.html?filter=fetch+rtl
document.addEventListener("DOMContentLoaded", () => {
  const MANY = 40;
  const article = document.querySelector("article");
  const heading = article?.querySelector("h1");
  const tables = [...(article?.querySelectorAll("table.docutils") ?? [])];
  const rows = tables.flatMap((table) => [...table.tBodies].flatMap((body) => [...body.rows]));
  if (!heading || rows.length < MANY) return;
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const sections = [...article.querySelectorAll("section section")].filter((section) => section.querySelector("table"));

  const box = document.createElement("input");
  box.type = "search";
  box.className = "table-filter";
  box.placeholder = `Filter ${rows.length} rows by words`;
  box.setAttribute("aria-label", "Filter the rows of this page's tables");
  const count = document.createElement("p");
  count.className = "table-filter-count";
  count.setAttribute("role", "status");
  heading.after(box, count);

  const apply = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      row.hidden = !words.every((word) => texts.get(row).includes(word));
      shown += !row.hidden;
    }
    const empty = (element) => words.length > 0 && !element.querySelector("tbody tr:not([hidden])");
    for (const table of tables) (table.closest(".table-wrapper") ?? table).hidden = empty(table);
    for (const section of sections) section.hidden = empty(section);
    count.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
    const address = new URL(location);
    if (box.value) address.searchParams.set("filter", box.value);
    else address.searchParams.delete("filter");
    history.replaceState(null, "", address);
  };
  box.addEventListener("input", apply);
  box.value = new URLSearchParams(location.search).get("filter") ?? "";
  if (box.value) apply();
});
