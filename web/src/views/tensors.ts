// SPDX-License-Identifier: Apache-2.0
// What? The tensors alive at the cursor: a table, and a map of areas by module, producer or shape.

import { isPath, moduleOf } from "../data/lookup";
import { KINDS } from "../data/profile";
import type { Session } from "../session";
import { color, fill, h, perFrame, whenSeen } from "../ui/dom";
import { Figure, outline, Tip } from "../ui/figure";
import { amount, counted, mib, percent, placeText, shapeText, thousands } from "../ui/format";
import { type Pen, widthOf } from "../ui/pen";
import { Table } from "../ui/table";
import { type Box, squarified } from "../ui/treemap";
import { choice, operationLink, section, type View } from "./view";
import { producerText, tensorLabel, unusedFor, whyCard, whyLines } from "./why";

const GROUPS = ["module", "producer", "shape", "kind"] as const;
type Group = (typeof GROUPS)[number];

export function tensors(session: Session): View {
  const { profile } = session;
  const { lives, header } = profile;
  const about = h("p", { class: "muted", "data-role": "moment" });
  const groups = h("div", { class: "choices", role: "group", "aria-label": "Group by" });
  const tip = new Tip();
  let group: Group = "module";
  let rows: number[] = [];
  let total = 0;
  let areas: (Box & { row: number })[] = [];

  const producer = (row: number) => producerText(session, row);
  const location = (row: number) => (lives.producer[row]! < 0 ? "" : session.timeline.location(lives.producer[row]!));
  const groupOf = (row: number): string => {
    if (group === "shape") return shapeText(profile.typeOf(row)[0], profile.typeOf(row)[1]);
    if (group === "kind") return KINDS[lives.kind[row]!]!;
    if (group === "producer")
      return lives.producer[row]! < 0 ? "resident" : session.timeline.name(lives.producer[row]!);
    return isPath(profile.nameOf(row)) ? moduleOf(profile.nameOf(row)) : moduleOf(location(row));
  };

  const table = new Table<number>({
    key: "consumers",
    label: "Tensors alive at the cursor",
    file: `${header.title}-tensors`,
    rows: [],
    columns: [
      {
        head: "Tensor",
        kind: "name",
        text: (row) => profile.nameOf(row),
        link: (row) => `#op=${session.operation}&tensor=${row}&view=tensors`,
      },
      { head: "Shape", kind: "text", text: (row) => shapeText(profile.typeOf(row)[0], profile.typeOf(row)[1]) },
      { head: "MiB/bank", kind: "number", text: (row) => mib(lives.bytes[row]!), value: (row) => lives.bytes[row]! },
      {
        head: "Share",
        kind: "number",
        text: (row) => percent(total ? (100 * lives.bytes[row]!) / total : null),
        value: (row) => lives.bytes[row]!,
        bar: (row) => (rows.length ? lives.bytes[row]! / Math.max(1, lives.bytes[rows[0]!]!) : 0),
      },
      { head: "Producer", kind: "name", text: producer, link: (row) => operationLink(lives.producer[row]!) },
      {
        head: "Location",
        kind: "name",
        text: (row) => location(row) || "-",
        shown: (row) => placeText(location(row)) || "-",
      },
      {
        head: "Alive",
        kind: "text",
        text: (row) => `#${lives.first[row]!}-#${lives.last[row]!}`,
        value: (row) => lives.first[row]!,
      },
      {
        head: "Last use",
        kind: "text",
        text: (row) => (lives.lastUse[row]! < 0 ? "-" : `#${lives.lastUse[row]!}`),
        value: (row) => lives.lastUse[row]!,
        link: (row) => operationLink(lives.lastUse[row]!),
      },
      {
        head: "Unused before it is freed",
        kind: "number",
        text: (row) => {
          const unused = unusedFor(session, row);
          return unused === null ? "-" : thousands(unused);
        },
        value: (row) => unusedFor(session, row) ?? -1,
      },
      { head: "Kind", kind: "text", text: (row) => ["weight", "upload", "activation", "temporary"][lives.kind[row]!]! },
    ],
    onDraw: (drawn, elements) =>
      drawn.forEach((row, index) => {
        if (row === session.tensor) elements[index]!.setAttribute("aria-current", "true");
      }),
  });

  const figure = new Figure({
    label: "Tensors alive at the cursor, by area",
    file: `${header.title}-treemap`,
    height: (width) => (width < 500 ? 240 : 320),
    draw: (pen) => {
      areas = paint(
        pen,
        rows,
        (row) => lives.bytes[row]!,
        groupOf,
        (row) => tensorLabel(session, row),
      );
      const marked = areas.find((area) => area.row === session.tensor);
      if (marked) outline(pen, marked);
    },
    describe: () =>
      rows
        .slice(0, 5)
        .map((row) => `${profile.nameOf(row)} ${amount(lives.bytes[row]!)}`)
        .join(", "),
  });
  figure.element.append(tip.element);
  const under = (event: MouseEvent) => {
    const [x, y] = figure.place(event);
    return areas.find((area) => x >= area.x && x < area.x + area.w && y >= area.y && y < area.y + area.h);
  };
  figure.canvas.addEventListener("pointermove", (event) => {
    const area = under(event);
    if (!area) return tip.hide();
    tip.show(event, whyLines(session, area.row));
  });
  figure.canvas.addEventListener("pointerleave", () => tip.hide());
  figure.canvas.addEventListener("click", (event) => {
    const area = under(event);
    if (area) session.chooseTensor(area.row);
  });

  const chooseGroup = () =>
    fill(
      groups,
      h("span", { class: "muted" }, "Group by"),
      ...GROUPS.map((name) =>
        choice(name, name === group, () => {
          group = name;
          chooseGroup();
          figure.redraw();
        }),
      ),
    );
  chooseGroup();

  let listed: number[] | null = null; // rows that are there already stay: a pointer may be on its way to one of them
  const list = () => {
    if (listed !== rows) table.setRows(rows);
    listed = rows;
  };
  const fillTable = whenSeen(table.element, list);
  const update = () => {
    const figures = profile.figures(session.timelineNumber, session.memory, session.state);
    rows = session.timeline ? profile.alive(session.timelineNumber, session.memory, session.state) : [];
    total = figures?.[2] ?? 0;
    const known = rows.reduce((sum, row) => sum + lives.bytes[row]!, 0);
    const rest = total - known;
    const where = session.timeline?.stateLabel(session.state) ?? "";
    const followed = rows.length > 0 || (session.timeline?.isFollowed(session.state) ?? false);
    fill(
      about,
      figures === null
        ? `The source shows no state of ${session.memory} at the cursor.`
        : followed
          ? `${counted(rows.length, "tensor")} ${rows.length === 1 ? "holds" : "hold"} ${mib(known)} of ${mib(total)} MiB/bank in ${session.memory} ${where}; not attributed to any tensor: ${mib(rest)} MiB/bank.`
          : `${mib(total)} MiB/bank in ${session.memory} ${where}. This page does not hold the tensors of this run; select the run with --run.`,
    );
    about.dataset["unattributed"] = String(rest);
    fillTable();
    figure.element.hidden = rows.length === 0;
    figure.redraw();
  };
  session.on(["cursor", "memory"], perFrame(update));
  session.on(["search"], () => table.filter(session.words));
  session.on(["theme", "tensor"], figure.redraw);
  session.on(
    ["tensor"],
    perFrame(() => table.redraw()),
  );
  const element = section(
    "tensors",
    "What?",
    "The tensors alive at the cursor: which operation made each, and how long it stayed unused.",
    about,
    groups,
    figure.element,
    whyCard(session),
    table.element,
  );
  return {
    name: "tensors",
    title: "Tensors",
    element,
    redraw: () => {
      update();
      list();
      figure.draw();
    },
  };
}

const AREAS = ["area-1", "area-2", "area-3", "area-4", "area-5", "area-6", "area-7", "area-8"];

function paint(
  pen: Pen,
  rows: number[],
  bytes: (row: number) => number,
  groupOf: (row: number) => string,
  name: (row: number) => string,
): (Box & { row: number })[] {
  const groups = new Map<string, number[]>();
  for (const row of rows.slice(0, 3000)) {
    if (bytes(row) <= 0) continue;
    const key = groupOf(row);
    const members = groups.get(key);
    if (members) members.push(row);
    else groups.set(key, [row]);
  }
  const sized = [...groups].map(([key, members]) => ({
    key,
    members,
    size: members.reduce((sum, row) => sum + bytes(row), 0),
  }));
  sized.sort((a, b) => b.size - a.size);
  const drawn: (Box & { row: number })[] = [];
  const outer = squarified(
    sized.map((one) => one.size),
    { x: 0, y: 0, w: pen.width, h: pen.height },
  );
  sized.forEach(({ key, members, size }, at) => {
    const box = outer[at]!;
    const fillColor = color(AREAS[at % AREAS.length]!);
    const head = box.h > 34 && box.w > 60 ? 17 : 0;
    const inner = { x: box.x + 1, y: box.y + 1 + head, w: Math.max(0, box.w - 2), h: Math.max(0, box.h - 2 - head) };
    pen.rect(box.x + 0.5, box.y + 0.5, Math.max(0, box.w - 1), Math.max(0, box.h - 1), fillColor);
    if (head) {
      const [figure, look] = [amount(size), { bold: true }];
      const room = box.w - 12 - widthOf(figure, look) - 8;
      if (room > 40) pen.text(box.x + 6, box.y + 10, key, color("on-area"), { ...look, most: room, isName: true });
      pen.text(box.x + box.w - 6, box.y + 10, figure, color("on-area"), { ...look, align: "right", most: box.w - 12 });
    }
    squarified(members.map(bytes), inner).forEach((cell, index) => {
      const row = members[index]!;
      drawn.push({ ...cell, row });
      if (cell.w < 2 || cell.h < 2) return;
      pen.frame(cell.x, cell.y, cell.w, cell.h, color("panel"));
      if (cell.w > 44 && cell.h > 15)
        pen.text(cell.x + 5, cell.y + 10, name(row), color("on-area"), {
          size: 10.5,
          most: cell.w - 8,
          isName: true,
        });
      if (cell.w > 54 && cell.h > 30)
        pen.text(cell.x + 5, cell.y + 24, amount(bytes(row)), color("on-area"), { size: 10.5, most: cell.w - 8 });
    });
  });
  return drawn;
}
