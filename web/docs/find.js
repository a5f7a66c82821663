/* Finds the sections that have all words. The index is a script, which a page opened from a file may load. */
const MOST = 20;
const base = document.documentElement.dataset.base;
const [input, found, count] = ["find", "found", "count"].map((id) => document.getElementById(id));

const times = (text, word) => text.split(word).length - 1;

const search = () => {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const hits = [];
  for (const { location, title, text, weight } of words.length ? INDEX : []) {
    const [head, body] = [title.toLowerCase(), text.toLowerCase()];
    if (!words.every((word) => head.includes(word) || body.includes(word))) continue;
    hits.push({ location, title, text, score: weight * words.reduce((sum, word) => sum + 10 * times(head, word) + Math.min(times(body, word), 5), 0) });
  }
  hits.sort((one, other) => other.score - one.score);
  count.textContent = words.length ? `${hits.length} section${hits.length === 1 ? "" : "s"}${hits.length > MOST ? `, the best ${MOST} shown` : ""}` : "";
  found.replaceChildren(
    ...hits.slice(0, MOST).map(({ location, title, text }) => {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = base + location;
      link.textContent = title;
      const at = Math.max(text.toLowerCase().indexOf(words[0]) - 40, 0);
      const part = document.createElement("span");
      part.textContent = text.slice(at, at + 120);
      item.append(link, part);
      return item;
    }),
  );
};

input.addEventListener("input", search);
if (innerWidth <= 800) document.querySelector("nav details").open = false;

/** What a block's button copies: of a terminal, the commands without their prompts. */
const copied = (text) => {
  const lines = text.trimEnd().split("\n");
  if (!lines.some((line) => line.startsWith("$ "))) return `${lines.join("\n")}\n`;
  const commands = lines.filter((line, nth) => line.startsWith("$ ") || lines[nth - 1]?.endsWith("\\"));
  return `${commands.map((line) => line.replace(/^\$ /, "")).join("\n")}\n`;
};

for (const box of navigator.clipboard ? document.querySelectorAll(".codehilite") : []) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  const text = box.textContent;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(copied(text));
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  box.append(button);
}
