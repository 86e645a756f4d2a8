// SPDX-License-Identifier: Apache-2.0
// What `ttmem fit` answered: what memory goes to, how many users of how long a context, what would change it.

import type { FitAnswer } from "../data/document";
import type { Session } from "../session";
import { color, h } from "../ui/dom";
import { Figure } from "../ui/figure";
import { amount, counted, mib, percent, thousands } from "../ui/format";
import type { Pen } from "../ui/pen";
import { Table } from "../ui/table";
import { section, type View } from "./view";

type Capacity = NonNullable<FitAnswer["capacity"]>;

export function fit(session: Session): View {
  const { header } = session.profile;
  const answer = header.document.facts.fit!;
  // Where not even one user fits there is nothing to draw: the heading says so.
  const fitsAny = answer.capacity?.points.some((point) => point.context > 0) ?? false;
  const plot = answer.capacity && fitsAny ? plotOf(answer.capacity, header.title) : null;
  const bound = answer.error_bound_percent;
  const told = [
    `${answer.fits ? "It fits" : "It does not fit"} ${answer.board}`,
    answer.chips > 1 ? ` (${counted(answer.chips, "chip")}; figures are per chip)` : "",
    bound === null ? "." : `; measured ports matched this DRAM peak to within ${bound} %.`,
  ].join("");
  const element = section(
    "fit",
    "Does it fit?",
    told,
    h("h3", {}, "What uses the DRAM of a chip"),
    parts(answer, header.title),
    answer.capacity ? h("h3", { class: "sub" }, said(answer.capacity)) : null,
    plot && plot.element,
    answer.capacity && plot ? capacityTable(answer.capacity, header.title) : null,
    answer.advice.length > 0 && h("h3", { class: "sub" }, "What would change it"),
    answer.advice.length > 0 && advice(answer, header.title),
    answer.assumed.length > 0 && h("h3", { class: "sub" }, "What was assumed"),
    h(
      "ul",
      { class: "remarks" },
      answer.assumed.map((text) => h("li", {}, text)),
    ),
  );
  return plot ? { name: "fit", title: "Fit", element, redraw: plot.redraw } : { name: "fit", title: "Fit", element };
}

function parts(answer: FitAnswer, file: string): HTMLElement {
  const rows: [string, number][] = [
    ["weights", answer.weights_bytes],
    ["KV cache", answer.kv_cache_bytes],
    ["activations", answer.activations_peak_bytes],
    ["tables", answer.constants_bytes],
    ["reserve", answer.reserve_bytes],
  ];
  const held = rows.filter(([, bytes]) => bytes > 0);
  const all = Math.max(
    1,
    held.reduce((sum, [, bytes]) => sum + bytes, 0),
  );
  return new Table<[string, number]>({
    key: "fit-parts",
    label: "What uses DRAM, on one chip",
    file,
    rows: held,
    columns: [
      { head: "DRAM of a chip", kind: "name", text: ([name]) => name },
      {
        head: "MiB",
        kind: "number",
        text: ([, bytes]) => mib(bytes),
        value: ([, bytes]) => bytes,
      },
      {
        head: "Share",
        kind: "number",
        text: ([, bytes]) => percent((100 * bytes) / all),
        value: ([, bytes]) => bytes,
        bar: ([, bytes]) => bytes / all,
      },
    ],
  }).element;
}

const said = ({ users, context, largest_users, largest_context, points }: Capacity): string =>
  points.every((point) => point.context <= 0)
    ? "Not even one user fits, at any context length"
    : `Largest context for ${counted(users, "user")}: ${counted(largest_context, "token")}; ` +
      `most users of ${counted(context, "token")}: ${thousands(largest_users)}`;

function capacityTable(capacity: Capacity, file: string): HTMLElement {
  const most = Math.max(1, ...capacity.points.map((point) => point.context));
  return new Table<Capacity["points"][number]>({
    key: "capacity",
    label: "Users, and the largest context that fits for each",
    file,
    rows: capacity.points,
    columns: [
      { head: "Users", kind: "number", text: (point) => thousands(point.users), value: (point) => point.users },
      {
        head: "Largest context",
        kind: "number",
        text: (point) => thousands(point.context),
        value: (point) => point.context,
        bar: (point) => point.context / most,
      },
      {
        head: "Tokens of all",
        kind: "number",
        text: (point) => thousands(point.users * point.context),
        value: (point) => point.users * point.context,
      },
      {
        head: "Ends",
        kind: "text",
        text: (point) => (point.is_limit ? "out of memory" : "the model's largest context"),
      },
    ],
  }).element;
}

/** Both axes in powers of two: what is divided among users lies on a straight line. */
function plotOf(capacity: Capacity, file: string): Figure {
  const points = capacity.points.filter((point) => point.context > 0);
  const [left, right, top, bottom] = [70, 40, 14, 24];
  const highest = Math.log2(Math.max(capacity.context, ...points.map((point) => point.context))) + 0.3;
  const lowest = Math.log2(Math.min(capacity.context, ...points.map((point) => point.context))) - 0.3;
  const widest = Math.log2(Math.max(capacity.users, 2, ...points.map((point) => point.users)));
  const draw = (pen: Pen) => {
    const x = (users: number) => left + ((pen.width - left - right) * Math.log2(users)) / widest;
    const y = (context: number) =>
      top + ((pen.height - top - bottom) * (highest - Math.log2(context))) / (highest - lowest);
    for (let power = Math.ceil(lowest); power <= highest; power += highest - lowest > 6 ? 2 : 1) {
      pen.line([left, y(2 ** power), pen.width - right, y(2 ** power)], color("line"));
      pen.text(left - 6, y(2 ** power), thousands(2 ** power), color("muted"), { align: "right" });
    }
    for (const { users, context } of points) {
      pen.text(x(users), pen.height - 10, thousands(users), color("muted"), { align: "center" });
      pen.rect(x(users) - 3, y(context) - 3, 6, 6, color("accent"));
    }
    pen.line(
      points.flatMap(({ users, context }) => [x(users), y(context)]),
      color("accent"),
      2,
    );
    pen.frame(x(capacity.users) - 5, y(capacity.context) - 5, 10, 10, color("text"));
    const isRight = x(capacity.users) + 80 > pen.width;
    pen.text(x(capacity.users) + (isRight ? -10 : 10), y(capacity.context), "requested", color("text"), {
      align: isRight ? "right" : "left",
    });
  };
  const describe = () => points.map((point) => `${point.users} x ${thousands(point.context)}`).join(", ");
  return new Figure({ label: "Largest context by users", file: `${file}-capacity`, height: 200, draw, describe });
}

function advice(answer: FitAnswer, file: string): HTMLElement {
  return new Table<FitAnswer["advice"][number]>({
    key: "advice",
    label: "What would change it; each was checked with its own prediction",
    file,
    rows: answer.advice,
    columns: [
      { head: "What would change it", kind: "name", text: (one) => one.do },
      { head: "Then", kind: "text", text: (one) => (one.fits ? "fits" : "does not fit") },
      {
        head: "DRAM MiB per bank",
        kind: "number",
        text: (one) => mib(one.peak_bytes_per_bank),
        value: (one) => one.peak_bytes_per_bank,
      },
      { head: "Saves", kind: "number", text: (one) => amount(one.saves_bytes), value: (one) => one.saves_bytes },
    ],
  }).element;
}
