// SPDX-License-Identifier: Apache-2.0
// One script and one style sheet with fixed names: ttmem inlines both into every page and allows nothing else to run.
import { defineConfig } from "vite";

export default defineConfig({
  build: {
    outDir: "../src/ttmem/reports/templates",
    emptyOutDir: false,
    copyPublicDir: false,
    target: "es2022",
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    modulePreload: false,
    lib: { entry: "src/main.ts", formats: ["iife"], name: "ttmem", fileName: () => "app.js", cssFileName: "app" },
  },
  test: { include: ["tests/**/*.test.ts"] },
} as Parameters<typeof defineConfig>[0]);
