"use strict";
// The browser of triples. Everything out of the corpus becomes text of the page, never markup.
(() => {
  const AT_ONCE = 10;

  function element(name, properties, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  // In the order of the columns of the sample.
  const triples = JSON.parse(document.getElementById("sample").textContent).map((row) => {
    const [rule, distance, original, positive, negative, pivot, ...rest] = row;
    const [alignment, positiveCosine, positiveProbability, negativeCosine, negativeProbability, place] = rest;
    const sentences = [original, positive, negative].map((parts) => parts.join(""));
    return {
      rule, distance, original, positive, negative, pivot, place,
      target: original[1].toLowerCase(),
      searched: [...sentences, pivot ?? ""].join("\n").toLowerCase(),
      scores: {
        "cosine of wt and the aligned word": alignment,
        "cosine of wt and wp": positiveCosine,
        "probability of wp": positiveProbability,
        "cosine of wt and wn": negativeCosine,
        "probability of wn": negativeProbability,
      },
    };
  });
  const targets = new Set(triples.map((triple) => triple.target));

  const form = document.getElementById("filters");
  const reload = document.getElementById("reload");
  let shown = AT_ONCE;

  // What was asked for is kept in the address: it outlives a reload and can be passed on as a link.
  function readAddress() {
    const address = location.hash.slice(1);
    if (!address.includes("=")) return; // nothing, or the name of a section
    const asked = new URLSearchParams(address);
    for (const field of form ? form.elements : []) field.value = asked.get(field.name) ?? "";
    shown = Math.max(AT_ONCE, Number(asked.get("shown")) || 0);
    if (reload) reload.checked = asked.get("reload") !== "no";
  }

  function writeAddress() {
    const asked = new URLSearchParams();
    for (const field of form ? form.elements : []) if (field.value) asked.set(field.name, field.value);
    if (shown > AT_ONCE) asked.set("shown", shown);
    if (reload && !reload.checked) asked.set("reload", "no");
    history.replaceState(null, "", `#${asked}`);
  }

  function matching() {
    const text = form.elements.text.value.trim().toLowerCase();
    const target = form.elements.target.value.trim().toLowerCase();
    const rule = form.elements.rule.value;
    const distance = Number(form.elements.distance.value) || 0;
    // A target that is there is meant as it is; anything else may be the beginning of one.
    const isMeant = targets.has(target) ? (word) => word === target : (word) => word.startsWith(target);
    return triples.filter((triple) => triple.distance >= distance && (!rule || triple.rule === rule)
      && isMeant(triple.target) && triple.searched.includes(text));
  }

  function sentence(role, kind, [before, word, after]) {
    const text = element("span", { dir: "auto" }, before, element("mark", { className: kind }, word), after);
    return element("p", {}, element("span", { className: "role", lang: "en" }, role), text);
  }

  function card(triple) {
    const facts = Object.entries(triple.scores).filter(([, value]) => value !== null);
    const lines = facts.map(([name, value]) => [name, String(value)]);
    if (triple.pivot) lines.push(["in the pivot language", triple.pivot]);
    if (triple.place) lines.push(["from", triple.place]);
    const list = element("dl", {});
    for (const [name, value] of lines) {
      list.append(element("dt", { lang: "en" }, name), element("dd", { dir: "auto" }, value));
    }
    const summary = element("summary", { lang: "en" }, `${triple.rule}, edit distance ${triple.distance}`);
    return element("li", { className: "triple" },
      sentence("original", "target", triple.original),
      sentence("positive", "positive", triple.positive),
      sentence("negative", "negative", triple.negative),
      element("details", {}, summary, list));
  }

  function show() {
    const found = matching();
    const listed = found.slice(0, shown);
    document.getElementById("list").replaceChildren(...listed.map(card));
    document.getElementById("more").hidden = listed.length === found.length;
    const count = (number) => number.toLocaleString("en");
    document.getElementById("found").textContent = found.length === triples.length
      ? `${count(listed.length)} of ${count(found.length)}`
      : `${count(listed.length)} of ${count(found.length)} that match`;
  }

  if (form) {
    const words = [...targets].sort();
    document.getElementById("targets-of-sample").append(...words.map((value) => element("option", { value })));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => { shown = AT_ONCE; writeAddress(); show(); });
    document.getElementById("more").addEventListener("click", () => { shown += AT_ONCE; writeAddress(); show(); });
  }
  window.addEventListener("hashchange", () => { readAddress(); if (form) show(); });
  readAddress();
  if (form) show();

  if (reload) reload.addEventListener("change", writeAddress);
})();
