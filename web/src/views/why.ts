// SPDX-License-Identifier: Apache-2.0
// Why a tensor is alive: who made it, who needs it last, and how long nobody did before it was freed.

import type { Session } from "../session";
import { fill, h } from "../ui/dom";
import { amount, counted, mib, placeText, shapeText, short, thousands } from "../ui/format";
import { operationLink } from "./view";

/** Operations between the last use of a tensor and its end; null for a weight, which is meant to stay. */
export function unusedFor(session: Session, row: number): number | null {
  const { lives } = session.profile;
  if (lives.kind[row] === 0) return null;
  return Math.max(0, lives.last[row]! - (lives.lastUse[row]! < 0 ? lives.first[row]! : lives.lastUse[row]!));
}

export const producerText = (session: Session, row: number): string => {
  const made = session.profile.lives.producer[row]!;
  return made < 0 ? "resident before the run" : session.timeline.label(made);
};

/** A name for a drawing: a number of the compiler's says nothing without the place that made it. */
export function tensorLabel(session: Session, row: number): string {
  const name = session.profile.nameOf(row);
  const made = session.profile.lives.producer[row]!;
  if (!name.startsWith("%") || made < 0) return name;
  const place = placeText(session.timeline.location(made)).split("|").at(-1)!;
  return `${place || session.timeline.name(made).replace(/^ttnn\./, "")} ${name}`;
}

/** What a drawing says of the tensor under the pointer. */
export function whyLines(session: Session, row: number): string[] {
  const { profile } = session;
  const { lives } = profile;
  const type = profile.typeOf(row);
  const made = lives.producer[row]!;
  const unused = unusedFor(session, row);
  const place = made < 0 ? "" : placeText(session.timeline.location(made));
  return [
    short(profile.nameOf(row), 90),
    `${shapeText(type[0], type[1])} · ${mib(lives.bytes[row]!)} MiB/bank`,
    made < 0
      ? "resident before the run"
      : short(`made by ${producerText(session, row)}${place && ` at ${place}`}`, 150),
    lives.lastUse[row]! < 0
      ? "no operation is known to read it"
      : short(`last used by ${session.timeline.label(lives.lastUse[row]!)}`, 110),
    `alive until #${thousands(lives.last[row]!)}${unused ? `, ${counted(unused, "operation")} longer than needed` : ""}`,
  ];
}

/** The tensor that was chosen, in full. */
export function whyCard(session: Session): HTMLElement {
  const card = h("div", { class: "why", "data-role": "why", "aria-live": "polite" });
  const show = () => {
    const row = session.tensor;
    const { profile, timeline } = session;
    const { lives } = profile;
    card.classList.toggle("chosen", row >= 0);
    if (row < 0 || lives.timeline[row] !== session.timelineNumber)
      return fill(
        card,
        h("p", { class: "muted" }, "Choose a tensor, here or in another drawing, to see why it is alive."),
      );
    const type = profile.typeOf(row);
    const unused = unusedFor(session, row);
    const operation = (index: number) =>
      h("a", { href: operationLink(index) ?? "#" }, short(timeline.label(index), 90));
    const made = lives.producer[row]!;
    const padding = Math.max(0, type[6] - type[5]);
    const facts: [string, (Node | string)[]][] = [
      ["Size", [`${mib(lives.bytes[row]!)} MiB/bank${padding ? `, ${amount(padding)} of padding on the chip` : ""}`]],
      ["Type", [[shapeText(type[0], type[1]), type[2], type[3], type[4]].filter(Boolean).join(", ")]],
      ["Made by", made < 0 ? ["resident before the run"] : [operation(made), ` ${placeText(timeline.location(made))}`]],
      ["Last used by", lives.lastUse[row]! < 0 ? ["no known operation"] : [operation(lives.lastUse[row]!)]],
      ["Alive", [`#${thousands(lives.first[row]!)} to #${thousands(lives.last[row]!)}`]],
      [
        "Unused before it is freed",
        [
          unused === null
            ? "a weight: it stays allocated"
            : unused
              ? counted(unused, "operation")
              : "freed right after its last use",
        ],
      ],
    ];
    if (lives.address[row]! >= 0) facts.push(["Address", [`0x${lives.address[row]!.toString(16)}`]]);
    fill(
      card,
      h("h3", {}, `Why is ${short(profile.nameOf(row), 120)} alive?`),
      h(
        "dl",
        { class: "figures" },
        facts.map(([label, told]) => h("div", {}, h("dt", {}, label), h("dd", {}, told))),
      ),
      h(
        "div",
        { class: "choices" },
        h(
          "button",
          {
            type: "button",
            class: "choice",
            click: () => session.zoom(Math.max(timeline.first, lives.first[row]! - 2), lives.last[row]! + 2),
          },
          "Zoom to its lifetime",
        ),
        h("a", { class: "choice", href: `#op=${session.operation}&view=map` }, "On the map"),
        h("button", { type: "button", class: "choice", click: () => session.chooseTensor(-1) }, "Take the mark off"),
      ),
    );
  };
  session.on(["tensor", "memory"], show);
  show();
  return card;
}
