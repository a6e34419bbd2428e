/** Lets the reader hide the links of a class by its entry in the legend. */
export function legend(view: HTMLElement): void {
  for (const entry of view.querySelectorAll<HTMLElement>(".legend [data-mark]")) {
    const mark = entry.dataset["mark"] ?? "";
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-pressed", String(!view.classList.contains(`off-${mark}`)));
    button.title = "Show or hide these links";
    button.append(...entry.childNodes);
    entry.append(button);
    button.addEventListener("click", () => {
      const off = view.classList.toggle(`off-${mark}`);
      button.setAttribute("aria-pressed", String(!off));
    });
  }
}
