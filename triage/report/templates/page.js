"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const root = document.documentElement;
  const theme = $("theme");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  const search = $("search"), rows = [...document.querySelectorAll("[data-find]")];
  if (search) {
    $("searching").hidden = false;
    const filter = () => {
      const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !wanted.every((word) => text.includes(word));
        shown += row.hidden ? 0 : 1;
        if (wanted.length && !row.hidden) row.closest("details")?.setAttribute("open", "");
      }
      $("count").textContent = wanted.length ? $("count").dataset.text.replace("{count}", shown) : "";
    };
    search.addEventListener("input", filter);
    if (location.hash.startsWith("#q=")) { search.value = decodeURIComponent(location.hash.slice(3)); filter(); }
    document.addEventListener("keydown", (event) => {
      if (event.key === "/" && document.activeElement !== search) { event.preventDefault(); search.focus(); }
      if (event.key === "Escape" && document.activeElement === search) { search.value = ""; filter(); search.blur(); }
      if ((event.key === "j" || event.key === "k") && document.activeElement.tagName !== "INPUT") walk(event.key === "j" ? 1 : -1);
    });
  }
  let at = -1;
  const walk = (by) => {
    const seen = rows.filter((row) => !row.hidden && row.classList.contains("exhibit"));
    if (!seen.length) return;
    at = Math.min(Math.max(at + by, 0), seen.length - 1);
    seen[at].querySelector("summary")?.focus();
    seen[at].scrollIntoView({ block: "nearest" });
  };
  addEventListener("hashchange", () => $(location.hash.slice(1))?.closest("details")?.setAttribute("open", ""));
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));

  for (const list of document.querySelectorAll(".holders")) {
    const figure = $(list.dataset.map), status = figure.querySelector(".map-told"), help = status.textContent;
    let chosen = null;
    const light = (holder, told) => {
      figure.classList.toggle("lit", holder !== null);
      for (const path of figure.querySelectorAll(".block")) path.classList.toggle("on", path.dataset.holder === holder);
      status.textContent = told;
    };
    const rest = () => light(chosen && chosen.dataset.holder, chosen ? chosen.textContent : help);
    for (const item of list.children) {
      const button = document.createElement("button");
      button.type = "button"; button.dataset.holder = item.dataset.holder;
      button.setAttribute("aria-pressed", "false");
      button.append(...item.childNodes);
      item.append(button);
      const show = () => light(button.dataset.holder, button.textContent);
      button.addEventListener("pointerenter", show); button.addEventListener("focus", show);
      button.addEventListener("pointerleave", rest); button.addEventListener("blur", rest);
      button.addEventListener("click", () => {
        chosen = chosen === button ? null : button;
        for (const other of list.querySelectorAll("button")) other.setAttribute("aria-pressed", String(other === chosen));
        rest();
      });
    }
    figure.addEventListener("pointermove", (event) => {
      const block = event.target.closest(".block");
      if (block) light(block.dataset.holder ?? null, block.querySelector("title").textContent); else rest();
    });
    figure.addEventListener("pointerleave", rest);
  }

  const map = $("heat");
  if (!map) return;
  const image = map.querySelector("image.map"), told = $("heat-told"), cursor = map.querySelector(".cursor");
  const ranks = map.dataset.ranks.split(",").map(Number), steps = map.dataset.steps.split(",").map(Number);
  const medians = map.dataset.medians.split(",").map(Number);
  const palette = new Map(map.dataset.palette.split(" ").map((colour, level) => [colour, level]));
  const [left, top, width, height] = ["x", "y", "width", "height"].map((name) => Number(image.getAttribute(name)));
  let pixels = null, row = 0, column = 0;
  const picture = new Image();
  picture.onload = () => {
    const canvas = document.createElement("canvas");
    canvas.width = steps.length; canvas.height = ranks.length;
    const context = canvas.getContext("2d");
    context.drawImage(picture, 0, 0);
    pixels = context.getImageData(0, 0, canvas.width, canvas.height).data;
    map.dataset.ready = "yes";
  };
  picture.src = image.getAttribute("href");
  const show = () => {
    if (!pixels) return;
    const start = 4 * (row * steps.length + column);
    const level = palette.get([...pixels.slice(start, start + 3)].join(",")) || 0;
    const times = level ? (2 ** ((level - 8) / 4)).toFixed(2) : "?";
    const bound = level === 15 ? "≥ " : level === 1 ? "≤ " : "";
    told.textContent = `${map.dataset.rank} ${ranks[row]}, ${map.dataset.step} ${steps[column]}: ${bound}${times} ${map.dataset.times} (${medians[column]} ms)`;
    const across = width / steps.length, down = height / ranks.length;
    cursor.setAttribute("x", left + column * across); cursor.setAttribute("y", top + row * down);
    cursor.setAttribute("width", Math.max(across, 3)); cursor.setAttribute("height", Math.max(down, 3));
    cursor.removeAttribute("visibility");
  };
  const keep = (value, count) => Math.min(Math.max(value, 0), count - 1);
  map.addEventListener("pointermove", (event) => {
    const box = map.getBoundingClientRect(), scale = map.viewBox.baseVal.width / box.width;
    column = keep(Math.floor(((event.clientX - box.left) * scale - left) / width * steps.length), steps.length);
    row = keep(Math.floor(((event.clientY - box.top) * scale - top) / height * ranks.length), ranks.length);
    show();
  });
  map.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!move) return;
    event.preventDefault();
    row = keep(row + move[0], ranks.length); column = keep(column + move[1], steps.length);
    show();
  });
})();
