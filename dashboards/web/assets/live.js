// The steps of a chart: the arrow keys, or a pointer, choose one, whose values are shown below it;
// Enter, or a click, leads to its records. Without script the table has all of it.
(() => {
  "use strict";
  const begin = () => {
    for (const plot of document.querySelectorAll(".plot[data-steps]")) {
      const steps = [...plot.querySelectorAll(".hit")];
      const shown = plot.parentElement.querySelector("output.step");
      let at = steps.length - 1;
      const text = (step) => step.querySelector("title").textContent;
      const choose = (next) => {
        steps[at].classList.remove("chosen");
        at = Math.max(0, Math.min(steps.length - 1, next));
        steps[at].classList.add("chosen");
        shown.textContent = text(steps[at]);
        plot.setAttribute("aria-valuenow", String(at));
        plot.setAttribute("aria-valuetext", text(steps[at]));
      };
      const go = () => { location.href = steps[at].dataset.to; };
      const attributes = {
        role: "slider", tabindex: "0", "aria-label": `${plot.dataset.steps}: arrow keys show values, Enter the records`,
        "aria-valuemin": "0", "aria-valuemax": String(at), "aria-valuenow": String(at), "aria-valuetext": text(steps[at]),
      };
      for (const [name, value] of Object.entries(attributes)) plot.setAttribute(name, value);
      // A slider has no parts of its own: what the picture says is the text of the steps.
      plot.querySelector("svg").setAttribute("aria-hidden", "true");
      plot.addEventListener("keydown", (event) => {
        const to = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, PageUp: at + 10, PageDown: at - 10, Home: 0, End: steps.length - 1 }[event.key];
        if (to !== undefined) choose(to);
        else if (event.key === "Enter") go();
        else return;
        event.preventDefault();
      });
      plot.addEventListener("focus", () => choose(at));
      steps.forEach((step, index) => {
        step.addEventListener("pointerenter", () => choose(index));
        step.addEventListener("click", () => { choose(index); go(); });
      });
    }
  };
  begin();
  document.addEventListener("replaced", begin);
})();

// Keeps a page current: when the server says that it has counted anew, the content is fetched and
// replaced, unless somebody types, or has filled in a field or selected text in it.
(() => {
  "use strict";
  const script = document.currentScript;
  const content = document.getElementById("content");
  const light = document.getElementById("live");
  const isStill = () => content.querySelector("[data-still]") !== null;
  if (!content || !window.EventSource || isStill()) return;
  const pause = 2500;
  // By no clock that somebody sets: set back, it would hold the next one up.
  let last = performance.now();
  let busy = false;

  // A filter that is filled in, and not sent yet.
  const isFilled = () => {
    const isNew = (field) => field.value !== field.defaultValue || field.checked !== field.defaultChecked;
    const isMoved = (field) => {
      const chosen = [...field.options].findIndex((option) => option.defaultSelected);
      return field.selectedIndex !== Math.max(chosen, 0);
    };
    return [...content.querySelectorAll("input, textarea")].some(isNew)
      || [...content.querySelectorAll("select")].some(isMoved);
  };

  const isUsed = () => {
    const active = document.activeElement;
    const types = active && content.contains(active) && /^(INPUT|SELECT|TEXTAREA)$/.test(active.tagName);
    return types || isFilled() || document.hidden || !window.getSelection().isCollapsed;
  };

  // What can be reached by keyboard, each under what it is, and which of those alike.
  const reachable = () => {
    const seen = new Map();
    return [...content.querySelectorAll("a[href], button, [tabindex]")].map((element) => {
      const is = ["href", "aria-label"].map((name) => element.getAttribute(name)).find(Boolean);
      const kind = `${element.tagName} ${is || element.textContent}`;
      seen.set(kind, (seen.get(kind) || 0) + 1);
      return [`${kind} ${seen.get(kind)}`, element];
    });
  };

  // Replaces the content. Whoever moves by keyboard, or has scrolled in a part, stays where they are.
  const replace = (nodes) => {
    const places = reachable().map(([name, element]) => ({
      name, left: element.scrollLeft, top: element.scrollTop, active: element === document.activeElement,
    }));
    content.replaceChildren(...nodes);
    document.dispatchEvent(new Event("replaced"));
    const next = new Map(reachable());
    for (const { name, left, top, active } of places) {
      const element = (left || top || active) && next.get(name);
      if (!element) continue;
      element.scrollTo(left, top);
      if (active) element.focus({ preventScroll: true });
    }
  };

  const refresh = async () => {
    if (busy || isStill() || isUsed() || performance.now() - last < pause) return;
    busy = true;
    try {
      const response = await fetch(location.href, { headers: { "x-live": "1" } });
      if (response.ok && !response.redirected) {
        const page = new DOMParser().parseFromString(await response.text(), "text/html");
        const fresh = page.getElementById("content");
        if (fresh && !isUsed()) replace(fresh.childNodes);
      }
    } catch {
      // The next message tries again.
    } finally {
      last = performance.now();
      busy = false;
    }
  };

  // Only a page that is seen has a stream: a browser has six connections to a server, for all its
  // tabs and for the pages that it keeps to go back to.
  const address = script.dataset.live;
  let source = null;
  const open = () => {
    if (source || document.hidden) return;
    source = new EventSource(address);
    source.addEventListener("open", () => { light.hidden = false; });
    source.addEventListener("error", () => { light.hidden = true; });
    source.addEventListener("round", refresh);
  };
  const close = () => {
    if (source) source.close();
    source = null;
    light.hidden = true;
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return close();
    open();
    refresh();
  });
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", open);
  open();
})();
