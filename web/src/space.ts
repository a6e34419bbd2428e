import { classOf, loads, type Grid, type Report, type Side, type Unit, type View } from "./data";
import { describe } from "./describe";
import { toSegment, type Four } from "./places";
import { lit, type Selection } from "./selection";
import type { Tooltip } from "./tooltip";

/** Length of the stroke of a wraparound link, in steps of the grid. */
const STUB = 0.42;
/** Limit of links up to which idle ones are drawn too. */
const ALL_LINKS = 4000;
/** Widths by class from idle to the heaviest. */
const WIDTHS = [0.6, 1.1, 1.7, 2.4, 3.2, 4.2];
/** Links from which light strokes are half transparent. */
const CROWDED = 1500;
/** Marks of the legend by class, unknown first. */
const MARKS = ["u", "z", "l1", "l2", "l3", "l4", "l5"];
const REACH = 7;
/** Half the size of a symbol. */
const SIZE = 5.5;

type Shape = (context: CanvasRenderingContext2D, x: number, y: number) => void;

const polygon =
  (...corners: [number, number][]): Shape =>
  (context, x, y) => {
    for (const [i, [dx, dy]] of corners.entries()) {
      context[i === 0 ? "moveTo" : "lineTo"](x + dx * SIZE, y + dy * SIZE);
    }
    context.closePath();
  };

const SHAPES: Record<"lanes" | "errors" | "cross", Shape> = {
  lanes: polygon([0, -1], [1, 0], [0, 1], [-1, 0]),
  errors: polygon([-1, 1], [1, 1], [0, -1]),
  cross: (context, x, y) => {
    polygon([-1, -1], [1, 1])(context, x, y);
    polygon([1, -1], [-1, 1])(context, x, y);
  },
};

/** The camera; both sides of a comparison share one. */
class Camera {
  yaw = -0.6;
  pitch = 0.42;
  zoom = 1;
  private readonly listeners: (() => void)[] = [];

  onMove(listener: () => void): void {
    this.listeners.push(listener);
  }

  move(yaw: number, pitch: number, zoom: number): void {
    this.yaw += yaw;
    this.pitch = Math.min(1.5, Math.max(-1.5, this.pitch + pitch));
    this.zoom = Math.min(6, Math.max(0.5, this.zoom * zoom));
    for (const listener of this.listeners) listener();
  }
}

/** Ends of every link between routers in steps from the centre of the machine. */
function segments(report: Report, grid: Grid): Float32Array {
  const count = report.links.from.length;
  const out = new Float32Array(6 * count).fill(NaN);
  const middle = grid.dims.map((d) => (d - 1) / 2);
  for (let link = 0; link < count; link++) {
    const direction = grid.directions[link] ?? 255;
    const from = report.links.from[link] ?? -1;
    if (direction === 255 || from < 0) continue;
    const dim = direction >> 1;
    const sign = direction % 2 === 0 ? 1 : -1;
    for (let axis = 0; axis < 3; axis++) {
      const at = grid.coords[3 * from + axis] ?? 0;
      const last = (grid.dims[axis] ?? 1) - 1;
      const round = axis === dim && at === (sign > 0 ? last : 0);
      const step = axis === dim ? sign * (round ? STUB : 1) : 0;
      out[6 * link + axis] = at - (middle[axis] ?? 0);
      out[6 * link + 3 + axis] = at + step - (middle[axis] ?? 0);
    }
  }
  return out;
}

/** The 3D view of the machine, on a rotatable canvas. */
class Space {
  readonly figure = document.createElement("figure");
  private readonly canvas = document.createElement("canvas");
  private classes = new Int8Array();
  /** Links by class, unknown first. */
  private byClass: number[][] = [];
  /** Strokes of the last frame. */
  private readonly flat: Float32Array;
  /** The picture without highlights; redrawn when the camera, the size or the theme changes. */
  private readonly base = document.createElement("canvas");
  private stale = true;
  private light: number[] = [];
  private waiting = false;

  constructor(
    private readonly element: HTMLElement,
    private readonly report: Report,
    private readonly grid: Grid,
    private readonly view: View,
    private readonly side: Side,
    private readonly lines: Float32Array,
    private readonly camera: Camera,
    private readonly selection: Selection,
    private readonly tip: Tooltip,
  ) {
    this.classify();
    this.flat = new Float32Array((lines.length / 6) * 4).fill(NaN);
    const caption = document.createElement("figcaption");
    caption.textContent = view.after ? (side === "after" ? "After" : "Before") : "";
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute(
      "aria-label",
      `${view.name} on the ${grid.dims.join("×")} grid in space; arrow keys turn, plus and minus zoom`,
    );
    this.figure.append(caption, this.canvas);
    this.listen();
    const again = (): void => this.later(true);
    camera.onMove(again);
    new MutationObserver(again).observe(element, { attributeFilter: ["class"] });
    new ResizeObserver(again).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    selection.onChange((target) => {
      const light = lit(report, target, side).links;
      if (light.length + this.light.length === 0) return;
      this.light = light;
      this.later(false);
    });
  }

  /** Updates the loads. */
  refresh(): void {
    this.classify();
    this.later(true);
  }

  private classify(): void {
    const values = loads(this.view, this.side);
    this.classes = Int8Array.from(values, (v) => classOf(v, this.view.max, this.view.unit));
    this.byClass = MARKS.map(() => []);
    for (const [link, c] of this.classes.entries()) this.byClass[c + 1]?.push(link);
  }

  private listen(): void {
    const { canvas, camera } = this;
    let from: { x: number; y: number; moved: number } | null = null;
    canvas.addEventListener("pointerdown", (e) => {
      from = { x: e.clientX, y: e.clientY, moved: 0 };
      canvas.setPointerCapture(e.pointerId);
    });
    canvas.addEventListener("pointermove", (e) => {
      if (from) {
        const [dx, dy] = [e.clientX - from.x, e.clientY - from.y];
        from = { x: e.clientX, y: e.clientY, moved: from.moved + Math.hypot(dx, dy) };
        camera.move(dx * 0.008, dy * 0.008, 1);
        return;
      }
      const link = this.at(e.offsetX, e.offsetY);
      this.selection.point(link === null ? null : { kind: "link", link });
      if (link === null) this.tip.hide();
      else this.tip.show(describe(this.report, { kind: "link", link }, this.side), e.clientX, e.clientY);
    });
    canvas.addEventListener("pointerup", (e) => {
      if (from && from.moved < 4) {
        const link = this.at(e.offsetX, e.offsetY);
        this.selection.pin(link === null ? null : { kind: "link", link });
      }
      from = null;
    });
    canvas.addEventListener("pointerleave", () => {
      this.selection.point(null);
      this.tip.hide();
    });
    const keys: Record<string, [number, number, number]> = {
      ArrowLeft: [-0.1, 0, 1],
      ArrowRight: [0.1, 0, 1],
      ArrowUp: [0, -0.1, 1],
      ArrowDown: [0, 0.1, 1],
      "+": [0, 0, 1.15],
      "=": [0, 0, 1.15],
      "-": [0, 0, 1 / 1.15],
    };
    canvas.addEventListener("keydown", (e) => {
      const move = keys[e.key];
      if (!move) return;
      e.preventDefault();
      camera.move(...move);
    });
  }

  private at(x: number, y: number): number | null {
    let best: number | null = null;
    let distance = REACH;
    for (let link = 0; link < this.classes.length; link++) {
      const i = 4 * link;
      const four: Four = [
        this.flat[i] ?? NaN,
        this.flat[i + 1] ?? NaN,
        this.flat[i + 2] ?? NaN,
        this.flat[i + 3] ?? NaN,
      ];
      if (Number.isNaN(four[0])) continue;
      const d = toSegment(x, y, four);
      if (d < distance) [best, distance] = [link, d];
    }
    return best;
  }

  private later(stale: boolean): void {
    this.stale ||= stale;
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  private draw(): void {
    const { canvas, base } = this;
    const { clientWidth: width, clientHeight: height } = canvas;
    const context = canvas.getContext("2d");
    if (!context || width === 0) return;
    const ratio = devicePixelRatio || 1;
    if (this.stale) {
      for (const c of [canvas, base]) {
        c.width = Math.round(width * ratio);
        c.height = Math.round(height * ratio);
      }
      this.drawBase(width, height, ratio);
      this.stale = false;
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(base, 0, 0);
    if (this.light.length === 0) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.strokeStyle = colours(this.view.unit).job;
    context.lineWidth = 3.5;
    context.lineCap = "round";
    this.strokes(context, this.light);
  }

  private drawBase(width: number, height: number, ratio: number): void {
    const context = this.base.getContext("2d");
    if (!context) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.project(width, height);
    const colour = colours(this.view.unit);
    context.lineCap = "round";
    this.frame(context, width, height, colour.frame);
    const all = this.classes.length <= ALL_LINKS;
    for (let c = all ? -1 : 1; c <= 5; c++) {
      if (this.element.classList.contains(`off-${MARKS[c + 1]}`)) continue;
      // Many light strokes would hide the heavy ones behind them.
      context.globalAlpha = c < 4 && this.classes.length > CROWDED ? 0.5 : 1;
      context.strokeStyle = c < 0 ? colour.unknown : (colour.load[c] ?? colour.frame);
      context.lineWidth = c < 0 ? 1 : (WIDTHS[c] ?? 1);
      context.setLineDash(c < 0 ? [1, 3] : []);
      this.strokes(context, this.byClass[c + 1] ?? []);
    }
    context.globalAlpha = 1;
    this.signs(context, colour);
  }

  /** Errors as triangles, missing lanes as diamonds, links that are down as crosses, as in the drawings. */
  private signs(context: CanvasRenderingContext2D, colour: Colours): void {
    const kinds = ["lanes", "errors", "cross"] as const;
    context.setLineDash([]);
    for (const [i, kind] of kinds.entries()) {
      if (this.element.classList.contains(`off-${kind}`)) continue;
      context.beginPath();
      for (const link of this.report.signs[kind]) {
        const [x1, y1, x2, y2] = this.flat.subarray(4 * link, 4 * link + 4);
        const [x, y] = [((x1 ?? NaN) + (x2 ?? NaN)) / 2, ((y1 ?? NaN) + (y2 ?? NaN)) / 2];
        if (!Number.isNaN(x)) SHAPES[kind](context, x, y);
      }
      context.lineWidth = kind === "cross" ? 2.2 : 1;
      context.strokeStyle = context.fillStyle = colour.signs[i] ?? colour.frame;
      if (kind !== "cross") context.fill();
      context.stroke();
    }
  }

  private strokes(context: CanvasRenderingContext2D, links: number[]): void {
    context.beginPath();
    for (const link of links) {
      const i = 4 * link;
      const x = this.flat[i] ?? NaN;
      if (Number.isNaN(x)) continue;
      context.moveTo(x, this.flat[i + 1] ?? 0);
      context.lineTo(this.flat[i + 2] ?? 0, this.flat[i + 3] ?? 0);
    }
    context.stroke();
  }

  private scale(width: number, height: number): number {
    const across = Math.hypot(...this.grid.dims.map((d) => d - 1 + 2 * STUB));
    return (this.camera.zoom * 0.9 * Math.min(width, height * 1.2)) / Math.max(1, across);
  }

  /** Rotates a point and projects it onto the canvas. */
  private turn(x: number, y: number, z: number): [number, number] {
    const { yaw, pitch } = this.camera;
    const [cy, sy, cp, sp] = [Math.cos(yaw), Math.sin(yaw), Math.cos(pitch), Math.sin(pitch)];
    const depth = x * sy + y * cy;
    return [x * cy - y * sy, -z * cp - depth * sp];
  }

  private project(width: number, height: number): void {
    const scale = this.scale(width, height);
    const { lines, flat } = this;
    for (let link = 0; link < this.classes.length; link++) {
      const i = 6 * link;
      if (Number.isNaN(lines[i] ?? NaN)) continue;
      const [ax, ay] = this.turn(lines[i] ?? 0, lines[i + 1] ?? 0, lines[i + 2] ?? 0);
      const [bx, by] = this.turn(lines[i + 3] ?? 0, lines[i + 4] ?? 0, lines[i + 5] ?? 0);
      // Right-hand traffic, so that the two directions of a cable are distinguishable.
      const length = Math.hypot(bx - ax, by - ay) || 1;
      const aside = Math.min(2.4, 0.05 * scale);
      const [px, py] = [(-(by - ay) / length) * aside, ((bx - ax) / length) * aside];
      const j = 4 * link;
      flat[j] = width / 2 + ax * scale + px;
      flat[j + 1] = height / 2 + ay * scale + py;
      flat[j + 2] = width / 2 + bx * scale + px;
      flat[j + 3] = height / 2 + by * scale + py;
    }
  }

  /** The edges of the machine and the names of its axes. */
  private frame(context: CanvasRenderingContext2D, width: number, height: number, colour: string): void {
    const scale = this.scale(width, height);
    const [hx, hy, hz] = this.grid.dims.map((d) => (d - 1) / 2) as [number, number, number];
    const at = (x: number, y: number, z: number): [number, number] => {
      const [px, py] = this.turn(x * hx, y * hy, z * hz);
      return [width / 2 + px * scale, height / 2 + py * scale];
    };
    context.setLineDash([]);
    context.strokeStyle = colour;
    context.lineWidth = 1;
    context.beginPath();
    for (const [a, b] of [[-1, -1], [-1, 1], [1, -1], [1, 1]] as const) {
      context.moveTo(...at(-1, a, b));
      context.lineTo(...at(1, a, b));
      context.moveTo(...at(a, -1, b));
      context.lineTo(...at(a, 1, b));
      context.moveTo(...at(a, b, -1));
      context.lineTo(...at(a, b, 1));
    }
    context.stroke();
    context.fillStyle = getComputedStyle(this.canvas).color;
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "center";
    context.fillText(`X ${2 * hx}`, ...at(1.12, -1.08, -1.08));
    context.fillText(`Y ${2 * hy}`, ...at(-1.08, 1.12, -1.08));
    context.fillText(`Z ${2 * hz}`, ...at(-1.08, -1.08, 1.12));
  }
}

interface Colours {
  load: string[];
  unknown: string;
  frame: string;
  job: string;
  signs: string[];
}

/** The colours of the drawings in the current theme; shares show severity, other units amounts. */
function colours(unit: Unit): Colours {
  const probe = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  probe.setAttribute("class", unit === "ratio" ? "hb probe" : "hb probe amount");
  const names = [...MARKS.slice(1), "u"];
  probe.innerHTML =
    `<g class="s">${names.map((n) => `<path class="${n}"/>`).join("")}</g>` +
    `<path class="frame"/><path class="job"/>` +
    `<path class="lanes"/><path class="errors"/><path class="cross"/>`;
  document.body.append(probe);
  const styles = [...probe.querySelectorAll("path")].map((p) => getComputedStyle(p));
  const found = styles.map((s) => s.stroke);
  const [lanes = "", errors = ""] = styles.slice(9).map((s) => s.fill);
  const signs = [lanes, errors, found[11] ?? ""];
  probe.remove();
  const [unknown = "", frame = "", job = ""] = found.slice(6);
  return { load: found.slice(0, 6), unknown, frame, job, signs };
}

/** Adds the 3D view below the drawings of a view; returns a function that updates the loads. */
export function space(
  view: HTMLElement,
  report: Report,
  data: View,
  selection: Selection,
  tip: Tooltip,
): () => void {
  const { grid } = report;
  if (!grid) return () => {};
  const camera = new Camera();
  const lines = segments(report, grid);
  const sides: Side[] = data.after ? ["before", "after"] : ["before"];
  const box = document.createElement("div");
  box.className = `space ${sides.length > 1 ? "pair" : "stack"}`;
  const spaces = sides.map(
    (side) => new Space(view, report, grid, data, side, lines, camera, selection, tip),
  );
  box.append(...spaces.map((s) => s.figure));
  const title = document.createElement("h3");
  title.textContent = "In space";
  const note = document.createElement("p");
  note.className = "note";
  note.textContent = "Drag, or use the arrow keys, to turn; + and − zoom. Strokes that end in the open go round.";
  view.append(title, box, note);
  return () => spaces.forEach((s) => s.refresh());
}
