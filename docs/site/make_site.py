#!/usr/bin/env python3
"""Makes the documentation site: make_site.py OUT [--check].

Copies the documents of the tree into OUT/source in the order of the site's chapters, points links to files outside the site
at their place in the repository, and has MkDocs build OUT/html. --check also fails on links and anchors that lead nowhere and on pages that load anything from elsewhere."""
import html.parser
import json
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE = pathlib.Path(__file__).resolve().parent

# Chapters: a title, and pages in their order; a folder stands for all its other pages, by title.
CHAPTERS = [
    ("Kiln", ["README.md"]),
    ("Tutorial", ["docs/tutorial/first-hour.md", "docs/tutorial/resnet.md", "docs/tutorial/raspberry-pi.md", "docs/tutorial/fleet.md"]),
    ("How-to", ["deploy/raspberry-pi.md", "docs/how-to"]),
    ("Explanation", ["docs/explanation/search.md", "docs/explanation/measuring.md", "docs/explanation/leases.md", "docs/explanation/containment.md",
                     "docs/ARCHITECTURE.md"]),
    ("Reference", ["docs/reference/errors.md", "docs/reference"]),
    ("Comparison", ["docs/comparison.md", "docs/figures.md"]),
    ("Project", ["docs/STATUS.md", "docs/GLOSSARY.md", "docs/decisions"]),
]
PICTURES = (".svg", ".png", ".webp")


def title_of(path):
    """The first heading, without marks."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            return line[2:].replace("`", "").strip()
    raise SystemExit(f"{path.relative_to(ROOT)}: no heading")


def chapters():
    """(title, [pages]) with folders listed; each page once, and none left out."""
    taken = {page for _, pages in CHAPTERS for page in pages if page.endswith(".md")}
    for title, pages in CHAPTERS:
        listed = []
        for page in pages:
            path = ROOT / page
            if path.is_file():
                listed.append(path)
            else:
                rest = [p for p in path.glob("*.md") if str(p.relative_to(ROOT)) not in taken]
                listed += sorted(rest, key=lambda p: title_of(p).lower())
        yield title, listed


def place(path):
    """Where a page lies in the site's source."""
    relative = path.relative_to(ROOT)
    if relative.name == "README.md" and len(relative.parts) == 1:
        return pathlib.PurePosixPath("index.md")
    parts = relative.parts[1:] if relative.parts[0] == "docs" else relative.parts
    return pathlib.PurePosixPath(*parts[:-1], parts[-1].lower())


def with_links(path, places):
    """The page's text with links as they are in the site; a link to a file that is no page becomes the file's name."""
    text = path.read_text(encoding="utf-8")
    here = places[path]

    def one(found):
        label, target = found.group(1), found.group(2)
        name, _, anchor = target.partition("#")
        if "://" in target or not name:
            return found.group(0)
        file = (path.parent / name).resolve()
        if file in places:
            up = "../" * (len(here.parts) - 1)
            return f"[{label}]({up}{places[file]}{'#' + anchor if anchor else ''})"
        if file.suffix in PICTURES:
            return found.group(0)
        return label if label.startswith("`") else f"`{file.relative_to(ROOT)}`" if file.exists() else found.group(0)

    return re.sub(r"\[([^\]\n]+)\]\(([^)\s]+)\)", one, text)


def write_source(source):
    pages = list(chapters())
    places = {path: place(path) for _, listed in pages for path in listed}
    for path, where in places.items():
        out = source / where
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(with_links(path, places), encoding="utf-8")
    for picture in (p for p in (ROOT / "docs").rglob("*") if p.suffix in PICTURES):
        out = source / picture.relative_to(ROOT / "docs")
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, out)
    shutil.copy(SITE / "site.css", source / "site.css")
    decisions = [path for path in places if path.parent.name == "decisions"]
    (source / "decisions.md").write_text("# Decisions\n\n" + "".join(f"* [{title_of(path)}]({places[path]})\n" for path in decisions), encoding="utf-8")
    menus = [{title: [{title_of(path): str(places[path])} for path in listed if path not in decisions]} for title, listed in pages]
    menus[-1]["Project"].append({"Decisions": "decisions.md"})  # a hundred lines, too many for a menu
    return menus


def build(out):
    source, html = out / "source", out / "html"
    shutil.rmtree(out, ignore_errors=True)
    source.mkdir(parents=True)
    settings = {"site_name": "Kiln", "docs_dir": str(source), "site_dir": str(html), "nav": write_source(source), "use_directory_urls": False,
                "theme": {"name": "mkdocs", "highlightjs": False, "nav_style": "dark"}, "extra_css": ["site.css"],
                "markdown_extensions": ["tables", "toc"], "strict": True}
    (out / "mkdocs.yml").write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
    done = subprocess.run(["mkdocs", "build", "--quiet", "--config-file", out / "mkdocs.yml"], check=False)
    if done.returncode:
        raise SystemExit("docs/site/make_site.py: MkDocs could not build the site")
    return html


class Page(html.parser.HTMLParser):
    """What a built page defines and refers to."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loads = {""}, [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors.update(attrs[name] for name in ("id", "name") if attrs.get(name))
        if tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])
        if tag in ("script", "img", "iframe") and attrs.get("src"):
            self.loads.append(attrs["src"])
        if tag == "link" and attrs.get("href") and attrs.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(attrs["href"])


def faults(built):
    """Links of the built site that lead nowhere, and what it loads from elsewhere."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in built.rglob("*.html")}
    for path, page in sorted(pages.items()):
        if path.name in ("404.html", "search.html"):
            continue
        for link in page.loads + page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme in ("http", "https") or link.startswith("//"):
                if link in page.loads:
                    yield f"{path.name} loads {link}"
                continue
            if parts.scheme:
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{path.relative_to(built)} links to {link}, which does not exist"
            elif parts.fragment and target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].anchors:
                yield f"{path.relative_to(built)} links to {link}, which has no such heading"


def main():
    out = pathlib.Path(sys.argv[1]).resolve()
    built = build(out)
    found = list(faults(built)) if "--check" in sys.argv else []
    print("\n".join(found) or f"{sum(1 for _ in built.rglob('*.html'))} pages: {built}/index.html")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
