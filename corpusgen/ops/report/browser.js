"use strict";
// The browsers of rows, one for each product. Everything out of the corpus becomes text of the page, never markup.
(() => {
  const AT_ONCE = 10;

  function element(name, properties, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  // In the order in which the page has the parts of a row; a member may be null.
  function readRow([kind, members, numbers, notes, origin]) {
    const sentences = members.filter((parts) => parts).map((parts) => parts.join(""));
    return {
      kind, members, numbers, notes, origin,
      word: members[0][1].toLowerCase(),
      searched: [...sentences, ...notes.map(([, text]) => text)].join("\n").toLowerCase(),
    };
  }

  function browser(section, data) {
    const form = section.querySelector("form");
    const { prefix } = section.dataset;
    const rows = data.rows.map(readRow);
    const words = new Set(rows.map((row) => row.word));
    const columns = data.numbers.map(([name]) => name);
    let shown = AT_ONCE;

    const field = (name) => form.elements[prefix + name];

    function matching() {
      const text = field("text").value.trim().toLowerCase();
      const word = field("target") ? field("target").value.trim().toLowerCase() : "";
      const kind = field("rule") ? field("rule").value : "";
      const least = [...form.elements].filter((one) => one.dataset.column && Number(one.value))
        .map((one) => [columns.indexOf(one.dataset.column), Number(one.value)]);
      // A word that is there is meant as it is; anything else may be the beginning of one.
      const isMeant = words.has(word) ? (found) => found === word : (found) => found.startsWith(word);
      return rows.filter((row) => (!kind || row.kind === kind) && least.every(([at, bound]) => row.numbers[at] >= bound)
        && isMeant(row.word) && row.searched.includes(text));
    }

    // A text that is about no word has no name either.
    function sentence([name, mark], [before, word, after]) {
      if (!name) return element("p", { dir: "auto" }, before);
      const text = element("span", { dir: "auto" }, before, element("mark", { className: mark }, word), after);
      return element("p", {}, element("span", { className: "role", lang: "en" }, name), text);
    }

    function card(row) {
      const labels = data.numbers.map(([, label]) => label);
      const lines = labels.map((label, at) => [label, row.numbers[at]]).filter(([, value]) => value !== null);
      lines.push(...row.notes);
      if (row.origin) lines.push(["from", row.origin]);
      const list = element("dl", {});
      for (const [name, value] of lines) {
        list.append(element("dt", { lang: "en" }, name), element("dd", { dir: "auto" }, String(value)));
      }
      const summary = element("summary", { lang: "en" }, row.kind ?? "details");
      const sentences = row.members.map((parts, at) => parts && sentence(data.members[at], parts)).filter((found) => found);
      return element("li", { className: "row" }, ...sentences, element("details", {}, summary, list));
    }

    function show() {
      const found = matching();
      const listed = found.slice(0, shown);
      section.querySelector(".list").replaceChildren(...listed.map(card));
      section.querySelector(".more").hidden = listed.length === found.length;
      const count = (number) => number.toLocaleString("en");
      section.querySelector(".found").textContent = found.length === rows.length
        ? `${count(listed.length)} of ${count(found.length)}`
        : `${count(listed.length)} of ${count(found.length)} that match`;
    }

    section.querySelector("datalist").append(...[...words].sort().map((value) => element("option", { value })));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => { shown = AT_ONCE; writeAddress(); show(); });
    section.querySelector(".more").addEventListener("click", () => { shown += AT_ONCE; writeAddress(); show(); });
    return {
      read(asked) {
        for (const one of form.elements) one.value = asked.get(one.name) ?? "";
        shown = Math.max(AT_ONCE, Number(asked.get(`${prefix}shown`)) || 0);
      },
      write(asked) {
        for (const one of form.elements) if (one.value) asked.set(one.name, one.value);
        if (shown > AT_ONCE) asked.set(`${prefix}shown`, shown);
      },
      show,
    };
  }

  const samples = JSON.parse(document.getElementById("sample").textContent);
  const browsers = [...document.querySelectorAll(".browser")].map((section) =>
    browser(section, samples.find((data) => data.table === section.dataset.table)));
  const reload = document.getElementById("reload");

  // What was asked for is kept in the address: it outlives a reload and can be passed on as a link.
  function readAddress() {
    const address = location.hash.slice(1);
    if (!address.includes("=")) return; // nothing, or the name of a section
    const asked = new URLSearchParams(address);
    for (const one of browsers) one.read(asked);
    if (reload) reload.checked = asked.get("reload") !== "no";
  }

  function writeAddress() {
    const asked = new URLSearchParams();
    for (const one of browsers) one.write(asked);
    if (reload && !reload.checked) asked.set("reload", "no");
    history.replaceState(null, "", `#${asked}`);
  }

  function showAll() {
    for (const one of browsers) one.show();
  }

  window.addEventListener("hashchange", () => { readAddress(); showAll(); });
  readAddress();
  showAll();

  if (reload) reload.addEventListener("change", writeAddress);
})();
