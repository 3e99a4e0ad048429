// Searches the manual, in this browser: the index is a script beside this one, read at the first search.
"use strict";
(function () {
  const top = typeof document === "undefined" ? "" : document.currentScript.dataset.top;
  const limit = 20;

  // parts returns the parts that have all words, the best first: words in headings count most.
  function parts(index, query) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    const hits = [];
    for (const part of index) {
      const heading = part.h.toLowerCase(), page = part.p.toLowerCase(), text = part.t.toLowerCase();
      let score = 0;
      for (const word of words) {
        const here = (heading === word ? 40 : heading.includes(word) ? 20 : 0) + (page.includes(word) ? 5 : 0) + Math.min(text.split(word).length - 1, 4);
        if (!here) { score = 0; break; }
        score += here;
      }
      if (score) hits.push({ part, score });
    }
    hits.sort((a, b) => b.score - a.score);
    return hits.slice(0, limit).map((hit) => hit.part);
  }

  // excerpt returns the text around the first word.
  function excerpt(text, query) {
    const word = query.toLowerCase().split(/\s+/).filter(Boolean)[0];
    const at = Math.max(0, text.toLowerCase().indexOf(word) - 40);
    return (at ? "\u2026" : "") + text.slice(at, at + 140) + (text.length > at + 140 ? "\u2026" : "");
  }

  if (typeof module !== "undefined") { module.exports = { parts, excerpt }; return; }

  const input = document.createElement("input"), list = document.createElement("ul");
  input.type = "search";
  input.placeholder = "Search";
  input.setAttribute("aria-label", "Search the manual");
  list.setAttribute("aria-live", "polite");
  document.getElementById("search").append(input, list);

  function show() {
    list.replaceChildren();
    for (const part of parts(window.manual, input.value)) {
      const item = document.createElement("li"), link = document.createElement("a"), small = document.createElement("small");
      link.href = top + part.u;
      link.textContent = part.h && part.h !== part.p ? part.p + ": " + part.h : part.p;
      small.textContent = excerpt(part.t, input.value);
      item.append(link, small);
      list.append(item);
    }
    if (input.value.trim() && !list.childElementCount) list.append(Object.assign(document.createElement("li"), { textContent: "Nothing found" }));
  }

  let asked = false;
  input.addEventListener("input", function () {
    if (window.manual) return show();
    if (asked) return;
    asked = true;
    const script = document.createElement("script");
    script.src = top + "search-index.js";
    script.onload = show;
    document.head.append(script);
  });
})();
