"use strict";
(() => {
  const one = (q, of = document) => of.querySelector(q), all = (q, of = document) => [...of.querySelectorAll(q)];
  const units = all(".unit"), blocks = all("details.block"), search = one("#search"), empty = one("#empty");
  const words = units.map((u) => (u.dataset.words || u.textContent).toLowerCase());
  const boxes = new Map();
  for (const a of all(".graph a")) boxes.set(a.getAttribute("href").slice(1), a);
  let at = -1;

  const shown = () => units.filter((u) => !u.classList.contains("hidden"));

  const filter = () => {
    const asked = search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const kept = new Set(all("#verdicts input:checked").map((i) => i.value));
    const narrow = asked.length > 0 || all("#verdicts input:not(:checked)").length > 0;
    let count = 0;
    units.forEach((u, i) => {
      const fits = u.dataset.verdicts.split(",").some((v) => kept.has(v)) && asked.every((w) => words[i].includes(w));
      u.classList.toggle("hidden", !fits);
      count += fits;
    });
    for (const b of blocks) {
      const some = one(".unit:not(.hidden)", b) !== null;
      b.classList.toggle("hidden", !some);
      if (narrow && some) b.open = true;
    }
    empty.textContent = count ? "" : "No node fits.";
  };

  const choose = (i, focus) => {
    for (const u of all(".chosen")) u.classList.remove("chosen");
    at = i;
    const u = units[i];
    if (!u) return;
    u.classList.add("chosen");
    const block = u.closest("details.block");
    for (let b = block; b; b = b.parentElement.closest("details.block")) b.open = true;
    const box = boxes.get(u.id) || (block && boxes.get(block.id));
    if (box) {
      box.classList.add("chosen");
      const pane = box.closest(".graph"), place = box.getBoundingClientRect(), frame = pane.getBoundingClientRect();
      pane.scrollTop += place.top - frame.top - pane.clientHeight / 2;
      pane.scrollLeft += place.left - frame.left - pane.clientWidth / 2;
    }
    if (focus) {
      one("a.name", u).focus({ preventScroll: true });
      u.scrollIntoView({ block: "nearest" });
    }
  };

  const step = (by, departing) => {
    const list = shown().filter((u) => !departing || u.dataset.departs);
    const index = list.indexOf(units[at]);
    const next = index < 0 ? list.find((u) => units.indexOf(u) > at) || list[0] : list[index + by];
    if (next) choose(units.indexOf(next), true);
  };

  const follow = () => {
    const found = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!found) return;
    if (found.matches("details")) {
      for (let b = found; b; b = b.parentElement.closest("details.block")) b.open = true;
    } else choose(units.indexOf(found), false);
    found.scrollIntoView({ block: "nearest" });
  };

  search.addEventListener("input", filter);
  one("#verdicts").addEventListener("change", filter);
  one("#open").addEventListener("click", () => blocks.forEach((b) => { b.open = true; }));
  one("#shut").addEventListener("click", () => blocks.forEach((b) => { b.open = false; }));
  addEventListener("hashchange", follow);
  addEventListener("beforeprint", () => all("details").forEach((d) => { d.open = true; }));
  document.addEventListener("click", (e) => {
    const copy = e.target.closest("button.copy");
    if (copy) {
      const pre = one("pre", copy.parentElement);
      (navigator.clipboard ? navigator.clipboard.writeText(pre.textContent) : Promise.reject()).then(
        () => { copy.textContent = "Copied"; },
        () => { getSelection().selectAllChildren(pre); copy.textContent = "Selected: copy it by key"; });
      return;
    }
    const u = e.target.closest(".unit");
    if (u && !e.target.closest("a, summary, pre, .more")) choose(units.indexOf(u), false);
  });
  document.addEventListener("keydown", (e) => {
    if (e.target.matches("input, textarea") || e.ctrlKey || e.metaKey || e.altKey) {
      if (e.key === "Escape") e.target.blur();
      return;
    }
    if (e.key === "/") { e.preventDefault(); search.focus(); }
    else if (e.key === "j" || e.key === "k") step(e.key === "j" ? 1 : -1, false);
    else if (e.key === "n" || e.key === "p") step(e.key === "n" ? 1 : -1, true);
  });
  for (const hidden of all(".scripted")) hidden.hidden = false;
  if (location.hash) follow();
})();
