// SPDX-License-Identifier: Apache-2.0
// Finding and grouping, without knowledge of profiles.

/** The first position whose value is not below. */
export function lowerBound(values: ArrayLike<number>, wanted: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle]! < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Whether a tensor's name says where in the model it belongs: `model.layers[3].wqkv`, not `%12` or `x`. */
export const isPath = (name: string): boolean =>
  /^[\p{L}_][^\s'"]*[.[]/u.test(name) || /^[\p{L}_]\w*\[['"]/u.test(name);

/** The module that a location belongs to, to group by. */
export function moduleOf(location: string): string {
  const place = location.trim();
  if (!place) return "(no location)";
  const quoted = place.search(/\[['"]/);
  if (quoted > 0) return place.slice(0, quoted); // what is in quotes is a key, whatever it holds
  if (place.includes("|")) {
    const modules = place.split("|").filter((field) => field.includes("["));
    const names = modules.map((field) => field.slice(field.indexOf("[") + 1).replace(/\].*$/, ""));
    return names.join(".") || place.split("|")[1] || place;
  }
  if (/\.py:\d+|\//.test(place)) return place.replace(/^.*\//, "");
  const parts = place.replace(/\.\d+$/, "").split(".");
  if (parts.length > 1) return parts.slice(0, Math.min(2, parts.length - 1)).join(".");
  return place.replace(/(?<=.)\[\d+\]$/, ""); // of a list of tensors the list
}
