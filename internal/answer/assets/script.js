"use strict";
// The page is whole without this. It searches, sorts, folds and copies.
(() => {
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];

  // Fold.
  const folds = all("details");
  const tools = document.querySelector(".tools");
  if (folds.length > 0) tools.hidden = false;
  document.getElementById("unfold").onclick = () => folds.forEach((d) => { d.open = true; });
  document.getElementById("fold").onclick = () => folds.forEach((d) => { d.open = false; });
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = folds.filter((d) => !d.open);
    folded.forEach((d) => { d.open = true; });
  });
  addEventListener("afterprint", () => folded.forEach((d) => { d.open = false; }));
  const unfold = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") target.open = true;
  };
  addEventListener("hashchange", unfold);
  unfold();

  // Copy.
  for (const pre of all(".todo pre")) {
    if (!/^(skopeo|oc|kubectl|podman|oras|mirrorset-guard) /m.test(pre.textContent)) continue; // advice
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.onclick = async () => {
      try {
        await navigator.clipboard.writeText(pre.textContent);
      } catch {
        getSelection().selectAllChildren(pre);
        document.execCommand("copy");
      }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    };
    pre.after(button);
  }

  // Sort.
  const number = (text) => (/^[\d,]+$/.test(text) ? Number(text.replaceAll(",", "")) : NaN);
  const compare = (a, b) => {
    const x = number(a), y = number(b);
    if (!Number.isNaN(x) && !Number.isNaN(y)) return x - y;
    return a < b ? -1 : Number(a > b);
  };
  const sort = (table, head, column) => {
    const down = head.getAttribute("aria-sort") === "ascending";
    all("th[aria-sort]", table).forEach((th) => th.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0];
    const keyed = [...body.rows].map((row) => [row.cells[column] ? row.cells[column].textContent.trim() : "", row]);
    keyed.sort((a, b) => (down ? compare(b[0], a[0]) : compare(a[0], b[0])));
    body.append(...keyed.map(([, row]) => row));
  };
  for (const table of all("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.onclick = () => sort(table, head, column);
    });
  }

  // Search the images.
  const images = document.getElementById("image-rows");
  if (images) {
    const rows = [...images.tBodies[0].rows];
    const label = document.createElement("label");
    const field = document.createElement("input");
    const output = document.createElement("output");
    label.className = "search";
    field.type = "search";
    output.setAttribute("role", "status");
    label.append("Search ", field, " ", output);
    images.parentElement.before(label);
    const search = (wanted) => {
      rows.forEach((row) => { row.hidden = !row.textContent.toLowerCase().includes(wanted.toLowerCase()); });
      output.textContent = `${rows.filter((row) => !row.hidden).length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows`;
    };
    field.oninput = () => search(field.value);
    search("");
    for (const link of all(".grid a")) {
      link.onclick = () => { field.value = ""; search(""); }; // its row may be hidden
    }
  }
})();
