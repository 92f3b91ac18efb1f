"use strict";
// Tapping a picture shows it as large as the window allows.
(() => {
  const dialog = document.querySelector("dialog");
  const shown = dialog.querySelector("img");
  for (const figure of document.querySelectorAll(".enlarge")) {
    figure.querySelector("button")?.addEventListener("click", () => {
      const picture = figure.querySelector("img");
      shown.src = picture.src;
      shown.alt = picture.alt;
      const caption = figure.querySelector("figcaption").textContent;
      dialog.querySelector("span").textContent = figure.dataset.when ? `${figure.dataset.when}: ${caption}` : caption;
      dialog.showModal();
    });
  }
  dialog.querySelector("button").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
})();
