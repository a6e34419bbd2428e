/** One small box beside the pointer, for details that the picture does not show. */
export class Tooltip {
  private readonly box = document.createElement("div");

  constructor() {
    this.box.className = "tip";
    this.box.hidden = true;
    this.box.setAttribute("role", "status");
    document.body.append(this.box);
  }

  /** Shows lines of text, the first one bold, at a point of the window. */
  show(lines: string[], x: number, y: number): void {
    const elements = lines.map((line, i) => {
      const element = document.createElement(i === 0 ? "strong" : "span");
      element.textContent = line;
      return element;
    });
    this.box.replaceChildren(...elements);
    this.box.hidden = false;
    const { width, height } = this.box.getBoundingClientRect();
    const left = x + 16 + width > innerWidth ? x - width - 12 : x + 16;
    const top = Math.min(y + 14, innerHeight - height - 8);
    this.box.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
  }

  hide(): void {
    this.box.hidden = true;
  }
}
