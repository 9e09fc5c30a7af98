"""Finds links of a site that lead nowhere, to pages, files and headings: links.py DIRECTORY"""
import os
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

root = os.path.abspath(sys.argv[1])


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.ids, self.links = set(), set()

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.links.add(value)


pages = {}
for folder, _, files in os.walk(root):
    for name in files:
        # print.html has all pages in one, with their links.
        if name.endswith(".html") and name not in ("print.html", "404.html", "toc.html"):
            page = Page()
            page.feed(open(os.path.join(folder, name), encoding="utf-8").read())
            pages[os.path.join(folder, name)] = page
broken = 0
for path, page in sorted(pages.items()):
    for link in sorted(page.links):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = os.path.normpath(os.path.join(os.path.dirname(path), unquote(parts.path))) if parts.path else path
        heading = unquote(parts.fragment)
        if not os.path.exists(target) or (heading and target in pages and heading not in pages[target].ids):
            print(f"error: {os.path.relpath(path, root)} links to {link}, which does not exist", file=sys.stderr)
            broken += 1
sys.exit(broken > 0)
