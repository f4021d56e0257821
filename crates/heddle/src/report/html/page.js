const tip = document.getElementById("tip");
addEventListener("pointermove", (event) => {
  const target = event.target.closest("[data-tip]");
  tip.style.display = target ? "block" : "none";
  if (!target) return;
  tip.textContent = target.dataset.tip;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 4)) + "px";
  tip.style.top = (event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 18) + "px";
});
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((fold) => fold.open = true));
