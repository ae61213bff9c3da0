"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const names = data.names;
  const choices = names.filter((name) => name !== "factor");
  const by = (id) => document.getElementById(id);
  const make = (tag, text, kind) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  };
  // A name may break after an underscore, not within a word.
  const named = (element, text) => {
    text.split(/(?<=_)/).forEach((part, at) => element.append(...(at ? [document.createElement("wbr"), part] : [part])));
    element.title = text;
    return element;
  };
  const minus = (text) => text.replace(/(^|[^\w.])-(?=\d)/g, "$1\u2212");
  const signed = (value) => minus((value < 0 ? "" : "+") + value.toFixed(2)).replace(/^\u2212(0\.00)$/, "+$1");
  const kinds = { "dominates": "important", "minor": "not-important" };
  const unsure = (row) => !kinds[row.verdict];
  const filters = {};
  let sorted = null;

  const select = (label, values, all) => {
    const box = make("select");
    if (all) box.append(new Option(all, ""));
    values.forEach((value) => box.append(new Option(value || "(none)", value)));
    const outer = make("label", label + " ");
    outer.append(box);
    box.addEventListener("change", draw);
    return [outer, box];
  };

  const kept = () => {
    const words = filters.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    return data.rows.filter((row) => {
      const text = [...Object.values(row.of), row.run, row.verdict, row.error].join(" ").toLowerCase();
      // A point that failed has no factor: no choice of a factor hides it.
      return names.every((name) => !filters[name] || !filters[name].value || row.of[name] === filters[name].value ||
          (name === "factor" && !row.of.factor)) &&
        (!filters.verdict.value || row.verdict === filters.verdict.value) && words.every((word) => text.includes(word));
    });
  };

  const colour = (value) => {
    const share = Math.min(1, Math.abs(value)), end = value > 0 ? [213, 94, 0] : [0, 114, 178];
    return "rgb(" + end.map((part) => Math.round(255 + (part - 255) * share)).join(",") + ")";
  };

  const cell = (row, score) => {
    const value = row && row[score];
    if (value === null || value === undefined) return make("td", "\u2013", "absent");
    const found = make("td", signed(value), unsure(row) ? "unsure" : "");
    found.style.setProperty("--heat", colour(value));
    if (!unsure(row) && Math.abs(value) > 0.75) found.classList.add("strong");
    found.title = names.filter((name) => row.of[name]).map((name) => name + ": " + row.of[name]).join("\n") +
      "\n" + row.verdict + "\ncorrected " + (row.corrected === null ? "n/a" : signed(row.corrected)) + " (" +
      minus(row.interval) + ")\npublished " + (row.published === null ? "n/a" : signed(row.published));
    return found;
  };

  const heat = (rows) => {
    const columns = by("columns").value, panel = by("panels").value, score = by("shown").value;
    const down = names.filter((name) => name !== columns && name !== panel);
    const place = by("heat");
    place.replaceChildren();
    const titles = panel ? data.dimensions[panel].filter((title) => rows.some((row) => row.of[panel] === title)) : [""];
    titles.forEach((title) => {
      const own = rows.filter((row) => !panel || row.of[panel] === title);
      const across = data.dimensions[columns].filter((value) => own.some((row) => row.of[columns] === value));
      const lines = new Map();
      own.forEach((row) => {
        if (!row.of.factor && columns !== "factor") return;
        const parts = down.map((name) => row.of[name]), key = JSON.stringify(parts);
        if (!lines.has(key)) lines.set(key, { parts, cells: new Map() });
        lines.get(key).cells.set(row.of[columns], row);
      });
      if (!lines.size) return;
      const block = make("div", undefined, "panel"), table = make("table"), head = make("tr");
      if (panel) block.append(make("h3", panel + ": " + title));
      down.forEach((name) => head.append(named(make("th", undefined, "text"), name)));
      across.forEach((value) => head.append(named(make("th"), (columns === "factor" ? "" : columns + " ") + value)));
      table.append(make("thead"));
      table.tHead.append(head);
      const body = make("tbody");
      let before = [];
      lines.forEach((line) => {
        const tr = make("tr");
        line.parts.forEach((part, at) => {
          const same = before.length && line.parts.slice(0, at + 1).every((each, to) => each === before[to]);
          const th = make("th", part, same ? "text same" : "text");
          th.title = part;
          tr.append(th);
        });
        before = line.parts;
        across.forEach((value) => tr.append(cell(line.cells.get(value), score)));
        body.append(tr);
      });
      table.append(body);
      block.append(table);
      place.append(block);
    });
    if (!place.children.length) place.append(make("p", "No point with a score is left by the filter.", "muted"));
  };

  const columnsOfTable = [
    ...choices.map((name) => [name, (row) => row.of[name], (row) => data.dimensions[name].indexOf(row.of[name])]),
    ["factor", (row) => row.of.factor, (row) => data.dimensions.factor.indexOf(row.of.factor)],
    ["verdict", (row) => row.verdict],
    ["corrected", (row) => row.corrected === null ? "n/a" : signed(row.corrected), (row) => row.corrected],
    ["interval", (row) => minus(row.interval)],
    ["published", (row) => row.published === null ? "n/a" : signed(row.published), (row) => row.published],
    ["moves by std (" + data.unit + ")", (row) => row.moves, (row) => parseFloat(row.moves)],
    ["golden std (" + data.unit + ")", (row) => row.golden, (row) => parseFloat(row.golden)],
    ["mean score (" + data.unit + ")", (row) => row.score, (row) => parseFloat(row.score)],
    ["run", (row) => row.run],
  ];

  const table = (rows) => {
    const head = by("points").tHead.rows[0], body = by("points").tBodies[0];
    head.replaceChildren();
    columnsOfTable.forEach(([name], at) => {
      const th = make("th"), button = make("button", name + (sorted && sorted.at === at ? (sorted.up ? " \u25b4" : " \u25be") : ""));
      button.type = "button";
      button.addEventListener("click", () => {
        sorted = { at, up: !(sorted && sorted.at === at && sorted.up) };
        draw();
      });
      th.scope = "col";
      if (at <= choices.length + 1) th.className = "text";
      th.append(button);
      head.append(th);
    });
    const ordered = [...rows];
    if (sorted) {
      const key = columnsOfTable[sorted.at][2] || columnsOfTable[sorted.at][1];
      const missing = (value) => value === null || value === "" || value === "n/a" || Number.isNaN(value);
      ordered.sort((one, two) => {
        const [left, right] = [key(one), key(two)];
        if (missing(left) || missing(right)) return missing(left) - missing(right);
        return (left < right ? -1 : left > right ? 1 : 0) * (sorted.up ? 1 : -1);
      });
    }
    body.replaceChildren(...ordered.map((row) => {
      const tr = make("tr");
      columnsOfTable.forEach(([name, text], at) => {
        const td = make("td", undefined, at <= choices.length + 1 ? "text" : "");
        if (name === "verdict") td.append(make("span", row.verdict, "chip " + (kinds[row.verdict] || "unknown")));
        else if (name === "run") {
          const code = make("code", row.run.slice(0, 8));
          code.title = row.run;
          if (row.link) {
            const link = make("a");
            link.href = row.link;
            link.target = "_blank";
            link.rel = "noopener";
            link.append(code);
            td.append(link);
          } else td.append(code);
        } else td.textContent = text(row);
        if (name === "verdict" && row.error) td.append(make("small", row.error));
        tr.append(td);
      });
      return tr;
    }));
  };

  const draw = () => {
    const rows = kept(), points = new Set(rows.map((row) => row.point)).size;
    const all = new Set(data.rows.map((row) => row.point)).size;
    const count = points + " of " + all + (all === 1 ? " point" : " points");
    if (by("count")) {
      by("count").textContent = count;
      heat(rows);
    }
    by("filtered").textContent = rows.length === data.rows.length ? "" : "Filtered as above: " + count + ".";
    table(rows);
  };

  const start = () => {
    const place = by("filters") || make("div");
    const verdicts = [...new Set(data.rows.map((row) => row.verdict))];
    names.filter((name) => data.dimensions[name].length > 1).forEach((name) => {
      const [label, box] = select(name, data.dimensions[name], "all");
      filters[name] = box;
      place.append(label);
    });
    const [label, box] = select("verdict", verdicts, "all");
    filters.verdict = box;
    filters.text = make("input");
    filters.text.type = "search";
    filters.text.placeholder = "filter by words";
    filters.text.setAttribute("aria-label", "filter by words");
    filters.text.addEventListener("input", draw);
    place.append(label, filters.text);
    if (by("controls")) {
      names.forEach((name) => by("columns").append(new Option(name, name)));
      const panels = () => {
        const before = by("panels").value;
        by("panels").replaceChildren(new Option("none", ""));
        names.filter((name) => name !== by("columns").value).forEach((name) => by("panels").append(new Option(name, name)));
        by("panels").value = [...by("panels").options].some((option) => option.value === before) ? before : "";
      };
      const first = () => {
        by("columns").value = "factor";
        panels();
        by("panels").value = names.includes("task") && data.dimensions.task.length > 1 && choices.length > 1 ? "task" : "";
        by("shown").value = "corrected";
      };
      first();
      by("columns").addEventListener("change", () => { panels(); draw(); });
      ["panels", "shown"].forEach((id) => by(id).addEventListener("change", draw));
      by("reset").addEventListener("click", () => {
        Object.values(filters).forEach((each) => { each.value = ""; });
        sorted = null;
        first();
        draw();
      });
      ["controls", "heat", "heat-key"].forEach((id) => { by(id).hidden = false; });
      by("still").hidden = true;
    }
    draw();
  };

  start();
})();
