// Keeps a page current: when the server says that it has counted anew, the content is fetched and
// replaced, unless somebody types or has selected text in it.
(() => {
  "use strict";
  const script = document.currentScript;
  const content = document.getElementById("content");
  const light = document.getElementById("live");
  if (!content || !window.EventSource || content.querySelector("[data-still]")) return;
  const pause = 2500;
  let last = Date.now();
  let busy = false;

  const isUsed = () => {
    const active = document.activeElement;
    const types = active && content.contains(active) && /^(INPUT|SELECT|TEXTAREA)$/.test(active.tagName);
    return types || document.hidden || !window.getSelection().isCollapsed;
  };

  const refresh = async () => {
    if (busy || isUsed() || Date.now() - last < pause) return;
    busy = true;
    try {
      const response = await fetch(location.href, { headers: { "x-live": "1" } });
      if (response.ok && !response.redirected) {
        const page = new DOMParser().parseFromString(await response.text(), "text/html");
        const fresh = page.getElementById("content");
        const active = document.activeElement;
        const place = active && content.contains(active) ? active.getAttribute("href") : null;
        if (fresh && !isUsed()) {
          content.replaceChildren(...fresh.childNodes);
          // Whoever moves by keyboard stays where they are.
          const again = place && content.querySelector(`a[href="${CSS.escape(place)}"]`);
          if (again) again.focus({ preventScroll: true });
        }
      }
    } catch {
      // The next message tries again.
    } finally {
      last = Date.now();
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
