// SPDX-License-Identifier: Apache-2.0
// A table of any length: only the rows in sight are elements. Search, sort, CSV and Markdown work on all of them.

import { fill, h, perFrame } from "./dom";
import { short, thousands } from "./format";
import { announce, copy, csv, download, fileName, markdown } from "./save";

export interface TableColumn<Row> {
  head: string;
  kind: "text" | "name" | "number";
  /** What is sorted by; a column without one sorts by its text. */
  value?: (row: Row) => number;
  text: (row: Row) => string;
  /** The same, short enough to be looked at; exports and the search have the whole. */
  shown?: (row: Row) => string;
  /** Where the cell leads: the hash of a link. */
  link?: (row: Row) => string | null;
  /** How it stands out: "alarm", "ok", or not at all. */
  level?: (row: Row) => string;
  /** Over up to three lines where it is long; all rows of such a table have this height. */
  wrap?: boolean;
  /** Part of the longest bar, from 0 to 1. */
  bar?: (row: Row) => number;
}

export interface TableOptions<Row> {
  key: string;
  label: string;
  columns: TableColumn<Row>[];
  rows: ArrayLike<Row>;
  file: string;
  /** The rows with all these words; for tables so long that texts are looked up once per distinct row. */
  match?: (words: string[]) => ArrayLike<Row>;
  leftOut?: string;
  /** What is said instead of an empty table. */
  empty?: string;
  height?: number;
  onDraw?: (rows: readonly Row[], elements: HTMLTableRowElement[]) => void;
}

const ROW = 29;
const WRAPPED_ROW = 60;
const TALLEST = 8_000_000; // browsers end elements somewhere above; beyond, the bar moves in larger steps
const SMALL = 60; // rows that are simply all there
const MOST_COPIED = 2000;

export class Table<Row> {
  readonly element: HTMLElement;
  readonly count = h("span", { class: "count", "data-role": "count" });
  private readonly body = h("tbody");
  private readonly scroller: HTMLElement;
  private readonly heads: HTMLTableCellElement[] = [];
  private readonly note = h("p", { class: "muted left-out" });
  private readonly table: HTMLTableElement;
  private shown: ArrayLike<Row>;
  private sorted: { column: number; down: boolean } | null = null;
  private words: string[] = [];
  /** How far it is scrolled, remembered: to ask the browser would make it lay the page out. */
  private top = 0;
  private readonly height: number;
  private readonly rowHeight: number;
  /** What stands there when there is no row at all, and what stands there else. */
  private readonly nothing: HTMLElement;
  private readonly full: HTMLElement[];

  constructor(private options: TableOptions<Row>) {
    this.shown = options.rows;
    this.height = options.height ?? 460;
    const wraps = options.columns.some((column) => column.wrap);
    this.rowHeight = wraps ? WRAPPED_ROW : ROW;
    const head = h("tr");
    options.columns.forEach((column, at) => {
      const cell = h("th", { class: column.kind, scope: "col" });
      const name = column.head ? null : `column ${at + 1}`;
      cell.append(h("button", { type: "button", "aria-label": name, click: () => this.sortBy(at) }, column.head));
      this.heads.push(cell);
      head.append(cell);
    });
    this.table = h("table", { "data-role": "table", "data-table": options.key });
    this.table.append(h("thead", {}, head), this.body);
    this.table.classList.toggle("wrapped", wraps);
    const later = perFrame(() => this.draw());
    this.scroller = h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": `${options.label}, table` },
      this.table,
    );
    if (options.height) this.scroller.style.maxHeight = `${options.height}px`;
    const frame = h("div", { class: "table-frame" }, this.scroller);
    this.scroller.addEventListener("scroll", () => {
      this.top = this.scroller.scrollTop;
      later();
      hint();
    });
    // Columns beyond the edge are hinted at; asked only when the browser has laid the page out anyway.
    const hint = () => {
      const { scrollWidth, clientWidth, scrollLeft } = this.scroller;
      frame.classList.toggle("more", scrollWidth - clientWidth - scrollLeft > 8);
    };
    const watched = new ResizeObserver(hint);
    watched.observe(this.scroller);
    watched.observe(this.table);
    const tools = h(
      "div",
      { class: "table-tools" },
      this.count,
      h(
        "button",
        { type: "button", class: "quiet", title: "Save this table as CSV", click: () => this.saveCsv() },
        "CSV",
      ),
      h(
        "button",
        { type: "button", class: "quiet", title: "Copy this table as Markdown", click: () => void this.copyMarkdown() },
        "Copy as Markdown",
      ),
    );
    this.nothing = h("p", { class: "muted empty" });
    this.element = h("div", { class: "table-block" }, this.nothing, tools, frame, this.note);
    this.full = [tools, frame];
    this.refresh();
  }

  setRows(rows: ArrayLike<Row>, leftOut = ""): void {
    this.options = { ...this.options, rows, leftOut };
    this.refresh();
  }

  filter(words: string[]): void {
    this.words = words;
    this.scrollTo(0);
    this.refresh();
  }

  private refresh(): void {
    const { rows, match } = this.options;
    if (!this.words.length) this.shown = rows;
    else if (match) this.shown = match(this.words);
    else this.shown = Array.from(rows).filter((row) => this.has(row));
    if (this.sorted) this.order();
    const all = thousands(rows.length);
    this.count.textContent = this.words.length ? `${thousands(this.shown.length)} of ${all}` : all;
    this.count.dataset["unit"] = rows.length === 1 ? "row" : "rows";
    this.note.textContent = this.options.leftOut ?? "";
    this.note.hidden = !this.options.leftOut;
    this.draw();
  }

  private has(row: Row): boolean {
    const text = this.options.columns
      .map((column) => column.text(row))
      .join(" ")
      .toLowerCase();
    return this.words.every((word) => text.includes(word));
  }

  private sortBy(column: number): void {
    const numeric = this.options.columns[column]!.kind === "number";
    const down: boolean = this.sorted?.column === column ? !this.sorted.down : numeric;
    this.sorted = { column, down };
    this.heads.forEach((head, at) => {
      if (at === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.scrollTo(0);
    this.refresh();
  }

  private scrollTo(top: number): void {
    if (top === this.top) return;
    this.scroller.scrollTop = top;
    this.top = top;
  }

  private order(): void {
    const { column, down } = this.sorted!;
    const { value, text } = this.options.columns[column]!;
    const rows = this.shown;
    const order = new Uint32Array(rows.length);
    for (let at = 0; at < order.length; at++) order[at] = at;
    const sign = down ? -1 : 1;
    if (value) {
      const keys = Float64Array.from({ length: rows.length }, (_, at) => value(rows[at]!));
      order.sort((a, b) => sign * (keys[a]! - keys[b]!) || a - b);
    } else {
      const keys = Array.from(rows, (row) => text(row));
      const compare = new Intl.Collator(undefined, { numeric: true }).compare;
      order.sort((a, b) => sign * compare(keys[a]!, keys[b]!) || a - b);
    }
    this.shown = Array.from(order, (at) => rows[at]!);
  }

  /** Bring a row into sight, if it is among those shown. */
  reveal(wanted: (row: Row) => boolean, guess?: number): void {
    let at = -1;
    if (guess !== undefined && guess < this.shown.length && wanted(this.shown[guess]!)) at = guess;
    for (let row = 0; at < 0 && row < this.shown.length; row++) if (wanted(this.shown[row]!)) at = row;
    if (at < 0) return;
    const part = at / Math.max(1, this.shown.length);
    const top = part * Math.min(this.shown.length * this.rowHeight, TALLEST);
    if (top < this.top || top > this.top + this.height - 3 * this.rowHeight)
      this.scrollTo(Math.max(0, top - this.height / 3));
    this.draw();
  }

  redraw(): void {
    this.draw();
  }

  private draw(): void {
    const count = this.shown.length;
    const whole = Math.min(count * this.rowHeight, TALLEST);
    let first = 0;
    let last = count;
    if (count > SMALL) {
      const part = whole > 0 ? this.top / whole : 0;
      first = Math.max(0, Math.min(Math.floor(part * count) - 8, count - 1));
      last = Math.min(count, first + Math.ceil(this.height / this.rowHeight) + 24);
    }
    const drawn: Row[] = [];
    const elements: HTMLTableRowElement[] = [];
    const wide = String(this.options.columns.length);
    const spacer = (size: number) => {
      const cell = h("td", { colspan: wide });
      cell.style.height = `${Math.max(0, size)}px`;
      return h("tr", { class: "spacer", "aria-hidden": "true" }, cell);
    };
    const above = count > SMALL ? (first / count) * whole : 0;
    for (let at = first; at < last; at++) {
      const row = this.shown[at]!;
      drawn.push(row);
      elements.push(this.rowElement(row, at));
    }
    const below = whole - above - (last - first) * this.rowHeight;
    fill(this.body, above > 0 && spacer(above), elements, count > SMALL && below > 0 && spacer(below));
    this.table.setAttribute("aria-rowcount", String(count + 1));
    const isEmpty = this.options.rows.length === 0;
    this.nothing.hidden = !isEmpty;
    for (const part of this.full) part.hidden = isEmpty;
    if (isEmpty) this.nothing.textContent = this.options.empty ?? "Nothing to list.";
    if (!count) fill(this.body, h("tr", {}, h("td", { colspan: wide, class: "muted" }, "No matching rows.")));
    this.options.onDraw?.(drawn, elements);
  }

  private rowElement(row: Row, at: number): HTMLTableRowElement {
    const element = h("tr", { "aria-rowindex": at + 2 });
    for (const column of this.options.columns) {
      const whole = short(column.text(row));
      const text = column.shown ? short(column.shown(row)) : whole;
      const cell = h("td", {
        class: `${column.kind} ${column.level?.(row) ?? ""}`.trim(),
        title: text !== whole || text.length > 40 ? whole : null,
      });
      const link = column.link?.(row);
      const content = link ? h("a", { href: link }, text) : text;
      append(cell, column.wrap ? h("div", {}, content) : content);
      if (column.wrap) cell.classList.add("wrap");
      const bar = column.bar?.(row);
      if (bar !== undefined && bar > 0) {
        cell.classList.add("bar");
        cell.style.backgroundSize = `${(100 * Math.min(1, bar)).toFixed(1)}% 76%`;
      }
      element.append(cell);
    }
    return element;
  }

  private *texts(most = Infinity): Generator<string[]> {
    const end = Math.min(this.shown.length, most);
    for (let at = 0; at < end; at++) yield this.options.columns.map((column) => column.text(this.shown[at]!));
  }

  private saveCsv(): void {
    const heads = this.options.columns.map((column) => column.head);
    download(`${fileName(`${this.options.file}-${this.options.key}`)}.csv`, csv(heads, this.texts()), "text/csv");
  }

  private async copyMarkdown(): Promise<void> {
    const { columns } = this.options;
    const text = markdown(
      columns.map((c) => c.head),
      columns.map((c) => c.kind === "number"),
      this.texts(MOST_COPIED),
    );
    const rows = Math.min(this.shown.length, MOST_COPIED);
    announce((await copy(text)) ? `${thousands(rows)} rows copied as Markdown` : "the browser refused to copy");
  }
}

function append(cell: HTMLElement, child: Node | string): void {
  if (child instanceof Node) cell.append(child);
  else cell.textContent = child;
}
