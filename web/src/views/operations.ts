// SPDX-License-Identifier: Apache-2.0
// Which operations? All of them in one table, and everything about the one at the cursor.

import type { TypeRow } from "../data/document";
import { MEMORIES, type Timeline } from "../data/profile";
import type { Session } from "../session";
import { fill, h, perFrame, whenSeen } from "../ui/dom";
import { amount, mib, placeText, shapeText, short, signedMib, thousands } from "../ui/format";
import { announce, copy } from "../ui/save";
import { Table } from "../ui/table";
import { choice, section, type View } from "./view";

const KINDS = ["all", "compute", "fills DRAM", "fills L1", "frees"] as const;
type Kind = (typeof KINDS)[number];

export function operations(session: Session): View {
  const { profile } = session;
  const details = h("div", { class: "details", "data-role": "operation" });
  let loudest = loudestChange(session);
  const first = () => session.timeline?.first ?? 0;
  const name = (at: number) => session.timeline.name(at + first());
  const resultText = (at: number) => {
    const made = madeBy(session).get(at + first())?.[0];
    const type =
      profile.form(session.timeline.form[at]!).resultTypes[0] ?? (made === undefined ? null : profile.typeOf(made));
    return type ? shapeText(type[0], type[1]) : "";
  };
  const change = (memory: "DRAM" | "L1", at: number) => session.timeline.changes(memory)[at] ?? 0;
  const programName = (at: number) => session.timeline.header.program_names[session.timeline.program[at]!] ?? "";
  let kind: Kind = "all";
  const kept: Record<Kind, (at: number) => boolean> = {
    all: () => true,
    compute: (at) => !/deallocate$|get_device$/.test(name(at)),
    "fills DRAM": (at) => change("DRAM", at) > 0,
    "fills L1": (at) => change("L1", at) > 0,
    frees: (at) => change("DRAM", at) < 0 || change("L1", at) < 0,
  };
  const table = new Table<number>({
    key: "operations",
    label: "Operations",
    file: profile.header.title,
    rows: positions(session),
    height: 520,
    match: (words) => matching(session, words, kept[kind]),
    columns: [
      {
        head: "#",
        kind: "number",
        text: (at) => String(at + first()),
        value: (at) => at,
        link: (at) => `#op=${at + first()}&view=operations`,
      },
      { head: "Operation", kind: "name", text: name },
      { head: "Result", kind: "text", text: resultText },
      {
        head: "DRAM MiB/bank",
        kind: "number",
        text: (at) => signedMib(change("DRAM", at)),
        value: (at) => change("DRAM", at),
        bar: (at) => Math.max(0, change("DRAM", at)) / loudest,
      },
      {
        head: "L1 MiB/bank",
        kind: "number",
        text: (at) => signedMib(change("L1", at)),
        value: (at) => change("L1", at),
      },
      {
        head: "Location",
        kind: "name",
        text: (at) => session.timeline.location(at + first()) || "-",
        shown: (at) => placeText(session.timeline.location(at + first())) || "-",
      },
      { head: "Program", kind: "name", text: programName },
      {
        head: "Line",
        kind: "number",
        text: (at) => (session.timeline.line[at]! > 0 ? thousands(session.timeline.line[at]!) : "-"),
        value: (at) => session.timeline.line[at]!,
      },
    ],
    onDraw: (drawn, elements) =>
      drawn.forEach((at, index) => {
        if (at + first() === session.operation) elements[index]!.setAttribute("aria-current", "true");
      }),
  });
  const kinds = h("div", { class: "choices", role: "group", "aria-label": "Which operations" });
  const choose = (name: Kind) => {
    kind = name;
    fill(kinds, ...KINDS.map((one) => choice(one, one === kind, () => choose(one), { "data-filter": one })));
    table.setRows(kind === "all" ? positions(session) : positions(session).filter((at) => kept[kind](at)));
  };
  const { by_name, executed, compute } = profile.header.document.operations;
  const counts = Object.entries(by_name).sort((a, b) => b[1] - a[1]);
  const distribution = new Table<number>({
    key: "distribution",
    label: "How often each operation ran",
    file: profile.header.title,
    rows: counts.map((_, at) => at),
    height: 300,
    columns: [
      { head: "Operation", kind: "name", text: (at) => counts[at]![0] },
      {
        head: "Count",
        kind: "number",
        text: (at) => thousands(counts[at]![1]),
        value: (at) => counts[at]![1],
        bar: (at) => counts[at]![1] / (counts[0]?.[1] || 1),
      },
      {
        head: "Share",
        kind: "number",
        text: (at) => `${((100 * counts[at]![1]) / executed).toFixed(1)}%`,
        value: (at) => counts[at]![1],
      },
    ],
  });
  choose("all");
  const show = () => {
    if (session.timeline) fill(details, ...described(session));
    reveal();
  };
  let revealed = -1;
  const bring = () => {
    if (revealed !== session.operation)
      table.reveal((at) => at + first() === session.operation, session.operation - first());
    revealed = session.operation;
  };
  const reveal = whenSeen(table.element, bring);
  const redraw = () => {
    show();
    bring();
  };
  session.on(["cursor"], perFrame(show));
  let shown = session.timelineNumber;
  session.on(["memory"], () => {
    if (shown === session.timelineNumber) return;
    shown = session.timelineNumber;
    loudest = loudestChange(session);
    choose(kind);
  });
  session.on(["search"], () => {
    table.filter(session.words);
    distribution.filter(session.words);
  });
  const element = section(
    "operations",
    "Which operations?",
    `${thousands(executed)} executed, ${thousands(compute)} of them compute. State after minus state before; click a number for its details.`,
    profile.textsLeftOut
      ? h(
          "p",
          { class: "muted" },
          `Locations and value names (${amount(profile.textsLeftOut)}) would make this page too large; they are in the stored profile.`,
        )
      : null,
    kinds,
    h("div", { class: "two" }, table.element, details),
    h("details", {}, h("summary", {}, "How often each operation ran"), distribution.element),
  );
  return { name: "operations", title: "Operations", element, redraw };
}

const makers = new WeakMap<Timeline, Map<number, number[]>>();

/** Which tensors each operation makes; worked out once per process. */
function madeBy(session: Session): Map<number, number[]> {
  let known = makers.get(session.timeline);
  if (known) return known;
  known = new Map();
  const { lives } = session.profile;
  for (let row = 0; row < lives.count; row++) {
    if (lives.timeline[row] !== session.timelineNumber || lives.producer[row]! < 0) continue;
    const rows = known.get(lives.producer[row]!);
    if (rows) rows.push(row);
    else known.set(lives.producer[row]!, [row]);
  }
  makers.set(session.timeline, known);
  return known;
}

function positions(session: Session): Uint32Array {
  const rows = new Uint32Array(session.timeline?.form.length ?? 0);
  for (let at = 0; at < rows.length; at++) rows[at] = at;
  return rows;
}

function loudestChange(session: Session): number {
  let most = 1;
  const changes = session.timeline?.changes("DRAM") ?? [];
  for (let at = 0; at < changes.length; at++) if (changes[at]! > most) most = changes[at]!;
  return most;
}

/** Distinct texts are looked at once, however often they were executed. */
function matching(session: Session, words: string[], isKept: (at: number) => boolean): Uint32Array {
  const { form, program, header } = session.timeline;
  const programs = header.program_names.map((name) => name.toLowerCase());
  const known = new Map<number, string>();
  const found: number[] = [];
  const indices = words.filter((word) => /^#\d+$/.test(word)).map((word) => Number(word.slice(1)));
  const rest = words.filter((word) => !/^#\d+$/.test(word));
  for (let at = 0; at < form.length; at++) {
    const operation = at + session.timeline.first;
    if (indices.length && !indices.includes(operation)) continue;
    let text = known.get(form[at]!);
    if (text === undefined) {
      const one = session.profile.form(form[at]!);
      const shapes = one.resultTypes.map((type) => (type ? shapeText(type[0], type[1]) : "")).join(" ");
      text = `${one.name} ${one.location} ${shapes}`.toLowerCase();
      known.set(form[at]!, text);
    }
    const inProgram = programs[program[at]!] ?? "";
    if (
      isKept(at) &&
      rest.every((word) => text.includes(word) || inProgram.includes(word) || String(operation) === word)
    )
      found.push(at);
  }
  return Uint32Array.from(found);
}

function described(session: Session): (Node | null)[] {
  const { profile, timeline, operation } = session;
  const at = operation - timeline.first;
  if (at < 0 || at >= timeline.form.length)
    return [h("h3", {}, "After the last operation"), h("p", { class: "muted" }, timeline.stateLabel(session.state))];
  const form = profile.form(timeline.form[at]!);
  const link = `#op=${operation}&view=operations`;
  const programs = timeline.programParts(operation).filter(([, bytes]) => bytes > 0);
  const program = timeline.header.program_names[timeline.program[at]!];
  const { lives } = profile;
  const made = madeBy(session).get(operation) ?? [];
  const done: number[] = [];
  for (let row = 0; row < lives.count; row++)
    if (lives.lastUse[row] === operation && lives.timeline[row] === session.timelineNumber) done.push(row);
  const state = timeline.stateBefore(operation);
  const table = h(
    "table",
    { class: "mini" },
    h("thead", {}, h("tr", {}, ...["Memory", "Before", "Change"].map((head) => h("th", { scope: "col" }, head)))),
  );
  const body = h("tbody");
  for (const memory of MEMORIES) {
    const figures = profile.figures(session.timelineNumber, memory, state);
    if (!figures) continue;
    body.append(
      h(
        "tr",
        {},
        h("th", { scope: "row" }, memory),
        h("td", { class: "number" }, mib(figures[2]!)),
        h("td", { class: "number" }, signedMib(timeline.changeAt(memory, operation))),
      ),
    );
  }
  table.append(body);
  const neighbours: HTMLElement[] = [];
  for (let near = Math.max(timeline.first, operation - 3); near <= Math.min(timeline.end - 1, operation + 3); near++) {
    const text = short(timeline.label(near), 60);
    neighbours.push(
      h(
        "li",
        near === operation ? { class: "strong" } : {},
        near === operation ? text : h("a", { href: `#op=${near}&view=operations` }, text),
      ),
    );
  }
  const markdownText = () =>
    [
      `## ${timeline.label(operation)}`,
      "",
      `- ${irText(form)}`,
      `- location: ${form.location || "-"}`,
      ...MEMORIES.flatMap((memory) => {
        const figures = profile.figures(session.timelineNumber, memory, state);
        return figures
          ? [
              `- ${memory}: ${mib(figures[2]!)} MiB/bank before, ${signedMib(timeline.changeAt(memory, operation))} by this operation`,
            ]
          : [];
      }),
    ].join("\n");
  return [
    h("h3", {}, short(timeline.label(operation), 400)),
    h(
      "p",
      { class: "muted" },
      [
        form.location,
        program && `in ${program}`,
        timeline.line[at]! > 0 && `line ${thousands(timeline.line[at]!)} of the source`,
      ]
        .filter(Boolean)
        .join(" · "),
    ),
    form.operandTypes.length + form.resultTypes.length === 0
      ? null
      : h("pre", { class: "ir", tabindex: "0", "aria-label": "The operation with its values and types" }, irText(form)),
    typeList("Inputs", form.operands, form.operandTypes),
    typeList("Outputs", form.results, form.resultTypes),
    tensorList(session, "Makes", made),
    tensorList(session, "Is the last to use", done),
    h("h4", {}, "Memory, MiB per bank"),
    table,
    programs.length ? h("h4", {}, "Its program's buffers in L1, per core") : null,
    programs.length
      ? h(
          "dl",
          { class: "facts tight" },
          programs.flatMap(([part, bytes]) => [h("dt", {}, part), h("dd", {}, amount(bytes))]),
          programs.length > 1 ? [h("dt", {}, "together"), h("dd", {}, amount(timeline.programBytes(operation)))] : [],
        )
      : null,
    h("h4", {}, "Around it"),
    h("ul", { class: "neighbours" }, neighbours),
    h(
      "div",
      { class: "choices" },
      h("a", { class: "choice", href: `#op=${operation}&view=map` }, "On the map"),
      h("a", { class: "choice", href: `#op=${operation}&view=tensors` }, "Who is alive"),
      h(
        "button",
        {
          type: "button",
          class: "choice",
          click: () => void copy(markdownText()).then((done) => announce(done ? "copied as Markdown" : "not copied")),
        },
        "Copy as Markdown",
      ),
      h(
        "button",
        {
          type: "button",
          class: "choice",
          click: () =>
            void copy(location.href.split("#")[0]! + link).then((done) =>
              announce(done ? "link copied" : "not copied"),
            ),
        },
        "Copy link",
      ),
    ),
  ];
}

const MOST_LISTED = 12;

/** Tensors that are connected with an operation; a click marks one in all drawings. */
function tensorList(session: Session, title: string, rows: number[]): HTMLElement | null {
  if (!rows.length) return null;
  const { profile, operation } = session;
  const { lives } = profile;
  const entry = (row: number) =>
    h(
      "li",
      {},
      h("a", { href: `#op=${operation}&tensor=${row}&view=tensors` }, short(profile.nameOf(row), 60)),
      h(
        "span",
        { class: "muted" },
        ` ${amount(lives.bytes[row]!)}/bank of ${MEMORIES[lives.memory[row]!]!}, until #${lives.last[row]!}`,
      ),
    );
  return h(
    "div",
    {},
    h("h4", {}, title),
    h(
      "ul",
      {},
      rows.slice(0, MOST_LISTED).map(entry),
      rows.length > MOST_LISTED && h("li", { class: "muted" }, `and ${thousands(rows.length - MOST_LISTED)} more`),
    ),
  );
}

function typeText(type: TypeRow | null): string {
  if (!type) return "not a tensor";
  return [shapeText(type[0], type[1]), type[2], [type[3], type[4]].filter(Boolean).join(" ")]
    .filter(Boolean)
    .join(", ");
}

/** As a compiler would print it, from what was read. */
function irText(form: {
  name: string;
  results: string[];
  operands: string[];
  resultTypes: (TypeRow | null)[];
  operandTypes: (TypeRow | null)[];
  location: string;
}): string {
  const types = (list: (TypeRow | null)[]) =>
    `(${list.map((type) => (type ? `tensor<${[...type[0], type[1]].join("x")}, ${type[3].toLowerCase() || "?"}>` : "?")).join(", ")})`;
  const results = form.results.length ? `${form.results.join(", ")} = ` : "";
  return `${results}"${form.name}"(${form.operands.join(", ")}) : ${types(form.operandTypes)} -> ${types(form.resultTypes)}${form.location ? ` loc("${form.location}")` : ""}`;
}

function typeList(title: string, names: string[], types: (TypeRow | null)[]): HTMLElement | null {
  if (!types.length) return null;
  return h(
    "div",
    {},
    h("h4", {}, title),
    h(
      "ul",
      { class: "types" },
      types.map((type, at) =>
        h(
          "li",
          {},
          h("code", {}, names[at] ?? `${at}`),
          " ",
          typeText(type),
          type && type[6]
            ? h(
                "span",
                { class: "muted" },
                ` ${amount(type[6])}${type[6] > type[5] ? `, ${amount(type[6] - type[5])} of it padding` : ""}`,
              )
            : null,
        ),
      ),
    ),
  );
}
