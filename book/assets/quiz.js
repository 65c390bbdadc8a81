// Quizzes: choose, check, read why. What was answered rightly is remembered by progress.js.
document.addEventListener("DOMContentLoaded", () => {
  for (const form of document.querySelectorAll("form[data-quiz]")) {
    const result = form.querySelector(".quiz-result");
    const options = [...form.querySelectorAll(".quiz-option")];
    form.addEventListener("change", () => result.replaceChildren());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const chosen = options.find((option) => option.querySelector("input").checked);
      options.forEach((option) => option.classList.remove("is-right", "is-wrong"));
      if (!chosen) { result.textContent = "Choose an answer first."; return; }
      const right = chosen.dataset.right === "true";
      chosen.classList.add(right ? "is-right" : "is-wrong");
      const verdict = document.createElement("strong");
      verdict.textContent = right ? "Right." : "Not this one.";
      const why = document.createElement("div");
      why.append(...chosen.querySelector(".quiz-feedback").cloneNode(true).childNodes);
      result.replaceChildren(verdict, why);
      if (right) document.dispatchEvent(new CustomEvent("quiz-done", { detail: form.id }));
    });
  }
});
