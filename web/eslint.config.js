// SPDX-License-Identifier: Apache-2.0
import tseslint from "typescript-eslint";

export default tseslint.config(...tseslint.configs.strict, {
  rules: {
    "@typescript-eslint/no-non-null-assertion": "off", // typed arrays and maps that were just filled
    "no-restricted-properties": [
      "error",
      ...["innerHTML", "outerHTML", "insertAdjacentHTML"].map((property) => ({
        property,
        message: "texts come from logs: build elements and set textContent",
      })),
    ],
    eqeqeq: "error",
  },
});
