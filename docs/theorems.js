// Opens the section of a theorem that an address names, and finds statements by their words.
"use strict";

function reveal() {
  const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!place?.closest("details")) return;
  for (let x = place.closest("details"); x; x = x.parentElement.closest("details")) x.open = true;
  place.scrollIntoView();
}

function search(words) {
  let count = 0;
  for (const theme of document.querySelectorAll("details.theme")) {
    let any = false;
    for (const statement of theme.querySelectorAll(".statement")) {
      const text = statement.textContent.toLowerCase();
      const found = words.every(word => text.includes(word));
      statement.hidden = !found;
      count += found;
      any ||= found;
    }
    theme.open = words.length > 0 && any;
  }
  document.getElementById("count").textContent = words.length ? `${count} found` : "";
}

addEventListener("hashchange", reveal);
const field = document.getElementById("find");
if (field) {
  field.closest("[hidden]").hidden = false;
  field.oninput = () => search(field.value.toLowerCase().split(/\s+/).filter(Boolean));
  reveal();
}
