// SPDX-License-Identifier: Apache-2.0
// What all pages share: the head with name, search and colours, the row of views, keys, and the line that tells.

import { forgetColors, h } from "./ui/dom";
import { announceIn } from "./ui/save";
import type { View } from "./views/view";

export interface ShellOptions {
  title: string;
  views: View[];
  foot: string;
  search?: { hint: string; changed: (text: string) => void };
  keys?: [string, string][];
  /** Above the first view: what a page of its own wants there. */
  before?: HTMLElement | null;
  themeChanged?: () => void;
  chosen?: (view: string) => void;
}

const GENERAL_KEYS: [string, string][] = [
  ["/", "search"],
  ["1 … 9", "go to a view"],
  ["t", "light or dark"],
  ["?", "these keys"],
  ["Esc", "leave the search"],
];

/** A view may be named by its question. */
const QUESTIONS: Record<string, string> = {
  when: "timeline",
  what: "tensors",
  where: "map",
  waste: "padding",
  which: "operations",
};

export class Shell {
  readonly search: HTMLInputElement | null = null;
  private readonly links = new Map<string, HTMLAnchorElement>();
  private readonly help: HTMLDialogElement;
  current = "";

  constructor(
    readonly root: HTMLElement,
    private readonly options: ShellOptions,
  ) {
    const tools = h("div", { class: "tools" });
    if (options.search) {
      const { hint, changed } = options.search;
      this.search = h("input", {
        type: "search",
        "data-role": "search",
        placeholder: hint,
        "aria-label": hint,
        autocomplete: "off",
        spellcheck: "false",
      });
      let waiting = 0;
      this.search.addEventListener("input", () => {
        clearTimeout(waiting);
        waiting = window.setTimeout(() => changed(this.search!.value), 60);
      });
      tools.append(this.search);
    }
    tools.append(
      h(
        "button",
        {
          type: "button",
          class: "icon",
          "data-role": "theme",
          "aria-label": "Switch between light and dark",
          click: () => this.switchTheme(),
        },
        "◐",
      ),
      h(
        "button",
        {
          type: "button",
          class: "icon",
          "data-role": "keys",
          "aria-label": "Keys",
          click: () => this.help.showModal(),
        },
        "?",
      ),
    );
    const nav = h("nav", { class: "views", "aria-label": "Views" });
    for (const view of options.views) {
      const link = h("a", { href: `#view=${view.name}` }, view.title);
      this.links.set(view.name, link);
      nav.append(link);
    }
    const told = h("div", { class: "told", role: "status", "aria-live": "polite" });
    announceIn(told);
    this.help = this.keysDialog();
    const main = h(
      "main",
      { id: "report", tabindex: "-1" },
      options.before ?? null,
      ...options.views.map((view) => view.element),
    );
    root.append(
      h("a", { class: "skip", href: "#report" }, "Skip to the report"),
      h(
        "header",
        { class: "top" },
        h("div", { class: "top-row" }, h("h1", { title: options.title }, options.title), tools),
        nav,
      ),
      main,
      h("footer", { class: "muted" }, options.foot),
      told,
      this.help,
    );
    for (const view of options.views) view.redraw?.();
    document.addEventListener("keydown", (event) => this.key(event));
    // Paper is white, whatever the screen was.
    for (const media of ["print", "(prefers-color-scheme: dark)"])
      matchMedia(media).addEventListener("change", () => this.recolour());
    this.watch();
  }

  go(asked: string): void {
    const view = this.viewOf(asked);
    if (!view) return;
    view.element.scrollIntoView({ block: "start", behavior: "instant" });
    this.mark(view.name);
  }

  /** Name the view that will be gone to when the page is laid out. */
  announce(asked: string): void {
    const view = this.viewOf(asked);
    if (view) this.mark(view.name);
  }

  private viewOf(asked: string): View | undefined {
    const name = QUESTIONS[asked] ?? asked;
    return this.options.views.find((one) => one.name === name);
  }

  /** Go to the view that the address names, now and whenever it changes. */
  followAddress(): void {
    const follow = () => this.go(new URLSearchParams(location.hash.slice(1)).get("view") ?? "");
    window.addEventListener("hashchange", follow);
    if (location.hash.length > 1) requestAnimationFrame(follow);
  }

  private mark(name: string): void {
    if (name === this.current) return;
    this.current = name;
    for (const [key, link] of this.links) {
      if (key === name) {
        link.setAttribute("aria-current", "true");
        const row = link.parentElement!;
        row.scrollLeft = link.offsetLeft - row.offsetLeft - (row.clientWidth - link.offsetWidth) / 2;
      } else link.removeAttribute("aria-current");
    }
    this.options.chosen?.(name);
  }

  /** The view that is being read is marked in the row of views. */
  private watch(): void {
    const update = () => {
      const line = window.innerHeight * 0.35;
      let name = this.options.views[0]?.name ?? "";
      for (const view of this.options.views) if (view.element.getBoundingClientRect().top <= line) name = view.name;
      this.mark(name);
    };
    let waiting = false;
    document.addEventListener(
      "scroll",
      () => {
        if (waiting) return;
        waiting = true;
        requestAnimationFrame(() => {
          waiting = false;
          update();
        });
      },
      { passive: true },
    );
    this.mark(this.options.views[0]?.name ?? "");
  }

  private switchTheme(): void {
    const page = document.documentElement;
    const dark = page.dataset["theme"]
      ? page.dataset["theme"] === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    page.dataset["theme"] = dark ? "light" : "dark";
    this.recolour();
  }

  private recolour(): void {
    forgetColors();
    this.options.themeChanged?.();
    for (const view of this.options.views) view.redraw?.();
  }

  private key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    const typing = target.matches("input:not([type=range]), textarea, select");
    if (event.key === "Escape" && target === this.search) {
      this.search.value = "";
      this.options.search?.changed("");
      this.search.blur();
      return;
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey || this.help.open) return;
    if (event.key === "/" && this.search) {
      event.preventDefault();
      this.search.focus();
      this.search.select();
    } else if (event.key === "?") this.help.showModal();
    else if (event.key === "t") this.switchTheme();
    else if (/^[1-9]$/.test(event.key)) this.go(this.options.views[Number(event.key) - 1]?.name ?? "");
  }

  private keysDialog(): HTMLDialogElement {
    const list = h("dl", { class: "keys" });
    for (const [key, meaning] of [...GENERAL_KEYS, ...(this.options.keys ?? [])])
      list.append(h("dt", {}, h("kbd", {}, key)), h("dd", {}, meaning));
    const dialog = h("dialog", { "aria-label": "Keys" }, h("h2", {}, "Keys"), list);
    dialog.append(h("button", { type: "button", class: "choice", click: () => dialog.close() }, "Close"));
    return dialog;
  }
}
