"""Tables of benchmarks: printed row by row, and kept as Markdown for docs/figures.md."""
import datetime
import pathlib
import subprocess

import kiln


def machine():
    """This machine in a line: processor, cores, the multiply-add peak of one and what one reads from memory."""
    info = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = next((line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")), "unknown processor")
    return f"{model}, {info.count('processor' + chr(9))} cores; {kiln.speeds()}"


class Table:
    def __init__(self, title, columns, save=None):
        self.save, self.lines = save, []
        self.widths = [max(len(c) + 1, 20 if i == 0 else 9) for i, c in enumerate(columns)]
        self.title, self.machine = title, machine()
        print(f"{title}\n{self.machine}")
        self.row(columns)
        self.lines.append("|" + "---|" * len(columns))

    def row(self, cells):
        print("".join(f"{c:<{w}}" if i == 0 else f"{c:>{w}}" for i, (c, w) in enumerate(zip(cells, self.widths, strict=True))), flush=True)
        self.lines.append("| " + " | ".join(c.strip() for c in cells) + " |")

    def end(self, remarks):
        print("\n".join(remarks))
        if not self.save:
            return
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
        with open(self.save, "a", encoding="utf-8") as file:
            file.write(f"\n## {self.title}\n\n{self.machine}. Commit {commit}, {datetime.date.today()}.\n\n" + "\n".join(self.lines)
                       + "\n\n" + "\n".join(f"* {r}" for r in remarks) + "\n")
