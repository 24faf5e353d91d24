"use strict";
// Loads the page again and again while the box is ticked, but not under the fingers of whoever types.
(() => {
  const box = document.getElementById("reload");
  setInterval(() => {
    if (box.checked && !document.activeElement?.closest("form")) location.reload();
  }, 1000 * Number(box.dataset.seconds));
})();
