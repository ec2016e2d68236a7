"""Reads the texts of the repository for scripts/words and scripts/prose.

`blocks(path)` returns the texts of one file: paragraphs of Markdown and of comments, string literals, and lines of
code. In paragraphs, code spans, URLs and link targets are replaced by as many other characters. So each counts as one
word, and offsets stay valid.
"""
import bisect
import io
import os
import re
import subprocess
import tokenize

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
C_FAMILY = (".swift", ".c", ".h")


class Block:
    """A text with the line number of each part. Its kind is prose, heading, cell, comment, string, code or shell."""

    def __init__(self, path, kind, parts):
        self.path, self.kind = path, kind
        self.starts, self.numbers, texts, length = [], [], [], 0
        for number, text in parts:
            self.starts.append(length)
            self.numbers.append(number)
            texts.append(text)
            length += len(text) + 1
        self.text = self.original = " ".join(texts)

    def line(self, offset):
        """The line number of the character at `offset`."""
        return self.numbers[max(0, bisect.bisect_right(self.starts, offset) - 1)]


def files(arguments):
    """The files that git knows or would add below the given folders, by default all. Symbolic links are left out."""
    command = ["git", "ls-files", "-z", "-co", "--exclude-standard", "--", *(arguments or [ROOT])]
    names = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    paths = sorted({os.path.relpath(os.path.abspath(name), ROOT) for name in names.split("\0") if name})
    return [path for path in paths if os.path.isfile(full := os.path.join(ROOT, path)) and not os.path.islink(full)]


def blocks(path):
    """The texts of one file; none if its kind is not known."""
    kind = language(path)
    if kind is None:
        return []
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        text = file.read()
    if kind == "markdown":
        return paragraphs(path, list(enumerate(text.splitlines(), 1)), "prose")
    return {"c": c_family, "python": python, "shell": shell}[kind](path, text)


def language(path):
    if path.endswith(".md"):
        return "markdown"
    if path.endswith(C_FAMILY):
        return "c"
    if path.endswith(".sh"):
        return "shell"
    if path.endswith(".py"):
        return "python"
    if "." in os.path.basename(path):
        return None
    with open(os.path.join(ROOT, path), "rb") as file:
        first = file.readline(100)
    if not first.startswith(b"#!"):
        return None
    return "python" if b"python" in first else "shell"


# Paragraphs

def mask(text):
    """`text` with code spans, URLs and link targets masked, and without emphasis; as long as before."""
    text = re.sub(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", lambda span: "`" + "x" * (len(span[0]) - 2) + "`", text)
    text = re.sub(r"\]\([^()\s]*\)", lambda target: "]" + " " * (len(target[0]) - 1), text)
    text = re.sub(r"\bhttps?://[^\s)>\]]+", lambda url: "u" * len(url[0]), text)
    return re.sub(r"\*\*", "  ", text)


def paragraphs(path, lines, kind):
    """The paragraphs, list items, headings and cells of Markdown, given as pairs of line number and text."""
    found, parts, fence, in_list, after_blank = [], [], None, False, True

    def end():
        if parts:
            block = Block(path, kind, parts)
            block.text = mask(block.original)
            found.append(block)
        parts.clear()

    for number, raw in lines:
        line = raw.strip()
        if fence:
            if line.startswith(fence):
                fence = None
            continue
        if opening := re.match(r"```+|~~~+", line):
            end()
            fence, after_blank = opening[0], False
            continue
        if not line:
            end()
            after_blank = True
            continue
        if line.startswith("<!--") and line.endswith("-->"):
            end()
            continue
        indent = len(raw) - len(raw.lstrip())
        marker = re.match(r"([-*+]|\d+[.)])\s+(\[[ x]\]\s+)?", line)
        if indent == 0 and after_blank and not marker:
            in_list = False
        if after_blank and indent >= 4 and not in_list and not parts:
            continue  # An indented code block; it goes on until a blank line or less indent.
        after_blank = False
        if line.startswith("#"):
            end()
            heading = Block(path, "heading", [(number, line.lstrip("# "))])
            heading.text = mask(heading.original)
            found.append(heading)
        elif line.startswith("|"):
            end()
            for cell in re.split(r"(?<!\\)\|", mask(line.strip("|"))):
                if cell.strip(" :-"):
                    found.append(Block(path, "cell", [(number, cell.strip())]))
        else:
            if marker:
                end()
                in_list = True
                line = line[marker.end():]
            line = re.sub(r"^(MARK: -?\s*|Parameters?( \w+)?: *|Returns: *|Throws: *)", "", line)
            if line:
                parts.append((number, line))
    end()
    return found


def sentences(block):
    """The sentences of a block as pairs of offset and text."""
    start = 0
    for stop in re.finditer(r"[.!?]+[\"')\]*”]*\s+", block.text):
        before = block.text[start:stop.start() + 1]
        if re.search(r"(\b(e\.g|i\.e|vs|cf|etc|sec|no|fig|approx)\.$)|\(\w\.$", before, re.IGNORECASE):
            continue
        yield start, block.text[start:stop.end()].strip()
        start = stop.end()
    if block.text[start:].strip():
        yield start, block.text[start:].strip()


def comment(path, lines):
    """The paragraphs of a comment: pairs of line number and text without marker."""
    indents = [len(text) - len(text.lstrip()) for _, text in lines if text.strip()]
    common = min(indents, default=0)
    return paragraphs(path, [(number, text[common:].rstrip()) for number, text in lines], "comment")


# Swift and C

TOKEN = re.compile(r"//|/\*|(#*)(\"\"\"|\")|'(\\.|[^'\\\n])'|\n")


class Scanner:
    """Separates comments, strings and code. A string inside an interpolation becomes a block of its own."""

    def __init__(self, path, text):
        self.path, self.text, self.found = path, text, []
        self.newlines = [index for index, character in enumerate(text) if character == "\n"]
        self.comments, self.marker, self.string = [], None, []

    def number(self, offset):
        return bisect.bisect_left(self.newlines, offset) + 1

    def end_comment(self):
        if self.comments:
            self.found += comment(self.path, self.comments)
        self.comments = []

    def end_string(self):
        if self.string:
            self.found.append(Block(self.path, "string", self.string))
        self.string = []

    def code(self, start, end):
        text = self.text[start:end]
        if text.strip():
            if text.strip() != "+":
                self.end_string()
            self.end_comment()
            self.found.append(Block(self.path, "code", [(self.number(start), text)]))

    def scan(self, position, interpolated=False):
        """Reads code up to the end of the file or to the closing parenthesis of an interpolation. Returns that offset."""
        depth, start = 0, position
        token = re.compile(TOKEN.pattern + r"|[()]") if interpolated else TOKEN
        while match := token.search(self.text, position):
            position, kind = match.end(), match[0]
            if kind in "()":
                depth += 1 if kind == "(" else -1
                if depth < 0:
                    self.code(start, match.start())
                    return position
                continue
            self.code(start, match.start())
            if kind == "//":
                position = self.line_comment(match.start())
            elif kind == "/*":
                position = self.block_comment(match.start())
            elif match[2]:
                position = self.literal(position, match[1], match[2])
            start = position
        self.code(start, len(self.text))
        self.end_comment()
        self.end_string()
        return len(self.text)

    def line_comment(self, start):
        end = self.text.find("\n", start)
        end = len(self.text) if end < 0 else end
        marker = re.match(r"//[/!]?", self.text[start:end])[0]
        number = self.number(start)
        if self.comments and (self.marker != marker or self.comments[-1][0] != number - 1):
            self.end_comment()
        self.marker = marker
        self.comments.append((number, self.text[start + len(marker):end]))
        return end

    def block_comment(self, start):
        end = self.text.find("*/", start + 2)
        end = len(self.text) if end < 0 else end
        self.end_comment()
        lines = self.text[start + 2:end].split("\n")
        first = self.number(start)
        lines = [(first + index, re.sub(r"^\s*\*+ ?", "", line)) for index, line in enumerate(lines)]
        self.found += comment(self.path, lines)
        return end + 2

    def literal(self, position, hashes, quotes):
        line_end = "|\n" if quotes == '"' else ""
        stop = re.compile(re.escape(quotes + hashes) + r"|\\" + hashes + r"(\(|.|\n)" + line_end)
        parts, piece, start = self.string, "", position
        self.string = []
        while match := stop.search(self.text, position):
            piece += self.text[start:match.start()]
            position = start = match.end()
            if match[0] in (quotes + hashes, "\n"):
                break
            if match[1] == "(":
                self.end_comment()
                position = start = self.scan(position, interpolated=True)
                self.end_string()
                piece += "X"
            else:
                piece += {"n": "\n", "t": " ", "\n": " "}.get(match[1], match[1])
        number = self.number(position) - piece.count("\n") if quotes == '"""' else self.number(position)
        for index, line in enumerate(piece.split("\n")):
            if line.strip():
                parts.append((number + (index if quotes == '"""' else 0), line.strip()))
        self.string = parts
        return position


def c_family(path, text):
    scanner = Scanner(path, text)
    scanner.scan(0)
    return scanner.found


# Python and shell

def python(path, text):
    found, comments = [], []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        number = token.start[0]
        if token.type == tokenize.COMMENT:
            if comments and comments[-1][0] != number - 1:
                found += comment(path, comments)
                comments = []
            if not token.string.startswith("#!"):
                comments.append((number, token.string[1:]))
        elif token.type == tokenize.STRING or "STRING_MIDDLE" in tokenize.tok_name[token.type]:
            lines = [(number + index, line.strip("\"'")) for index, line in enumerate(token.string.split("\n"))]
            if token.string.lstrip("rbfu").startswith('"""'):
                found += comment(path, lines)
            else:
                found.append(Block(path, "string", lines))
        elif token.type == tokenize.NAME:
            found.append(Block(path, "code", [(number, token.string)]))
    return found + comment(path, comments)


def shell(path, text):
    found, comments = [], []
    for number, line in enumerate(text.splitlines(), 1):
        match = re.search(r"(?:^|\s)#(?![!{])(.*)", line)
        code = line[:match.start()] if match else line
        if comments and (code.strip() or not match):
            found += comment(path, comments)
            comments = []
        if match:
            comments.append((number, match[1]))
        if code.strip() and not line.startswith("#!"):
            found.append(Block(path, "shell", [(number, code)]))
    return found + comment(path, comments)
