"use strict";
// a link to a folded part opens it: its anchor stands in the paragraph above
function unfold() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const part = target?.closest("p")?.nextElementSibling;
  if (part?.tagName !== "DETAILS") return;
  part.open = true;
  part.scrollIntoView();
}
window.addEventListener("hashchange", unfold);
unfold();
