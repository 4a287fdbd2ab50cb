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
  // What keeps itself current: the content, or of one that stays as it is a part, while that goes on.
  const part = () => {
    const content = document.getElementById("content");
    return content?.querySelector("[data-still]") ? content.querySelector("[data-current]") : content;
  };
  const light = document.getElementById("live");
  if (!window.EventSource || !part()) return;
  const pause = 2500;
  const DONE_SHOWN_MS = 30_000;
  const words = light.lastChild;
  // By no clock that somebody sets: set back, it would hold the next one up.
  let last = performance.now();
  let shown = last;
  let busy = false;

  // A filter that is filled in, and not sent yet.
  const isFilled = () => {
    const isNew = (field) => field.value !== field.defaultValue || field.checked !== field.defaultChecked;
    const isMoved = (field) => {
      const chosen = [...field.options].findIndex((option) => option.defaultSelected);
      return field.selectedIndex !== Math.max(chosen, 0);
    };
    return [...part().querySelectorAll("input, textarea")].some(isNew)
      || [...part().querySelectorAll("select")].some(isMoved);
  };

  const isUsed = () => {
    const active = document.activeElement;
    const types = active && part().contains(active) && /^(INPUT|SELECT|TEXTAREA)$/.test(active.tagName);
    return types || isFilled() || document.hidden || !window.getSelection().isCollapsed;
  };

  // What can be reached by keyboard, each under what it is, and which of those alike.
  const reachable = (within) => {
    const seen = new Map();
    return [...within.querySelectorAll("a[href], button, [tabindex]")].map((element) => {
      const is = ["href", "aria-label"].map((name) => element.getAttribute(name)).find(Boolean);
      const kind = `${element.tagName} ${is || element.textContent}`;
      seen.set(kind, (seen.get(kind) || 0) + 1);
      return [`${kind} ${seen.get(kind)}`, element];
    });
  };

  // Replaces the part. Whoever moves by keyboard, or has scrolled in it, stays where they are.
  const replace = (fresh) => {
    const places = reachable(part()).map(([name, element]) => ({
      name, left: element.scrollLeft, top: element.scrollTop, active: element === document.activeElement,
    }));
    part().replaceWith(fresh);
    document.dispatchEvent(new Event("replaced"));
    // What an action has done may by then be undone by another.
    if (performance.now() > DONE_SHOWN_MS) document.querySelector("p.done")?.remove();
    const next = new Map(reachable(fresh));
    for (const { name, left, top, active } of places) {
      const element = (left || top || active) && next.get(name);
      if (!element) continue;
      element.scrollTo(left, top);
      if (active) element.focus({ preventScroll: true });
    }
  };

  // Where others read, what is shown stays, and says how old it is.
  const tell = (isOld) => {
    const age = Math.round((performance.now() - shown) / 1000);
    words.textContent = isOld ? `Busy: as of ${age} s ago` : "Live";
    light.classList.toggle("old", isOld);
  };

  const refresh = async () => {
    if (busy || !part() || isUsed() || performance.now() - last < pause) return;
    busy = true;
    try {
      const response = await fetch(location.href, { headers: { "x-live": "1" } });
      if (response.ok && !response.redirected) {
        const page = new DOMParser().parseFromString(await response.text(), "text/html");
        const fresh = page.getElementById(part().id);
        if (fresh && !isUsed()) {
          replace(fresh);
          shown = performance.now();
          tell(false);
          if (!part()) close();
        }
      } else if (response.status === 429) {
        tell(true);
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
    if (source || document.hidden || !part()) return;
    source = new EventSource(address);
    source.addEventListener("open", () => { light.hidden = part()?.id !== "content"; });
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

// What an action has done is said once: whoever loads the page anew, or comes back to it, reads what is.
(() => {
  "use strict";
  const address = new URL(location.href);
  if (!address.searchParams.has("done")) return;
  for (const name of ["done", "of"]) address.searchParams.delete(name);
  history.replaceState(null, "", address);
})();
