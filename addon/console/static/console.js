// The console's only script. Without it, every page works, and stays as it was loaded.
"use strict";

// The refresh: <main> is loaded again and replaced while no one is busy with it.

const REFRESH_MS = 10000;
const TIMEOUT_MS = 9000; // below the time between two loads, so that there is one at a time
const NOTHING_TO_UPDATE = "form[method='post'], [data-still]";

const words = document.createElement("span");
const button = document.createElement("button");
let isStopped = false;

function isBusy(main) {
  const active = document.activeElement;
  return document.hidden || isStopped || !document.getSelection().isCollapsed ||
    main.querySelector(`details[open], ${NOTHING_TO_UPDATE}`) !== null ||
    (active !== null && active.closest("form, input, select, textarea") !== null);
}

// Return the place of an element in `main`: its place among its siblings, and those of its ancestors.
function placeOf(element, main) {
  const parent = element.parentElement;
  return element === main ? [] : [...placeOf(parent, main), [...parent.children].indexOf(element)];
}

function replaceMain(main, fresh) {
  const active = document.activeElement;
  const place = main.contains(active) ? placeOf(active, main) : null;
  const boxes = [...main.querySelectorAll("[tabindex='0']")].map((box) => (
    { place: placeOf(box, main), scrollLeft: box.scrollLeft, scrollTop: box.scrollTop }
  ));
  const find = (path) => path.reduce((one, index) => one && one.children[index], fresh);
  main.replaceWith(fresh);
  for (const { place: path, ...scrolled } of boxes) {
    Object.assign(find(path) || {}, scrolled);
  }
  const found = place && (document.getElementById(active.id) || find(place));
  if (found && found.tagName === active.tagName) {
    found.focus({ preventScroll: true });
  }
}

function say(text, action) {
  isStopped = action !== "Pause";
  words.textContent = text;
  button.textContent = action;
}

async function load() {
  const main = document.getElementById("main");
  if (isBusy(main)) {
    return;
  }
  let answer;
  let page;
  try {
    answer = await fetch(location.href, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    page = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    say("The server does not answer. This page is no longer updated.", "Try again");
    return;
  }
  if (answer.redirected || answer.status === 401 || answer.status === 403) {
    say("The login has ended. This page is no longer updated.", "Log in");
  } else if (!answer.ok) {
    say(`The update failed with status ${answer.status}.`, "Pause");
  } else if (!isBusy(main)) { // Someone may have begun to select or to type since.
    replaceMain(main, document.adoptNode(page.getElementById("main")));
    say(`Updated at ${new Date().toISOString().slice(11, 19)} UTC.`, "Pause");
  }
}

function press() {
  if (button.textContent === "Pause") {
    say("Updates are paused.", "Go on");
  } else if (button.textContent === "Go on") {
    say("Updates every 10 seconds.", "Pause");
  } else {
    location.reload();
  }
}

const footer = document.getElementById("refresh");
if (footer !== null && document.querySelector(`main :is(${NOTHING_TO_UPDATE})`) === null) {
  say("Updates every 10 seconds.", "Pause");
  button.type = "button";
  button.className = "quiet";
  button.addEventListener("click", press);
  footer.append(words, " ", button);
  footer.hidden = false;
  setInterval(load, REFRESH_MS);
}

// The list of calls holds still. The line above it says how many calls are new, and loads them.

async function countNew(line) {
  if (document.hidden) {
    return;
  }
  try {
    const answer = await fetch(line.dataset.still, { signal: AbortSignal.timeout(TIMEOUT_MS), cache: "no-store" });
    const found = answer.ok ? await answer.json() : { new_calls: 0 };
    if (found.new_calls > 0) {
      const number = found.new_calls.toLocaleString("en") + (found.is_exact ? "" : " or more");
      line.firstElementChild.textContent = `${number} new ${found.new_calls === 1 ? "call" : "calls"}`;
    }
  } catch {
    // The server is away. The next look may find it.
  }
}

for (const line of document.querySelectorAll("[data-still^='/']")) {
  setInterval(countNew, REFRESH_MS / 2, line);
}
