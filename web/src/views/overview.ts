// SPDX-License-Identifier: Apache-2.0
// Did it fit, and how close?

import type { Card, FailureStory, ProfileHeader } from "../data/document";
import type { Session } from "../session";
import { color, fill, h } from "../ui/dom";
import { Figure } from "../ui/figure";
import { amount, mib, percent, placeText, thousands } from "../ui/format";
import { type Pen, widthOf } from "../ui/pen";
import { Table } from "../ui/table";
import { legendOf } from "./tracks";
import { operationLink, section, type View } from "./view";

export function cards(list: Card[]): HTMLElement {
  return h("div", { class: "cards" }, list.map(card));
}

function card(one: Card): HTMLElement {
  const meter = one.bar_percent === null ? null : h("div", { class: "meter", "aria-hidden": "true" }, h("span"));
  if (meter) (meter.firstChild as HTMLElement).style.width = `${Math.max(0.6, Math.min(100, one.bar_percent!))}%`;
  return h(
    "div",
    { class: `card ${one.level}` },
    h("h3", {}, one.title),
    h("p", { class: "amount" }, one.figure, " ", h("span", { class: "unit" }, one.unit)),
    meter,
    one.detail && h("p", { class: "muted" }, one.detail),
  );
}

export function overview(session: Session): View {
  const { header } = session.profile;
  const story = header.failure ? failure(header.failure, header.ended) : null;
  const { failure: failed } = header;
  const level = failed && !failed.fits ? "alarm" : failed || header.ended ? "warn" : "ok";
  const verdict = h("p", { class: `verdict ${level}`, "data-role": "verdict" }, verdictText(header));
  const peaks = peaksTable(session);
  const isPredicted = header.document.source.kind === "predicted";
  const element = section(
    "overview",
    isPredicted ? "Will it fit, and how close?" : "Did it fit, and how close?",
    header.subtitle,
    verdict,
    story?.element ?? null,
    cards(header.cards),
    h("h3", { class: "sub" }, "Peak of each memory"),
    peaks.element,
  );
  session.on(["search"], () => peaks.filter(session.words));
  return { name: "overview", title: "Overview", element, redraw: () => story?.redraw() };
}

const sentence = (text: string) => text.slice(0, 1).toUpperCase() + text.slice(1);

function verdictText(header: ProfileHeader): string {
  const failed = header.failure;
  if (failed && !failed.fits) {
    const verb =
      header.document.source.kind === "predicted" ? "It would fail" : header.suite ? "A test failed" : "It failed";
    return `No. ${verb} ${failed.operation === null ? "" : "at "}${failed.place}.`;
  }
  const shares = Object.entries(header.document.memories).filter(
    ([, peak]) => peak.peak_percent !== null && peak.peak_bytes_per_bank > 0,
  );
  const ended = header.ended && ` ${sentence(header.ended)}.`;
  if (!shares.length) return `Unknown: no memory state was recorded.${ended}`;
  shares.sort((a, b) => b[1].peak_percent! - a[1].peak_percent!);
  const [memory, peak] = shares[0]!;
  let room = `${memory} came closest: ${percent(peak.peak_percent)} of a bank, ${amount(peak.free_bytes_at_peak)} free in each`;
  // The programs' own buffers count too where they are known: that is where an operation clashes.
  const l1 = header.document.memories["L1"];
  const together = l1?.peak_with_programs_bytes_per_core ?? 0;
  if (l1?.bytes_per_bank && (100 * together) / l1.bytes_per_bank > peak.peak_percent!) {
    const at = l1.peak_with_programs_at;
    const where = at ? ` at ${at.index === null ? "" : `#${at.index} `}${at.name}` : "";
    room = `L1 came closest: tensors and a program's buffers took ${percent((100 * together) / l1.bytes_per_bank)} of a core${where}, ${amount(Math.max(0, l1.bytes_per_bank - together))} free`;
  }
  if (header.caught || (failed && !ended)) return `Yes, after a failure that the program caught. ${room}.${ended}`;
  return header.document.source.kind === "predicted" ? `Yes, as predicted. ${room}.` : `Yes. ${room}.${ended}`;
}

function peaksTable(session: Session): Table<string> {
  const { memories } = session.profile.header.document;
  const of = (memory: string) => memories[memory]!;
  const label = (ref: { index: number | null; name: string } | null) =>
    ref ? (ref.index === null ? ref.name : `#${ref.index} ${ref.name}`) : "-";
  return new Table<string>({
    key: "peaks",
    label: "Peak of each memory",
    file: session.profile.header.title,
    rows: session.profile.memories,
    columns: [
      { head: "Memory", kind: "text", text: (memory) => memory },
      {
        head: "Peak MiB/bank",
        kind: "number",
        text: (m) => mib(of(m).peak_bytes_per_bank),
        value: (m) => of(m).peak_bytes_per_bank,
      },
      {
        head: "Of bank",
        kind: "number",
        text: (m) => percent(of(m).peak_percent),
        value: (m) => of(m).peak_percent ?? -1,
        bar: (m) => (of(m).peak_percent ?? 0) / 100,
      },
      { head: "Bank MiB", kind: "number", text: (m) => mib(of(m).bytes_per_bank), value: (m) => of(m).bytes_per_bank },
      { head: "Banks", kind: "number", text: (m) => thousands(of(m).banks), value: (m) => of(m).banks },
      {
        head: "Caused by",
        kind: "name",
        text: (m) => label(of(m).caused_by),
        link: (m) => operationLink(of(m).caused_by?.index),
      },
      {
        head: "Location",
        kind: "name",
        text: (m) => of(m).caused_by?.location || "-",
        shown: (m) => placeText(of(m).caused_by?.location || "-"),
      },
      {
        head: "State",
        kind: "name",
        text: (m) =>
          `${of(m).peak_at.index === null ? "" : of(m).peak_within_operation ? "within " : "before "}${label(of(m).peak_at)}`,
        link: (m) => operationLink(of(m).peak_at.index),
      },
      {
        head: "Free",
        kind: "number",
        text: (m) => mib(of(m).free_bytes_at_peak),
        value: (m) => of(m).free_bytes_at_peak,
      },
      {
        head: "Largest free",
        kind: "number",
        text: (m) => mib(of(m).largest_free_bytes_at_peak),
        value: (m) => of(m).largest_free_bytes_at_peak,
      },
      {
        head: "End",
        kind: "number",
        text: (m) => mib(of(m).end_bytes_per_bank),
        value: (m) => of(m).end_bytes_per_bank,
      },
    ],
  });
}

const LOOKS: Record<string, string> = {
  reserved: "band-none",
  buffers: "band-programs",
  overlap: "alarm",
  tensors: "band-activations",
  free: "free",
  l1_small: "band-uploads",
  beyond: "alarm",
  request: "accent",
  unknown: "band-none",
};

const BAD = new Set(["overlap", "beyond"]);
const NAMES: Record<string, string> = {
  reserved: "firmware",
  buffers: "program's buffers",
  overlap: "overlap",
  tensors: "tensors",
  free: "free",
  l1_small: "L1_SMALL",
  beyond: "beyond the bank",
};

function failure(story: FailureStory, ended: string): { element: HTMLElement; redraw: () => void } {
  const drawn = story.picture ? picture(story) : null;
  const place = story.operation === null ? story.place : h("a", { href: operationLink(story.operation)! }, story.place);
  const element = h(
    "section",
    { class: ended ? "failure ended" : "failure", "data-role": "failure", "aria-label": "Failure" },
    h(
      "h3",
      {},
      ended ? sentence(ended) : story.survived ? "Failed, but the process continued " : "What failed ",
      story.failure_class !== "none" &&
        h("span", { class: "tag" }, story.failure_class + (story.memory ? ` · ${story.memory}` : "")),
    ),
    story.place !== "" &&
      h(
        "p",
        {},
        place,
        h(
          "span",
          { class: "muted" },
          story.line && !story.place.endsWith(`:${story.line}`) ? ` line ${thousands(story.line)}` : "",
        ),
      ),
    story.headline && h("p", { class: "strong", "data-role": "diagnosis" }, story.headline),
    story.findings.map((text) => h("p", {}, text)),
    drawn?.element,
    story.arithmetic.length > 0 &&
      h(
        "dl",
        { class: "figures" },
        story.arithmetic.map(([label, value, note]) =>
          h("div", {}, h("dt", {}, label), h("dd", {}, value), note && h("dd", { class: "muted" }, note)),
        ),
      ),
    story.remedies.length > 0 && h("h4", {}, "What to change"),
    story.remedies.length > 0 &&
      h(
        "ol",
        { class: "advice" },
        story.remedies.map((one) =>
          h(
            "li",
            {},
            h("span", { class: "strong" }, one.do),
            one.saving && h("span", { class: "tag" }, one.saving),
            one.why && h("div", { class: "muted" }, one.why),
          ),
        ),
      ),
    ended
      ? h("pre", { class: "message" }, story.message)
      : h("details", {}, h("summary", {}, "The message as printed"), h("pre", { class: "message" }, story.message)),
  );
  return { element, redraw: () => drawn?.draw() };
}

/** The bank to scale, and below it, to the same scale, what was asked for. */
function picture(story: FailureStory): { element: HTMLElement; draw: () => void } {
  const { title, start, end, stretches, request, schematic } = story.picture!;
  const scale = Math.max(1, end - start);
  const draw = (pen: Pen) => {
    const x = (address: number) => ((address - start) / scale) * (pen.width - 2) + 1;
    pen.text(1, 9, title, color("muted"));
    for (const stretch of stretches) {
      const [left, right] = [x(stretch.start), x(stretch.end)];
      pen.rect(
        left,
        20,
        Math.max(1, right - left - 1),
        34,
        color(LOOKS[stretch.kind] ?? "band-none"),
        stretch.kind === "free" ? 0.45 : 1,
      );
      const ink = stretch.kind === "free" ? "text" : BAD.has(stretch.kind) ? "on-alarm" : "on-band";
      const [size, room] = [amount(stretch.end - stretch.start), right - left - 9];
      // The name first, its amount where there is room for both.
      const isWide = widthOf(`${stretch.label} ${size}`) <= room;
      pen.text(left + 5, 37, isWide ? `${stretch.label} ${size}` : stretch.label, color(ink), {
        most: room,
        isName: stretch.kind === "tensors",
      });
    }
    if (request) {
      const wide = Math.min(pen.width - 2, ((request.end - request.start) / scale) * (pen.width - 2));
      pen.rect(1, 60, Math.max(2, wide), 22, color("accent"), 0.9);
      const inside = wide > 190;
      pen.text(
        inside ? 6 : wide + 8,
        71,
        `${request.label} ${amount(request.end - request.start)}`,
        inside ? color("on-accent") : color("text"),
      );
    }
    if (schematic)
      pen.text(
        1,
        request ? 96 : 68,
        "Amounts are to scale; the message does not give their addresses.",
        color("muted"),
        {
          most: pen.width,
        },
      );
  };
  const told = () =>
    [...stretches, ...(request ? [request] : [])]
      .map((one) => `${one.label} ${amount(one.end - one.start)}`)
      .join(", ");
  const kinds = [...new Set(stretches.map((one) => one.kind))].filter((kind) => kind in NAMES);
  const legend = h("div", { class: "legend" });
  const figure = new Figure({
    label: title,
    file: "failure",
    height: 58 + (request ? 28 : 0) + (schematic ? 18 : 0),
    draw,
    describe: told,
    legend,
  });
  const redraw = () => {
    fill(legend, ...legendOf(kinds.map((kind) => [NAMES[kind]!, `var(--${LOOKS[kind]!})`])));
    figure.draw();
  };
  redraw();
  return { element: figure.element, draw: redraw };
}
