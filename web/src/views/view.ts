// SPDX-License-Identifier: Apache-2.0
// What a view of the page is: a section with a question for its title.

import type { Session } from "../session";
import { h, unique } from "../ui/dom";

export interface View {
  name: string;
  title: string;
  element: HTMLElement;
  /** Called when the width of the page or its colours changed. */
  redraw?: () => void;
}

export function section(
  name: string,
  title: string,
  question: string,
  ...children: (Node | null | false)[]
): HTMLElement {
  const id = unique("title");
  return h(
    "section",
    { class: "view", "data-view": name, "aria-labelledby": id, tabindex: "-1" },
    h("header", { class: "view-head" }, h("h2", { id }, title), h("p", { class: "question" }, question)),
    ...children,
  );
}

/** A button of a row of choices. */
export function choice(
  label: string,
  chosen: boolean,
  choose: () => void,
  extra: Record<string, string> = {},
): HTMLButtonElement {
  return h(
    "button",
    { type: "button", class: "choice", "aria-pressed": String(chosen), click: choose, ...extra },
    label,
  );
}

/** To the operation that failed, in the memory that it failed for. */
export const failureButton = (session: Session): HTMLButtonElement =>
  h("button", { type: "button", class: "choice", click: () => session.toFailure() }, "To the failure");

export const operationLink = (operation: number | null | undefined): string | null =>
  operation === null || operation === undefined || operation < 0 ? null : `#op=${operation}&view=operations`;
