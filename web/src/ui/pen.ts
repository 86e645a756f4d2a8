// SPDX-License-Identifier: Apache-2.0
// One way to draw, two surfaces: a canvas on the screen, an SVG in an exported file.

import { clean } from "./format";

export interface Pen {
  readonly width: number;
  readonly height: number;
  rect(x: number, y: number, w: number, h: number, fill: string, opacity?: number): void;
  frame(x: number, y: number, w: number, h: number, stroke: string): void;
  line(points: readonly number[], stroke: string, width?: number, dash?: readonly number[]): void;
  area(points: readonly number[], fill: string, opacity?: number): void;
  text(x: number, y: number, text: string, fill: string, look?: TextLook): void;
}

export interface TextLook {
  size?: number;
  align?: "left" | "right" | "center";
  most?: number;
  bold?: boolean;
  /** A name is told by its end: of `model.layers.3.mlp.weight` the last words. */
  isName?: boolean;
}

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const ruler = document.createElement("canvas").getContext("2d");

const fontOf = ({ bold, size = 11 }: TextLook): string => `${bold ? "600 " : ""}${size}px ${FONT}`;

/** How wide a text is drawn. */
export function widthOf(text: string, look: TextLook = {}): number {
  if (!ruler) return text.length * (look.size ?? 11) * 0.56;
  ruler.font = fontOf(look);
  return ruler.measureText(text).width;
}

/** As much of a text as there is room for. */
function fitted(text: string, look: TextLook): string {
  const { most, isName } = look;
  const tidy = clean(text.length > 400 ? `${text.slice(0, 200)}${text.slice(-200)}` : text);
  if (most === undefined || widthOf(tidy, look) <= most) return tidy;
  const cut = (letters: number) => (isName ? `…${tidy.slice(tidy.length - letters)}` : `${tidy.slice(0, letters)}…`);
  let [fits, over] = [0, tidy.length];
  while (over - fits > 1) {
    const middle = (fits + over) >> 1;
    if (widthOf(cut(middle), look) <= most) fits = middle;
    else over = middle;
  }
  return fits < 2 ? "" : cut(fits);
}

export class CanvasPen implements Pen {
  private readonly context: CanvasRenderingContext2D;
  readonly width: number;
  readonly height: number;

  constructor(canvas: HTMLCanvasElement, width: number, height: number) {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    this.width = width;
    this.height = height;
    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = Math.max(1, Math.round(height * ratio));
    canvas.style.height = `${height}px`;
    this.context = canvas.getContext("2d")!;
    this.context.scale(ratio, ratio);
  }
  rect(x: number, y: number, w: number, h: number, fill: string, opacity = 1): void {
    this.context.globalAlpha = opacity;
    this.context.fillStyle = fill;
    this.context.fillRect(x, y, w, h);
    this.context.globalAlpha = 1;
  }
  frame(x: number, y: number, w: number, h: number, stroke: string): void {
    this.context.strokeStyle = stroke;
    this.context.lineWidth = 1;
    this.context.strokeRect(x + 0.5, y + 0.5, Math.max(0, w - 1), Math.max(0, h - 1));
  }
  private trace(points: readonly number[]): void {
    this.context.beginPath();
    for (let at = 0; at < points.length; at += 2) {
      if (at === 0) this.context.moveTo(points[at]!, points[at + 1]!);
      else this.context.lineTo(points[at]!, points[at + 1]!);
    }
  }
  line(points: readonly number[], stroke: string, width = 1, dash: readonly number[] = []): void {
    this.trace(points);
    this.context.setLineDash([...dash]);
    this.context.strokeStyle = stroke;
    this.context.lineWidth = width;
    this.context.stroke();
    this.context.setLineDash([]);
  }
  area(points: readonly number[], fill: string, opacity = 1): void {
    this.trace(points);
    this.context.closePath();
    this.context.globalAlpha = opacity;
    this.context.fillStyle = fill;
    this.context.fill();
    this.context.globalAlpha = 1;
  }
  /** Another canvas that was drawn to the same size. */
  image(canvas: HTMLCanvasElement): void {
    this.context.drawImage(canvas, 0, 0, this.width, this.height);
  }
  text(x: number, y: number, text: string, fill: string, look: TextLook = {}): void {
    this.context.font = fontOf(look);
    this.context.textAlign = look.align ?? "left";
    this.context.textBaseline = "middle";
    this.context.fillStyle = fill;
    this.context.fillText(fitted(text, look), x, y);
  }
}

/** The namespace of SVG, asked of the browser: a page that needs no address holds none. */
const SVG = new DOMParser().parseFromString("<svg></svg>", "text/html").querySelector("svg")!.namespaceURI;

export class SvgPen implements Pen {
  readonly root: SVGSVGElement;
  constructor(
    readonly width: number,
    readonly height: number,
    title: string,
    background: string,
  ) {
    this.root = document.createElementNS(SVG, "svg") as SVGSVGElement;
    this.set(this.root, { viewBox: `0 0 ${width} ${height}`, width, height, "font-family": FONT });
    const name = document.createElementNS(SVG, "title");
    name.textContent = clean(title);
    this.root.append(name);
    this.rect(0, 0, width, height, background);
  }
  private set(element: SVGElement, attributes: Record<string, string | number | undefined>): void {
    for (const [key, value] of Object.entries(attributes)) {
      if (value !== undefined) element.setAttribute(key, typeof value === "number" ? String(+value.toFixed(2)) : value);
    }
  }
  private add(tag: string, attributes: Record<string, string | number | undefined>): SVGElement {
    const element = document.createElementNS(SVG, tag) as SVGElement;
    this.set(element, attributes);
    this.root.append(element);
    return element;
  }
  rect(x: number, y: number, width: number, height: number, fill: string, opacity?: number): void {
    this.add("rect", { x, y, width, height, fill, opacity });
  }
  frame(x: number, y: number, width: number, height: number, stroke: string): void {
    this.add("rect", { x, y, width, height, fill: "none", stroke });
  }
  private path(points: readonly number[]): string {
    let text = "";
    for (let at = 0; at < points.length; at += 2)
      text += `${at ? "L" : "M"}${+points[at]!.toFixed(1)} ${+points[at + 1]!.toFixed(1)}`;
    return text;
  }
  line(points: readonly number[], stroke: string, width = 1, dash: readonly number[] = []): void {
    const dashes = dash.length ? dash.join(" ") : undefined;
    this.add("path", { d: this.path(points), fill: "none", stroke, "stroke-width": width, "stroke-dasharray": dashes });
  }
  area(points: readonly number[], fill: string, opacity?: number): void {
    this.add("path", { d: `${this.path(points)}Z`, fill, opacity });
  }
  text(x: number, y: number, text: string, fill: string, look: TextLook = {}): void {
    const anchor = { left: "start", right: "end", center: "middle" }[look.align ?? "left"];
    const size = look.size ?? 11;
    const weight = look.bold ? "600" : undefined;
    const attributes = { x, y: y + size * 0.36, fill, "font-size": size, "text-anchor": anchor, "font-weight": weight };
    this.add("text", attributes).textContent = fitted(text, look);
  }
}
