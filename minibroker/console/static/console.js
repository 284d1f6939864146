// The script of the console: streams of changes, the live tail, forms, copying. Nothing that comes from a record is executed:
// the server escapes what is inserted here.
"use strict";

(() => {
  const RETRY_MS = 2000;
  const TAIL_ROWS = 200;
  const one = (selector, root = document) => root.querySelector(selector);
  document.documentElement.classList.add("scripted");

  // -- streams ---------------------------------------------------------------------------------------------------------

  /** Follow a stream of the server, and open it again whenever it ends. */
  function follow(address, handlers, onState) {
    let source = null;
    let isStopped = false;
    const open = () => {
      source = new EventSource(address);
      source.onopen = () => onState(true);
      source.onerror = () => {
        onState(false);
        if (source.readyState === EventSource.CLOSED && !isStopped) {
          explain(address);
          setTimeout(open, RETRY_MS);
        }
      };
      for (const [name, handle] of Object.entries(handlers)) {
        source.addEventListener(name, (event) => handle(JSON.parse(event.data)));
      }
    };
    open();
    return () => { isStopped = true; source.close(); };
  }

  const lost = one(".lost");
  const noAnswer = lost.textContent;
  let lostTimer = 0;

  /** Show why the server refuses a stream: an EventSource does not tell. */
  async function explain(address) {
    const request = new AbortController();
    try {
      const response = await fetch(address, { signal: request.signal });
      lost.textContent = response.status === 503 ? (await response.json()).error : noAnswer;
    } catch {
      lost.textContent = noAnswer;
    }
    request.abort();
  }

  function showConnection(isThere) {
    clearTimeout(lostTimer);
    if (isThere) {
      lost.hidden = true;
      lost.textContent = noAnswer;
    } else {
      lostTimer = setTimeout(() => { lost.hidden = false; }, 500);
    }
  }

  /** Describe where the focus is inside a block, to give it back after the block was replaced. */
  function focusIn(block) {
    const active = document.activeElement;
    if (!active || !block.contains(active)) {
      return null;
    }
    const all = [...block.querySelectorAll("a, button, input, select, textarea, [tabindex]")];
    return { index: all.indexOf(active), href: active.getAttribute("href"), isField: /^(INPUT|SELECT|TEXTAREA)$/.test(active.tagName) };
  }

  function replaceBlock({ block, html }) {
    const element = one(`[data-block="${block}"]`);
    if (!element) {
      return;
    }
    const focus = focusIn(element);
    if (focus && focus.isField) {
      return; // the visitor is typing there
    }
    const selection = document.getSelection();
    if (selection && !selection.isCollapsed && element.contains(selection.anchorNode)) {
      return; // the visitor is selecting text to copy
    }
    const scrolls = [...element.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    element.innerHTML = html;
    element.querySelectorAll(".scroll").forEach((each, index) => { each.scrollLeft = scrolls[index] || 0; });
    reach(element);
    if (focus) {
      const all = [...element.querySelectorAll("a, button, input, select, textarea, [tabindex]")];
      const same = focus.href && all.find((each) => each.getAttribute("href") === focus.href);
      (same || all[Math.min(focus.index, all.length - 1)] || document.getElementById("content")).focus({ preventScroll: true });
    }
  }

  const live = document.body.dataset.live;
  if (live) {
    const gone = ({ message }) => {
      stop();
      clearTimeout(lostTimer);
      lost.textContent = message;
      lost.hidden = false;
    };
    const stop = follow(live, { block: replaceBlock, gone }, showConnection);
  }

  /** Let the keyboard reach parts that scroll, under the name of the heading before them. */
  function reach(root) {
    for (const each of root.querySelectorAll(".scroll")) {
      if (each.scrollWidth > each.clientWidth) {
        each.tabIndex = 0;
        each.setAttribute("role", "region");
        each.setAttribute("aria-label", nameFor(each));
      } else if (each.tabIndex === 0) {
        for (const name of ["tabindex", "role", "aria-label"]) {
          each.removeAttribute(name);
        }
      }
    }
  }

  function nameFor(element) {
    const headings = [...document.querySelectorAll("h1, h2, h3, summary")];
    const before = headings.filter((each) => each.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING).pop();
    const name = before ? before.textContent.trim() : "Table";
    const taken = [...document.querySelectorAll("[role=region]")].filter((each) => each !== element).map((each) => each.getAttribute("aria-label"));
    let unique = name;
    for (let number = 2; taken.includes(unique); number += 1) {
      unique = `${name} ${number}`;
    }
    return unique;
  }
  reach(document);
  addEventListener("resize", () => reach(document));

  // -- live tail -------------------------------------------------------------------------------------------------------

  const tailButton = one(".tail");
  if (tailButton) {
    const rows = one("#rows");
    const status = one("#tail-status");
    let stop = null;
    let count = 0;
    let skipped = 0;
    const say = () => {
      const words = skipped ? `, ${skipped.toLocaleString("en")} skipped: they came too fast to show` : "";
      status.textContent = `Live: ${count.toLocaleString("en")} new record${count === 1 ? "" : "s"}${words}.`;
    };
    const add = (event) => {
      const template = document.createElement("template");
      template.innerHTML = event.html;
      for (const row of template.content.querySelectorAll("tr")) {
        row.classList.add("new");
      }
      one(".none", rows)?.remove();
      rows.prepend(template.content);
      while (rows.children.length > TAIL_ROWS) {
        rows.lastElementChild.remove();
      }
      count += event.count;
      skipped += event.skipped;
      say();
    };
    tailButton.addEventListener("click", () => {
      const starts = !stop;
      tailButton.setAttribute("aria-pressed", String(starts));
      if (starts) {
        count = skipped = 0;
        status.textContent = "Live: connecting…";
        stop = follow(tailButton.dataset.tail, { ready: say, rows: add, gone: (event) => { status.textContent = event.message; } }, showConnection);
      } else {
        stop();
        stop = null;
        status.textContent = "The live tail is stopped.";
      }
    });
  }

  // -- forms -----------------------------------------------------------------------------------------------------------

  function valuesOf(form) {
    const values = {};
    for (const [name, value] of new FormData(form)) {
      values[name] = value;
    }
    if ("arguments" in form.dataset) {
      values.arguments = JSON.parse(values.arguments || "{}");
    }
    return values;
  }

  /** Show the fields that the chosen option of a form needs, and hide the others. */
  function chooseFields(select) {
    for (const each of select.form.querySelectorAll("[data-when]")) {
      each.hidden = !each.dataset.when.split(" ").includes(select.value);
    }
  }
  document.querySelectorAll("[data-chooses]").forEach(chooseFields);
  addEventListener("pageshow", () => document.querySelectorAll("[data-chooses]").forEach(chooseFields)); // the browser restored choices
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-chooses]")) {
      chooseFields(event.target);
    }
  });

  async function post(address, values) {
    const response = await fetch(address, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(values), credentials: "same-origin",
    });
    const body = await response.json();
    if (!response.ok) {
      throw new Error(body.error);
    }
    return body;
  }

  function report(form, text, kind, link) {
    const output = one("output", form);
    if (!output) {
      if (kind === "bad") {
        alert(text);
      }
      return;
    }
    output.className = kind;
    output.textContent = text;
    if (link) {
      const anchor = document.createElement("a");
      anchor.href = link;
      anchor.textContent = "Show";
      output.append(" ", anchor);
    }
  }

  function showPlan(form, { plan, columns, fields }) {
    const place = one(".plan", form);
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    for (const name of columns) {
      const cell = document.createElement("th");
      cell.textContent = name;
      head.append(cell);
    }
    fields.forEach((field, index) => { head.cells[index].className = plan.some((row) => typeof row[field] === "number") ? "n" : ""; });
    const body = table.createTBody();
    for (const row of plan) {
      const line = body.insertRow();
      for (const field of fields) {
        const cell = line.insertCell();
        const value = row[field];
        cell.textContent = value === null ? "–" : typeof value === "number" ? value.toLocaleString("en") : String(value);
        cell.className = typeof value === "number" ? "n" : "";
      }
    }
    const frame = document.createElement("div");
    frame.className = "scroll";
    frame.append(table);
    place.replaceChildren(frame);
    reach(place);
  }

  async function send(form, address) {
    try {
      const result = await post(address, valuesOf(form));
      if (result.plan && address === form.dataset.preview) {
        showPlan(form, result);
      }
      if (result.go && address !== form.dataset.preview) {
        location.assign(result.go);
        return;
      }
      const more = form.dataset.arguments !== undefined && result.result !== null ? `: ${JSON.stringify(result.result)}` : "";
      report(form, (result.message || "Done") + more, "good", result.link);
    } catch (error) {
      report(form, error.message, "bad");
    }
  }

  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-action]");
    if (!form) {
      return;
    }
    event.preventDefault();
    if (!form.dataset.confirm || confirm(form.dataset.confirm)) {
      send(form, form.dataset.action);
    }
  });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button");
    if (!button) {
      return;
    }
    if (button.dataset.copy !== undefined) {
      await navigator.clipboard.writeText(button.dataset.copy);
      const before = button.textContent;
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = before; }, 1500);
    } else if (button.dataset.fill !== undefined) {
      const field = one("textarea", button.closest("form"));
      field.value = button.dataset.fill;
      field.focus();
    } else if (button.classList.contains("preview")) {
      const form = button.closest("form");
      send(form, form.dataset.preview);
    } else if (button.classList.contains("menu")) {
      const isOpen = one("#navigation").classList.toggle("is-open");
      button.setAttribute("aria-expanded", String(isOpen));
    }
  });

  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
      const search = one("input[type=search]");
      if (search) {
        event.preventDefault();
        search.focus();
        search.select();
      }
    }
  });
})();
