"""Makes mutants of C functions from clang's syntax tree: each is a file with one small change that compiles.

A mutant has an identity that stays when lines move and comments change: file, function, operator, the text before and after, the
statement around it, and a number among equals. OPERATORS says what the operators do."""
import collections
import dataclasses
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "check"))
from check_owners import syntax_tree  # noqa: E402

OPERATORS = {
    "negate": "a condition, a comparison or the choice of ?: becomes its opposite",
    "drop": "one side of && or || goes",
    "boundary": "< becomes <=, > becomes >= and the reverse; a loop leaves out its last turn",
    "remove": "a statement goes: a call, an assignment, a return without a value, break, continue",
    "swap": "true becomes false, an enum's value its next one, KILN_MIN becomes KILN_MAX, and the reverse",
    "constant": "a number or a character becomes another",
}
# Checks, texts and sizes of arrays decide nothing.
OPAQUE_MACROS = {"KILN_CHECK", "KILN_ERROR", "KILN_STR_ARG", "KILN_ARRAY_COUNT", "KILN_STR", "KILN_ARENA_ARRAY", "KILN_ARENA_NEW"}
# Memory that is not given back is found by the address sanitizer (./dev asan), secrets left in memory by tests/unit/proto, and what people
# read is no decision.
NOT_DECIDING = re.compile(r"\w*_(deinit|destroy|free)|void \w*_check")  # the last: invariants
PLAIN_CALLS = re.compile(r"kiln_log\w*|kiln_trace\w*|\w*_deinit|\w*_destroy|\w*free|free_\w+|kiln_thread_\w+|kiln_tracker_log|kiln_vec_reserve|explicit_bzero|abort|kiln_status_note")
TEXT_CALLS = re.compile(r"kiln_tracker_log|kiln_log\w*|kiln_status_note|kiln_strbuf_\w+|snprintf|fprintf|printf")
BOUNDARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
NOISE = {"ImplicitCastExpr", "ParenExpr", "ConstantExpr"}
TEXT_MAX = 100


@dataclasses.dataclass(frozen=True)
class Mutant:
    file: str
    function: str
    operator: str
    before: str
    after: str
    around: str
    number: int
    start: int  # bytes of the file that `text` replaces
    end: int
    text: str
    line: int

    def apply(self, source):
        """The file's bytes with the fault."""
        return source[:self.start] + self.text.encode() + source[self.end:]

    def change(self):
        place = f" in `{self.around}`" if self.around != self.before else ""
        return f"{self.operator} `{self.before}` -> `{self.after}`{place}" + (f" #{self.number}" if self.number else "")

    def stable(self):
        """What chooses the mutants of a run: not the file, which functions change more often than their names."""
        return f"{self.function}: {self.change()}"

    def identity(self):
        return f"{self.file}: {self.stable()}"


def plain(text):
    """One line without comments, cut where it gets long."""
    text = " ".join(re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S).split())
    return text if len(text) <= TEXT_MAX else text[:TEXT_MAX - 3] + "..."


def skip_text(data, at):
    """Behind the comment, string or character that begins here; `at` where none does."""
    if data.startswith(b"/*", at):
        return data.index(b"*/", at) + 2
    if data.startswith(b"//", at):
        return data.index(b"\n", at)
    if data[at:at + 1] in (b'"', b"'"):
        quote, end = data[at], at + 1
        while data[end] != quote:
            end += 2 if data[end] == ord("\\") else 1
        return end + 1
    return at


def find_at_depth(data, at, wanted):
    """The first of the bytes `wanted` outside of brackets that open after `at`."""
    depth = 0
    while at < len(data):
        after = skip_text(data, at)
        if after != at:
            at = after
            continue
        byte = data[at:at + 1]
        if depth == 0 and byte in wanted:
            return at
        depth += (byte in (b"(", b"[", b"{")) - (byte in (b")", b"]", b"}"))
        at += 1
    raise ValueError("a bracket that nothing closes")


class Maker:
    """Reads a file's tree and collects its mutants."""

    def __init__(self, root, file, build):
        self.file, self.data = file, (root / file).read_bytes()
        self.path = str((root / file).resolve())
        self.enum_of, self.found = {}, []
        self.last_file = None
        self.seen = set()
        tree = syntax_tree((root / file).resolve(), build)
        for node in tree["inner"]:
            self.locate(node)
            if node["kind"] == "EnumDecl":
                self.read_enum(node)
            elif node["kind"] == "FunctionDecl" and node["place"] == self.path:
                body = [n for n in node.get("inner", ()) if n["kind"] == "CompoundStmt"]
                returns = "void " if node["type"]["qualType"].startswith("void (") else ""
                silent = NOT_DECIDING.fullmatch(node["name"]) or NOT_DECIDING.fullmatch(returns + node["name"])
                if body and not silent and not self.is_macro(body[0]):  # a body that a macro makes has no text here
                    self.function = node["name"]
                    self.walk_statement(body[0])

    # ---- places ----------------------------------------------------------------------------------------------

    def bare(self, location):
        """Clang says a file only where it differs from that of the place that it said before."""
        self.last_file = location.get("file", self.last_file)
        return (self.last_file, location.get("offset"), location.get("tokLen"))

    def both(self, location):
        """A place as it is spelled and as it stands in the file; the same where no macro is."""
        if "spellingLoc" in location:
            spelling = self.bare(location["spellingLoc"])
            return spelling, self.bare(location["expansionLoc"]), location["expansionLoc"].get("isMacroArgExpansion", False)
        place = self.bare(location)
        return place, place, False

    def locate(self, node):
        """Puts the place of each node into it, in the order in which clang said them."""
        node["place"] = self.both(node["loc"])[1][0] if "loc" in node else self.last_file
        span = node.get("range", {})
        if span:
            node["at"] = (self.both(span["begin"]), self.both(span["end"]))
        for child in node.get("inner", ()):
            if child:
                self.locate(child)

    def span(self, node):
        """Where the node's text begins and ends; None where it is not all in this file, or comes out of a macro."""
        (begin_spelling, begin, begin_argument), (end_spelling, end, end_argument) = node["at"]
        if None in begin or None in end or begin[0] != self.path or end[0] != self.path:
            return None
        if begin_argument and end_argument and begin[1] == end[1]:
            name = self.word(begin[1])
            if name in OPAQUE_MACROS or begin_spelling[0] != self.path or end_spelling[0] != self.path:
                return None
            return begin_spelling[1], end_spelling[1] + end_spelling[2]
        start, stop = begin[1], end[1] + end[2]
        if end_spelling != end:  # ends in a macro: with its arguments
            rest = self.data[stop:]
            gap = len(rest) - len(rest.lstrip())
            if rest[gap:gap + 1] == b"(":
                stop = find_at_depth(self.data, stop + gap + 1, (b")",)) + 1
        return start, stop

    def word(self, at):
        return re.match(rb"\w*", self.data[at:at + 80]).group().decode()

    def is_macro(self, node):
        spelling, expansion, argument = node["at"][0]
        return spelling != expansion and not argument

    def text(self, span):
        return self.data[span[0]:span[1]].decode()

    # ---- mutants ---------------------------------------------------------------------------------------------

    def read_enum(self, node):
        constants = [n for n in node.get("inner", ()) if n["kind"] == "EnumConstantDecl"]
        usable = [n["name"] for n in constants if not n["name"].endswith(("_COUNT", "_MAX"))]
        for constant in constants:
            if constant["name"] in usable and len(usable) > 1:
                self.enum_of[constant["id"]] = usable[(usable.index(constant["name"]) + 1) % len(usable)]

    def add(self, operator, span, text, shown=None):
        """The file with `text` for what stands at `span`; `shown` is what the report calls the new text."""
        if (span, text) in self.seen:  # an argument that its macro repeats
            return
        self.seen.add((span, text))
        # Lines keep their numbers, which checks print.
        lines = self.data[span[0]:span[1]].count(b"\n")
        padded = text + "\n" * max(0, lines - text.count("\n"))
        before, around = plain(self.text(span)), plain(self.text(self.around))
        mutant = Mutant(self.file, self.function, operator, before, plain(text if shown is None else shown), around, 0, span[0], span[1], padded,
                        self.data[:span[0]].count(b"\n") + 1)
        self.found.append(mutant)

    def mutants(self):
        count, out = collections.Counter(), []
        for mutant in self.found:
            count[mutant.stable()] += 1
            number = count[mutant.stable()] - 1
            out.append(dataclasses.replace(mutant, number=number + 1 if number else 0))
        return out

    # ---- statements ------------------------------------------------------------------------------------------

    def head(self, node, until):
        """The statement's text up to what it governs."""
        at = node["at"][0][1][1]
        stop = until["at"][0][1][1]
        self.around = (at, stop)

    def walk_statement(self, node):
        kind = node["kind"]
        inner = [n for n in node.get("inner", ()) if n]
        if kind == "CompoundStmt":
            for child in inner:
                self.walk_statement(child)
        elif kind in ("IfStmt", "WhileStmt", "SwitchStmt"):
            self.head(node, inner[1])
            self.walk_expression(inner[0]) if kind == "SwitchStmt" else self.condition(inner[0])
            for child in inner[1:]:
                self.walk_statement(child)
        elif kind == "DoStmt" and not self.is_macro(node):
            self.walk_statement(inner[0])
            if self.span(inner[1]):
                self.around = self.span(inner[1])
                self.condition(inner[1])
        elif kind == "ForStmt":
            start, _, condition, step, body = node["inner"]
            self.head(node, body)
            if start:
                self.walk_statement_part(start)
            if condition:
                self.condition(condition, loop=True)
            if step:
                self.walk_expression(step)
            self.walk_statement(body)
        elif kind in ("CaseStmt", "DefaultStmt", "LabelStmt"):
            self.walk_statement(inner[-1])  # not what the label says
        elif kind == "NullStmt":
            pass
        else:
            self.leaf_statement(node)

    def walk_statement_part(self, node):
        if node["kind"] == "DeclStmt":
            for declaration in node["inner"]:
                for child in declaration.get("inner", ()):
                    self.walk_expression(child)
        else:
            self.walk_expression(node)

    def leaf_statement(self, node):
        place = node["at"][0][1]
        if place[0] != self.path or place[1] is None:
            return
        start = place[1]
        name = self.word(start)
        if name in OPAQUE_MACROS or self.is_macro(node) and name not in self.text((start, start + 80)):
            return
        end = find_at_depth(self.data, start, (b";",)) + 1
        self.around = (start, end)
        kind = node["kind"]
        callee = re.match(r"(?:\(\w+ \*\))?(\w*)", self.text((start, end))).group(1)
        can_go = (kind in ("CallExpr", "CompoundAssignOperator", "BreakStmt", "ContinueStmt")
                  or kind == "BinaryOperator" and node["opcode"] == "=" or kind == "UnaryOperator" and node["opcode"] in ("++", "--")
                  or kind == "ReturnStmt" and not node.get("inner")
                  or kind in ("DoStmt", "ParenExpr", "StmtExpr") and self.is_macro(node))
        if can_go and not PLAIN_CALLS.fullmatch(callee):
            self.add("remove", (start, end), ";")
        if kind == "CallExpr" and TEXT_CALLS.fullmatch(callee):
            return
        self.walk_statement_part(node)

    # ---- expressions -----------------------------------------------------------------------------------------

    @staticmethod
    def bare_expression(node):
        while node["kind"] in NOISE and len(node.get("inner", ())) == 1:
            node = node["inner"][0]
        return node

    def condition(self, node, loop=False):
        """What decides: each side of && and || may go, and each comparison may be its opposite."""
        node = self.bare_expression(node)
        span = self.span(node)
        if node["kind"] == "BinaryOperator" and node["opcode"] in ("&&", "||") and span:
            for gone, stays in ((0, 1), (1, 0)):
                kept = self.span(node["inner"][stays])
                if kept:
                    self.add("drop", span, f"({self.text(kept)})")
            for side in node["inner"]:
                self.condition(side)
            return
        if loop and node["kind"] == "BinaryOperator" and node["opcode"] == "<" and span and not self.is_macro(node):
            self.add("boundary", span, f"1 + {self.text(span)}")
        elif span and not self.is_macro(node):
            self.negate(node, span)
            if not loop and node["kind"] == "BinaryOperator" and node["opcode"] in BOUNDARY:
                self.replace_operator("boundary", node, BOUNDARY)
        self.walk_below(node)

    def negate(self, node, span):
        if node["kind"] == "BinaryOperator" and node["opcode"] in OPPOSITE:
            self.replace_operator("negate", node, OPPOSITE)
        elif node["kind"] == "UnaryOperator" and node["opcode"] == "!" and self.span(node["inner"][0]):
            self.add("negate", span, self.text(self.span(node["inner"][0])))
        else:
            text = self.text(span)
            self.add("negate", span, f"!{text}" if re.fullmatch(r"[\w.>\[\]-]+|\w+\(.*\)", text, re.S) else f"!({text})")

    def replace_operator(self, operator, node, table):
        left, right, whole = self.span(node["inner"][0]), self.span(node["inner"][1]), self.span(node)
        if not left or not right or not whole:
            return
        at = left[1]
        while self.data[at:at + 1].isspace() or skip_text(self.data, at) != at:
            at = max(skip_text(self.data, at), at + 1)
        old = node["opcode"].encode()
        if not self.data.startswith(old, at):
            return
        text = self.text((whole[0], at)) + table[node["opcode"]] + self.text((at + len(old), whole[1]))
        self.add(operator, whole, text)

    def walk_below(self, node):
        for child in node.get("inner", ()):
            if child:
                self.walk_expression(child)

    def walk_expression(self, node):
        kind = node["kind"]
        if "at" not in node:
            return
        if kind in ("UnaryExprOrTypeTraitExpr", "StringLiteral", "PredefinedExpr"):
            return
        if self.is_macro(node) and self.macro(node):
            return
        span = self.span(node)
        if kind == "ConditionalOperator" and span:
            choice, yes, no = node["inner"]
            self.condition(choice)
            self.walk_expression(yes)
            self.walk_expression(no)
            return
        if kind == "BinaryOperator" and node["opcode"] in ("&&", "||") and span:
            self.condition(node)
            return
        if kind == "BinaryOperator" and span and not self.is_macro(node):
            if node["opcode"] in OPPOSITE:
                self.replace_operator("negate", node, OPPOSITE)
            if node["opcode"] in BOUNDARY:
                self.replace_operator("boundary", node, BOUNDARY)
        elif kind == "UnaryOperator" and node["opcode"] == "!" and span:
            self.negate(node, span)
        elif kind in ("IntegerLiteral", "FloatingLiteral", "CharacterLiteral") and span:
            self.literal(kind, span)
        elif kind == "DeclRefExpr" and span and node["referencedDecl"]["kind"] == "EnumConstantDecl":
            other = self.enum_of.get(node["referencedDecl"]["id"])
            if other and self.text(span) == node["referencedDecl"]["name"]:
                self.add("swap", span, other)
        elif kind == "InitListExpr" and span and re.fullmatch(r"\{\s*0?\s*\}", self.text(span)):
            return
        elif kind == "CallExpr" and span and TEXT_CALLS.fullmatch(self.word(span[0])):
            return
        elif kind == "ImplicitCastExpr" and node.get("castKind") == "NullToPointer":
            return
        self.walk_below(node)

    def macro(self, node):
        """Whether there is nothing below for the other rules: true where the node is a use of a macro."""
        span = self.span(node)
        if not span:
            return True
        name = self.word(span[0])
        text = self.text(span)
        if node["at"][0][1] != node["at"][1][1]:  # begins with a macro and goes on
            return False
        if name in ("true", "false") and text == name:
            self.add("swap", span, "false" if name == "true" else "true")
        elif name in ("KILN_MIN", "KILN_MAX"):
            self.add("swap", span, ("KILN_MAX" if name == "KILN_MIN" else "KILN_MIN") + text[8:])
            self.walk_below(node)
        elif name not in OPAQUE_MACROS:
            self.walk_below(node)
        return True

    def literal(self, kind, span):
        text = self.text(span)
        if kind == "CharacterLiteral":
            self.add("constant", span, r"'\1'" if text != r"'\1'" else r"'\2'")
        elif kind == "FloatingLiteral":
            self.add("constant", span, "1.0" if float(text.rstrip("fF")) == 0 else f"(2 * {text})")
        elif re.fullmatch(r"0[xX][0-9a-fA-F]+[uUlL]*|\d+[uUlL]*", text):
            digits, suffix = re.fullmatch(r"(.*?)([uUlL]*)", text).groups()
            value = int(digits, 0) if digits != "0" and not re.match(r"0\d", digits) else int(digits, 8)
            self.add("constant", span, f"{0 if value == 1 else value + 1 if value < 100 else 2 * value}{suffix}")


def mutants_of(root, file, build):
    sys.setrecursionlimit(100000)
    return Maker(pathlib.Path(root), file, pathlib.Path(build)).mutants()
