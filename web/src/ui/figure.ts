// SPDX-License-Identifier: Apache-2.0
// A drawing with its name, what it says in words, and its exports; drawn again when the page changes its width.

import { color, h, perFrame } from "./dom";
import { clean } from "./format";
import { CanvasPen, type Pen, SvgPen } from "./pen";
import { download, fileName } from "./save";
import type { Box } from "./treemap";

export interface FigureOptions {
  label: string;
  file: string;
  height: number | ((width: number) => number);
  draw: (pen: Pen) => void;
  /** What the colours stand for, below the drawing. */
  legend?: HTMLElement;
  /** What a reader without eyes for it is told. */
  describe?: () => string;
}

const SVG_WIDTH = 1100;
const printed = matchMedia("print");

export class Figure {
  readonly canvas: HTMLCanvasElement;
  readonly element: HTMLElement;
  readonly redraw: () => void;
  private width = 0;
  private inSight = false;
  private isStale = true;

  constructor(private readonly options: FigureOptions) {
    this.canvas = h("canvas", { role: "img", "aria-label": options.label });
    this.element = h(
      "figure",
      { class: "figure" },
      this.canvas,
      h(
        "div",
        { class: "chart-foot" },
        options.legend ?? null,
        exportTools(options.file, options.label, this.canvas, () => this.svg()),
      ),
    );
    this.redraw = perFrame(() => this.draw());
    new ResizeObserver((seen) => {
      const width = seen[0]!.contentRect.width;
      if (Math.abs(width - this.width) <= 1) return;
      this.width = width;
      this.redraw();
    }).observe(this.element);
    const sight = new IntersectionObserver(
      (seen) => {
        this.inSight = seen.at(-1)!.isIntersecting;
        if (this.inSight && this.isStale) this.paint();
      },
      { rootMargin: "300px" },
    );
    sight.observe(this.element);
    window.addEventListener("beforeprint", () => this.isStale && this.paint());
  }

  /** Say what there is to see at once; draw it when it comes into sight. */
  draw(): void {
    const told = this.options.describe?.();
    if (told) this.canvas.setAttribute("aria-label", clean(`${this.options.label}: ${told}`));
    this.isStale = true;
    // The height is kept even unseen, so that nothing jumps when it is drawn.
    if (this.width >= 10) this.canvas.style.height = `${this.height(this.width)}px`;
    if (this.inSight || printed.matches) this.paint();
  }

  private paint(): void {
    if (this.width < 10) return;
    this.isStale = false;
    this.options.draw(new CanvasPen(this.canvas, this.width, this.height(this.width)));
  }

  private height(width: number): number {
    return typeof this.options.height === "number" ? this.options.height : this.options.height(width);
  }

  svg(): SVGSVGElement {
    const pen = new SvgPen(SVG_WIDTH, this.height(SVG_WIDTH), this.options.label, color("panel"));
    this.options.draw(pen);
    return pen.root;
  }

  /** Where on the drawing a pointer is. */
  place(event: MouseEvent): [number, number] {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }
}

export function exportTools(
  file: string,
  label: string,
  canvas: HTMLCanvasElement,
  svg: () => SVGSVGElement,
): HTMLElement {
  const name = fileName(file);
  const saveSvg = () => {
    const text = new XMLSerializer().serializeToString(svg());
    download(`${name}.svg`, text, "image/svg+xml");
  };
  const savePng = () => canvas.toBlob((blob) => blob && download(`${name}.png`, blob));
  return h(
    "div",
    { class: "figure-tools" },
    h("button", { type: "button", class: "quiet", "aria-label": `Save ${label} as SVG`, click: saveSvg }, "SVG"),
    h("button", { type: "button", class: "quiet", "aria-label": `Save ${label} as PNG`, click: savePng }, "PNG"),
  );
}

/** The part of a drawing that stays while a cursor moves over it: painted once, and again when its key is another. */
export class Kept {
  private readonly canvas = document.createElement("canvas");
  private key = "";
  draw(pen: Pen, key: string, paint: (pen: Pen) => void): void {
    if (!(pen instanceof CanvasPen)) return paint(pen);
    const whole = `${key} ${pen.width} ${pen.height} ${color("panel")}`;
    if (whole !== this.key) {
      paint(new CanvasPen(this.canvas, pen.width, pen.height));
      this.key = whole;
    }
    pen.image(this.canvas);
  }
}

/** Around what was chosen. */
export const outline = (pen: Pen, { x, y, w, h: high }: Box): void =>
  pen.line([x, y, x + w, y, x + w, y + high, x, y + high, x, y - 1], color("text"), 2);

/** A box that follows the pointer and says what is under it. */
export class Tip {
  readonly element = h("div", { class: "tip", hidden: true, "aria-hidden": "true" });
  show(event: MouseEvent, lines: string[]): void {
    this.element.replaceChildren(...lines.map((line, at) => h("div", at ? {} : { class: "strong" }, line)));
    this.element.hidden = false;
    const parent = this.element.offsetParent?.getBoundingClientRect();
    if (!parent) return;
    const left = event.clientX - parent.left + 14;
    const room = parent.width - this.element.offsetWidth - 4;
    this.element.style.left = `${Math.max(0, Math.min(left, room))}px`;
    this.element.style.top = `${Math.max(0, event.clientY - parent.top + 14)}px`;
  }
  hide(): void {
    this.element.hidden = true;
  }
}

/** A chart makes its canvas anew; an export asks for the one that is there then. */
export function canvasIn(host: HTMLElement): HTMLCanvasElement {
  const stand = document.createElement("canvas");
  stand.toBlob = (...given: Parameters<HTMLCanvasElement["toBlob"]>) => host.querySelector("canvas")?.toBlob(...given);
  return stand;
}
