"""An HTML page as its elements and words."""

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "input"}


class Page(HTMLParser):
    """The elements with their attributes, the text, and whether everything that opens is closed."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.open, self.words, self.raw = [], [], [], {}
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("script", "style"):
            self.raw[self.open[-1]] = self.raw.get(self.open[-1], "") + data
        else:
            self.words.append(data)

    @property
    def text(self):
        return " ".join("".join(self.words).split())

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]
