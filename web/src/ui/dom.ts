// SPDX-License-Identifier: Apache-2.0
// Elements from values. A text is always a text node, so nothing that a log holds becomes markup.

import { clean } from "./format";

type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: never) => void)>;

export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: (Child | Child[])[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value as EventListener);
    else element.setAttribute(name, value === true ? "" : typeof value === "string" ? clean(value) : String(value));
  }
  append(element, children);
  return element;
}

export function append(parent: Element, children: (Child | Child[])[]): void {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : document.createTextNode(clean(String(child))));
  }
}

export function fill(parent: Element, ...children: (Child | Child[])[]): void {
  parent.replaceChildren();
  append(parent, children);
}

const colors = new Map<string, string>();

/** A colour of the style sheet, so that drawings follow light and dark; asked once until the theme changes. */
export function color(name: string): string {
  let value = colors.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || "#888";
    colors.set(name, value);
  }
  return value;
}

export const forgetColors = (): void => colors.clear();

let ticket = 0;
export const unique = (prefix: string): string => `${prefix}-${(ticket += 1)}`;

/** Calls are put together into one per frame: a cursor that is dragged asks more often than a screen shows. */
export function perFrame(work: () => void): () => void {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      work();
    });
  };
}

const REST = 250;

/** Work on something that may be out of sight: done at once where it is seen, else when it comes into sight, is printed,
 * or the cursor rests. A cursor moves often, and must not wait for what nobody looks at. */
export function whenSeen(element: Element, work: () => void): () => void {
  let [inSight, isStale, waiting] = [false, false, 0];
  const run = () => {
    isStale = false;
    clearTimeout(waiting);
    work();
  };
  const late = () => {
    if (isStale) run();
  };
  new IntersectionObserver(
    (seen) => {
      inSight = seen.at(-1)!.isIntersecting;
      if (inSight) late();
    },
    { rootMargin: "200px" },
  ).observe(element);
  window.addEventListener("beforeprint", late);
  return () => {
    if (inSight) return run();
    isStale = true;
    clearTimeout(waiting);
    waiting = window.setTimeout(late, REST);
  };
}
