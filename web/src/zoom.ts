/** Largest magnification. */
const MOST = 40;
/** Magnification of a key, a button, and of 100 units of the wheel. */
const STEP = 1.5;
/** Share of the visible part by which an arrow key moves it. */
const STRIDE = 0.1;
/** Distance in pixels from which a pressed pointer drags. */
const DRAG = 4;
/** Milliseconds without a movement after which the strokes are painted anew at their size. */
const SETTLED = 300;

interface Point {
  x: number;
  y: number;
}

/** The visible part of the pictures; all pictures of a page show the same one. */
export class Zoom {
  /** Magnification, 1 for the whole picture. */
  factor = 1;
  /** Upper left corner of the visible part, in shares of the picture. */
  private corner: Point = { x: 0, y: 0 };
  private readonly planes: HTMLElement[] = [];
  private readonly outs: HTMLButtonElement[] = [];
  private timer = 0;

  /** Makes a figure's drawing, with what will lie on it, movable within its frame. */
  add(figure: HTMLElement): void {
    const drawing = figure.querySelector<SVGSVGElement>("svg.hb");
    const window = drawing?.parentElement;
    if (!drawing || !window) return;
    const plane = document.createElement("div");
    plane.className = "plane";
    window.append(plane);
    plane.append(drawing);
    window.classList.add("window");
    window.tabIndex = 0;
    window.setAttribute("role", "group");
    window.setAttribute("aria-label", "Picture: plus and minus zoom, arrow keys move, 0 shows all");
    this.planes.push(plane);
    figure.querySelector("figcaption")?.append(this.buttons());
    this.keys(window);
    this.wheel(window);
    this.pointers(window);
  }

  private buttons(): HTMLElement {
    const box = document.createElement("span");
    box.className = "zoom";
    const kinds: [string, string, () => void][] = [
      ["+", "Zoom in", () => this.magnify(STEP)],
      ["−", "Zoom out", () => this.magnify(1 / STEP)],
      ["All", "Show all of the picture", () => this.magnify(0)],
    ];
    for (const [text, label, act] of kinds) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = text;
      button.setAttribute("aria-label", label);
      button.title = label;
      button.addEventListener("click", act);
      if (text !== "+") this.outs.push(button);
      box.append(button);
    }
    this.enable();
    return box;
  }

  private keys(window: HTMLElement): void {
    const stride = (x: number, y: number) => () => this.move(x * STRIDE, y * STRIDE);
    const keys: Record<string, () => void> = {
      "+": () => this.magnify(STEP),
      "=": () => this.magnify(STEP),
      "-": () => this.magnify(1 / STEP),
      "0": () => this.magnify(0),
      ArrowLeft: stride(-1, 0),
      ArrowRight: stride(1, 0),
      ArrowUp: stride(0, -1),
      ArrowDown: stride(0, 1),
    };
    window.addEventListener("keydown", (event) => {
      const act = keys[event.key];
      const other = event.ctrlKey || event.metaKey || event.altKey;
      // The arrow keys scroll the page while all of the picture is visible.
      if (!act || other || (this.factor === 1 && event.key.startsWith("Arrow"))) return;
      event.preventDefault();
      act();
    });
  }

  private wheel(window: HTMLElement): void {
    // The wheel alone scrolls the page.
    const turned = (event: WheelEvent): void => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.magnify(STEP ** (-event.deltaY / 100), within(window, event));
    };
    window.addEventListener("wheel", turned, { passive: false });
    window.addEventListener("dblclick", (event) => {
      this.magnify(event.shiftKey ? 1 / STEP ** 2 : STEP ** 2, within(window, event));
    });
  }

  /** One pressed pointer drags, two pinch. */
  private pointers(window: HTMLElement): void {
    const pressed = new Map<number, Point>();
    let moved = 0;
    window.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      moved = 0;
      pressed.set(event.pointerId, within(window, event));
    });
    window.addEventListener("pointermove", (event) => {
      const was = pressed.get(event.pointerId);
      if (!was) return;
      const now = within(window, event);
      const other = [...pressed].find(([id]) => id !== event.pointerId)?.[1];
      const box = window.getBoundingClientRect();
      moved += Math.hypot((now.x - was.x) * box.width, (now.y - was.y) * box.height);
      pressed.set(event.pointerId, now);
      if (other) {
        const apart = (p: Point): number => Math.hypot((p.x - other.x) * box.width, (p.y - other.y) * box.height);
        this.magnify(apart(now) / Math.max(1, apart(was)), other);
      } else if (moved > DRAG && this.factor > 1) {
        window.setPointerCapture(event.pointerId);
        this.move(was.x - now.x, was.y - now.y);
      }
    });
    for (const end of ["pointerup", "pointercancel"] as const) {
      window.addEventListener(end, (event) => pressed.delete(event.pointerId));
    }
    // The end of a movement is not a click on a link.
    const click = (event: MouseEvent): void => {
      if (moved > DRAG && this.factor > 1) event.stopPropagation();
      moved = 0;
    };
    window.addEventListener("click", click, { capture: true });
  }

  /** Magnifies about a point in shares of the frame; a factor of 0 shows all. */
  private magnify(by: number, about: Point = { x: 0.5, y: 0.5 }): void {
    const before = this.factor;
    this.factor = Math.min(MOST, Math.max(1, before * by));
    const still = 1 / before - 1 / this.factor;
    this.corner = { x: this.corner.x + about.x * still, y: this.corner.y + about.y * still };
    this.show();
  }

  /** Moves the visible part by shares of the frame. */
  private move(dx: number, dy: number): void {
    this.corner = { x: this.corner.x + dx / this.factor, y: this.corner.y + dy / this.factor };
    this.show();
  }

  private show(): void {
    const inside = (v: number): number => Math.min(1 - 1 / this.factor, Math.max(0, v));
    this.corner = { x: inside(this.corner.x), y: inside(this.corner.y) };
    const [x, y] = [-100 * this.factor * this.corner.x, -100 * this.factor * this.corner.y];
    const transform = this.factor === 1 ? "" : `translate(${x}%, ${y}%) scale(${this.factor})`;
    for (const plane of this.planes) {
      plane.style.transform = transform;
      plane.classList.add("moving");
      plane.parentElement?.classList.toggle("zoomed", this.factor > 1);
    }
    this.enable();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      for (const plane of this.planes) plane.classList.remove("moving");
    }, SETTLED);
  }

  private enable(): void {
    for (const button of this.outs) button.disabled = this.factor === 1;
  }
}

/** A pointer's position in shares of a frame. */
function within(window: HTMLElement, event: MouseEvent): Point {
  const box = window.getBoundingClientRect();
  return { x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height };
}
