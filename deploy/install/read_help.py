"""Reads --help texts, which come from the tables of options and actions, for completion.py. A program is a tree of levels: the program,
its commands, their actions. What an argument is, a table says: cli/arguments.def."""
import dataclasses
import re
import subprocess



@dataclasses.dataclass
class Known:
    """What tables know."""
    commands: list  # (name, one line) of those of `kiln`; empty for other programs
    arguments: dict  # metavariable: what shells offer for it
    words: dict  # "targets", "networks": those words


@dataclasses.dataclass
class Option:
    names: list  # "--out", "-o"; the first is the long one
    metavar: str  # "" for flags
    help: str
    kind: str  # of the value: "files", "folders", "words", "names KIND" (that `kiln names` lists) or "" (nothing is offered)
    words: list


@dataclasses.dataclass
class Level:
    names: list  # ["kiln", "fleet", "drain"]
    help: str
    options: list
    below: list  # commands or actions
    kind: str  # of arguments, as of values
    words: list
    once: bool  # only the first argument is of that kind

    def all_options(self):
        """Its own, and those that only an action of it has."""
        if len(self.names) == 1:
            return self.options
        known = {option.names[0]: option for level in [*self.below, self] for option in level.options}
        return list(known.values())


def kind_of(metavar, help_text, known):
    """What is offered for a metavariable, as in BOARD, [BOARD], BOARD,K=V,..., INPUT=FILE."""
    plain = metavar.removesuffix("...").strip("[]")
    first = re.split(r"[,\[]", plain.rpartition("=")[2] if plain.endswith("=FILE") else plain)[0]
    given = known.arguments.get(first.removesuffix("..."))
    if given in known.words:
        return "words", known.words[given]
    if given:
        return (given if given in ("files", "folders") else f"names {given}"), []
    if re.fullmatch(r"[a-z0-9]+(\|[a-z0-9]+)+", plain):
        return "words", plain.split("|")
    text = re.sub(r"\s+,", ",", re.sub(r" ?\([^()]*\)", "", help_text))
    listed = re.search(r"(?:^|: )((?:[a-z0-9_-]+, )+[a-z0-9_-]+ or [a-z0-9_-]+)(?=$|[,;. ])", text)
    return ("words", re.split(r", | or ", listed[1])) if listed and plain not in ("N", "NAME", "ID") else ("", [])


def read_options(text, known):
    for spelled, does in re.findall(r"^  (-\S.*?)(?:  +|\n {26})(\S.*)$", text.partition("\noptions:\n")[2], re.M):
        words = spelled.replace(", ", " ").split()
        names = [word for word in words if word.startswith("-")]
        metavar = words[-1] if words[-1] != names[-1] else ""
        yield Option(names, metavar, does, *(kind_of(metavar, does, known) if metavar else ("", [])))


def ask(program, words):
    return subprocess.run([program, *words, "--help"], check=True, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "KILN_CONFIG": "none"}).stdout


def arguments_of(text, names, known):
    """The kind of the arguments that the usage line names first, its words, and whether others follow that are not of that kind."""
    usage = re.search(r"^usage: (.*)$", text, re.M)[1].split(" ")[len(names):]
    metavars = [word for before, word in zip(["", *usage], usage)
                if re.fullmatch(r"\[?[A-Z][A-Z./a-z-]*(\[[^\]]*\])?\]?(\.\.\.)?", word) and not before.lstrip("[").startswith("-")]
    if not metavars:
        return "", [], False
    return *kind_of(metavars[0], "", known), "..." not in metavars[0]


def read_level(program, names, help_text, known):
    """A command or an action, and the actions in its help text. `kiln vta asm TEXT` takes a file, other texts are words."""
    text = ask(program, names[1:])
    kind = ("files", [], True) if names[1:] == ["vta", "asm"] else arguments_of(text, names, known)
    level = Level(names, help_text, list(read_options(text, known)), [], *kind)
    if len(names) == 2 and re.search(r"ACTION", text.split("\n", 1)[0]):
        rows = re.findall(r"^  ([a-z][a-z-]*)(?: .*?)? {2}(\S.*)$", text.partition("\noptions:\n")[0], re.M)
        level.below = [read_level(program, [*names, action], does, known) for action, does in rows]
    return level


def read_program(name, program, known):
    if not known.commands:
        return read_level(program, [name], "", known)
    below = [read_level(program, [name, command], does, known) for command, does in known.commands]
    topics = [Level([name, "help", command], does, [], [], "", [], False) for command, does in [*known.commands, ("exit-codes", "what commands return to the shell")]]
    below.append(Level([name, "help"], "tell more about a command", [], topics, "", [], False))
    own = [Option(["--help", "-h"], "", "list the commands", "", []), Option(["--version", "-V"], "", "print the version and end", "", [])]
    return Level([name], "", own, below, "", [], False)
