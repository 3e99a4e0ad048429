"use strict";
// The page is whole without this. It filters, sorts, folds and copies.
(() => {
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const show = (element) => { element.hidden = false; };

  // Fold.
  const folds = all("details");
  const tools = document.querySelector(".tools");
  if (folds.length > 0) show(tools);
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
      if ("unsorted" in head.dataset) return;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.onclick = () => sort(table, head, column);
    });
  }

  // Filter.
  const form = document.querySelector(".filters");
  if (!form) return;
  show(form);
  const rows = [...document.querySelector("table.filtered").tBodies[0].rows];
  const heads = [...document.querySelector("table.filtered").tHead.rows[0].cells].map((th) => th.textContent.toLowerCase());
  const cell = (row, head) => { const at = heads.findIndex((h) => h.startsWith(head)); return at >= 0 && row.cells[at] ? row.cells[at].textContent.trim() : ""; };
  const hosts = form.elements.registry ? [...form.elements.registry.options].slice(1).map((o) => o.value) : [];
  const facts = rows.map((row) => ({
    text: row.textContent.toLowerCase() + " " + (row.dataset.m || ""),
    namespace: cell(row, "namespaces").split(", ").flatMap((n) => n.split(" and ")).concat((row.dataset.m || "").split(" ")),
    rule: cell(row, "rules").split(", ").flatMap((n) => n.split(" and ")),
    registry: row.dataset.g ? row.dataset.g.split(" ").map((n) => hosts[n]) : [row.cells[1].textContent, cell(row, "comes from")].map((r) => r.split("/")[0].trim()),
    result: [row.cells[0].textContent.replace(/^\S+ /, "").trim()],
  }));
  const apply = () => {
    const wanted = Object.fromEntries(new FormData(form));
    const text = (wanted.text || "").toLowerCase();
    let shown = 0;
    rows.forEach((row, i) => {
      const f = facts[i];
      row.hidden = !(f.text.includes(text) && ["namespace", "rule", "registry", "result"].every((name) =>
        !wanted[name] || f[name].includes(wanted[name])));
      if (!row.hidden) shown += 1;
    });
    form.querySelector("output").textContent = `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows`;
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));
  apply();
  for (const link of all("a[data-filter]")) {
    link.addEventListener("click", () => {
      form.reset();
      for (const [name, value] of new URLSearchParams(link.dataset.filter)) {
        const field = form.elements[name];
        if (!field) continue;
        if (![...field.options].some((o) => o.value === value)) field.add(new Option(value, value));
        field.value = value;
      }
      apply(); // before the browser goes to a row, which may have been hidden
    });
  }
})();
