//! A check of accessibility: the rules of WCAG that a script can decide and whose faults are
//! serious.

use super::browser::Browser;

/// Returns the faults of the page that the browser shows.
pub(super) async fn faults(browser: &Browser) -> Vec<String> {
    let found = browser.run(CHECK).await;
    serde_json::from_value(found).expect("a list of texts")
}

const CHECK: &str = r#"
const faults = [];
const fault = (element, text) => faults.push(`${text}: ${element.outerHTML.slice(0, 140)}`);
const all = selector => [...document.querySelectorAll(selector)];
const isShown = element => element.checkVisibility() && element.getClientRects().length > 0;

if (!document.documentElement.lang) faults.push("the page has no language");
if (!document.title.trim()) faults.push("the page has no title");
if (all("main").length !== 1) faults.push("the page has not one main part");
if (all("h1").length !== 1) faults.push("the page has not one h1");
if (!all("nav").every(nav => nav.getAttribute("aria-label"))) faults.push("a nav has no name");

const ids = all("[id]").map(element => element.id);
ids.filter((id, at) => ids.indexOf(id) !== at).forEach(id => faults.push(`id ${id} is there twice`));
all("[aria-labelledby], [aria-describedby]").forEach(element => {
  for (const name of ["aria-labelledby", "aria-describedby"])
    for (const id of (element.getAttribute(name) || "").split(" ").filter(Boolean))
      if (!document.getElementById(id)) fault(element, `it names ${id}, which is not there`);
});

const regions = all("section[aria-label], section[aria-labelledby], [role=region]").map(region =>
  region.getAttribute("aria-label") || document.getElementById(region.getAttribute("aria-labelledby"))?.textContent);
regions.filter((name, at) => regions.indexOf(name) !== at).forEach(name => faults.push(`two regions are called ${name}`));

let level = 0;
all("h1, h2, h3, h4").forEach(heading => {
  const next = Number(heading.tagName[1]);
  if (next > level + 1) fault(heading, `a heading of level ${next} follows one of ${level}`);
  level = next;
});

const nameOf = element => (element.getAttribute("aria-label") || element.textContent ||
  [...element.querySelectorAll("img")].map(image => image.alt).join("")).trim();
all("a[href], button").forEach(element => nameOf(element) || fault(element, "it has no name"));
all("img").forEach(image => image.hasAttribute("alt") || fault(image, "it has no alt"));
all("svg").forEach(image => image.getAttribute("role") === "img" && image.getAttribute("aria-label") ||
  fault(image, "it has no label"));
all("input:not([type=hidden]), select, textarea, meter").forEach(field =>
  field.labels && field.labels.length || field.getAttribute("aria-label") || fault(field, "it has no label"));

all("table").forEach(table => {
  table.caption || fault(table, "it has no caption");
  table.querySelectorAll("thead th").forEach(cell => cell.scope === "col" || fault(cell, "it has no scope"));
});
all("ul, ol").forEach(list => [...list.children].every(item => item.tagName === "LI") ||
  fault(list, "a list has other children than items"));
all("dl > div").forEach(group => group.querySelector("dt") && group.querySelector("dd") ||
  fault(group, "a term has no description"));
all("*").forEach(element => {
  const box = element.scrollWidth > element.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(element).overflowX);
  const inside = element.querySelector("a, button, input");
  if (box && element.tabIndex < 0 && !inside) fault(element, "it scrolls, but not by keyboard");
});

const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const parse = colour => {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
};
const over = (top, under) => top.slice(0, 3).map((part, at) => part * top[3] / 255 + under[at] * (1 - top[3] / 255)).concat(255);
const ground = element => {
  const layers = [];
  for (let at = element; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
  return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 255]);
};
const light = colour => {
  const [r, g, b] = colour.map(part => part / 255).map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => {
  const [high, low] = [light(a), light(b)].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const seen = new Set();
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || seen.has(element) || !isShown(element) || element.closest(".hidden, svg")) continue;
  seen.add(element);
  const style = getComputedStyle(element);
  const size = parseFloat(style.fontSize);
  const needed = size >= 24 || size >= 18.66 && Number(style.fontWeight) >= 700 ? 3 : 4.5;
  const found = contrast(over(parse(style.color), ground(element)), ground(element));
  if (found < needed) fault(element, `its contrast is ${found.toFixed(2)}, below ${needed}`);
}

const before = document.activeElement;
all("a[href], button, input:not([type=hidden]), select").filter(isShown).slice(0, 60).forEach(element => {
  element.focus({ preventScroll: true, focusVisible: true });
  const style = getComputedStyle(element);
  if (document.activeElement !== element) fault(element, "it cannot be focused");
  else if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) fault(element, "its focus is not seen");
  element.blur();
});
if (before && before !== document.body) before.focus({ preventScroll: true });
all("a.button, button").filter(isShown).forEach(element => {
  const { width, height } = element.getBoundingClientRect();
  if (!element.closest(".hidden") && !element.matches(".hidden") && (width < 24 || height < 24)) fault(element, "it is smaller than 24 pixels");
});
return faults;
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_check_finds_faults() {
    let browser = Browser::start().await;
    let page = "data:text/html,<h1>a</h1><h3>b</h3><img><button></button><input>\
                <p style='color:silver'>pale</p>\
                <section aria-label=x></section><pre role=region aria-label=x></pre><table><tr><td>1</table>";
    browser.goto(page).await;
    let found = faults(&browser).await.join("\n");
    browser.close().await;
    for fault in [
        "no language",
        "no title",
        "not one main",
        "a heading of level 3 follows one of 1",
        "it has no alt",
        "it has no name",
        "it has no label",
        "it has no caption",
        "two regions are called x",
        "its contrast is 1.",
        "smaller than 24",
    ] {
        assert!(found.contains(fault), "{fault} is not among:\n{found}");
    }
}
