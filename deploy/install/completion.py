#!/usr/bin/env python3
"""Writes the completions of bash, zsh and fish for a program from its --help texts.

completion.py BASH ZSH FISH TARGETS.def NETWORKS.def ARGUMENTS.def COMMANDS.def|- NAME PROGRAM     the first three are the files to write
"""
import pathlib
import re
import sys

from read_help import Known, read_program

HEAD = "# Completes the command line of {}. Generated from its --help texts by deploy/install/completion.py.\n"


def quote(text):
    """One word of any of the three shells."""
    return "'" + text.replace("'", "'\\''") + "'"


def all_levels(level):
    yield level
    for below in level.below:
        yield from all_levels(below)


def short(help_text):
    """The first clause of a help text: what a menu has room for."""
    text = re.split(r"[;:(]|, (?:as|or|and) ", help_text, maxsplit=1)[0].strip().rstrip(",.")
    return text if len(text) <= 70 else text[:67].rsplit(" ", 1)[0] + "..."


# ---- bash ----

BASH = """
_@NAME@_complete() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} path=@PROGRAM@ word i kind given=0
    COMPREPLY=()
    # bash makes '=' a word of its own.
    if [ "$cur" = = ]; then
        cur=
    elif [ "$prev" = = ]; then
        prev=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case $word in
            -*) [ -z "$(_@NAME@_value "$path" "$word")" ] || [ $((i + 1)) -ge "$COMP_CWORD" ] || ((i++)) ;;
            =) ((i++)) ;;
            *) case " $(_@NAME@_below "$path") " in *" $word "*) path="$path $word" ;; *) ((given++)) ;; esac ;;
        esac
    done
    kind=$(_@NAME@_value "$path" "$prev")
    if [ -z "$kind" ]; then
        case $cur in
            -*) kind="words $(_@NAME@_options "$path")" ;;
            *) kind="words $(_@NAME@_below "$path")" && [ "$kind" != "words " ] || kind=$(_@NAME@_arguments "$path") ;;
        esac
    fi
    case $kind in "first "*) [ "$given" -gt 0 ] && kind= || kind=${kind#first } ;; esac
    case $kind in
        "words "*) mapfile -t COMPREPLY < <(compgen -W "${kind#words }" -- "$cur") ;;
        files) mapfile -t COMPREPLY < <(compgen -f -- "$cur") && compopt -o filenames ;;
        folders) mapfile -t COMPREPLY < <(compgen -d -- "$cur") && compopt -o filenames ;;
        "names "*) _@NAME@_names "${kind#names }" "$cur" ;;
    esac
}
# Names that a tracker or a file knows; what it was told is not expanded, but quoted. It is asked with the options that were typed.
_@NAME@_names() {
    local name typed
    read -ra typed <<< "${COMP_LINE:0:${COMP_POINT:-0}}"
    while IFS= read -r name; do
        [[ $name != "$2"* ]] || COMPREPLY+=("$(printf %q "$name")")
    done < <(command kiln names "$1" -- "${typed[@]}" 2> /dev/null < /dev/null)
}
complete -F _@NAME@_complete @PROGRAM@
"""


def bash_function(name, what, rows):
    lines = [f"_{name}_{what}() {{", '    case "$*" in']
    lines += [f"        {'|'.join(quote(key) for key in keys)}) echo {quote(value)} ;;" for keys, value in rows]
    return "\n".join([*lines, "    esac", "}"])


def kind_text(kind, words):
    return f"words {' '.join(words)}" if kind == "words" else kind


def write_bash(program):
    name, levels = program.names[0].replace("-", "_"), list(all_levels(program))
    paths = {id(level): " ".join(level.names) for level in levels}
    values = [([f"{paths[id(level)]} {spelled}" for spelled in option.names], kind_text(option.kind, option.words) or "nothing")
              for level in levels for option in level.all_options() if option.metavar]
    parts = [bash_function(name, "below", [([paths[id(level)]], " ".join(below.names[-1] for below in level.below)) for level in levels if level.below]),
             bash_function(name, "options", [([paths[id(level)]], " ".join(option.names[0] for option in level.all_options())) for level in levels]),
             bash_function(name, "value", values),
             bash_function(name, "arguments", [([paths[id(level)]], "first " * level.once + kind_text(level.kind, level.words)) for level in levels if level.kind])]
    return "\n".join(parts) + BASH.replace("@NAME@", name).replace("@PROGRAM@", program.names[0])


# ---- zsh ----

ZSH_ACTIONS = {"files": "_files", "folders": "_files -/", "": " "}


def zsh_text(text):
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def zsh_action(kind, words):
    if kind.startswith("names "):
        return f" _kiln_name_of {kind.removeprefix('names ')}" # after a space zsh adds no words of its own
    return "(" + " ".join(words) + ")" if kind == "words" else ZSH_ACTIONS[kind]


def zsh_options(level):
    for option in level.all_options():
        value = f":{zsh_text(option.metavar)}:{zsh_action(option.kind, option.words)}" if option.metavar else ""
        for spelled in option.names:
            ends = "=" if option.metavar and spelled.startswith("--") else ""
            yield quote(f"*{spelled}{ends}[{zsh_text(short(option.help))}]{value}")


def zsh_function(level):
    """Completes what follows the words of a level. Those below it are functions of their own."""
    name, inner = "_" + "_".join(level.names).replace("-", "_"), " \\\n        ".join(zsh_options(level))
    lines = [f"{name}() {{"]
    if level.below:
        rows = "\n".join(f"        {quote(below.names[-1] + ':' + short(below.help))}" for below in level.below)
        cases = "\n".join(f"                {below.names[-1]}) _{'_'.join(below.names).replace('-', '_')} ;;" for below in level.below)
        lines += ["    local context state state_descr line", "    typeset -A opt_args", "    local -a rows=(", rows, "    )",
                  f"    _arguments -C -A '-*' \\\n        {inner + ' ' + chr(92) + chr(10) + '        ' if inner else ''}'1: :->word' '*:: :->rest'",
                  "    case $state in", f"        word) _describe {quote(level.names[-1])} rows ;;",
                  "        rest)", "            case $line[1] in", cases, "            esac", "            ;;", "    esac"]
    else:
        # Without a kind a state that nobody looks at: zsh inserts no option beside the message that it would show instead.
        rest = quote("*: :->nothing")
        if level.kind:
            rest = quote(f"{'1' if level.once else '*'}: :{zsh_action(level.kind, level.words)}") + (" " + rest if level.once else "")
        lines += ["    local state state_descr line", "    typeset -A opt_args", f"    _arguments {inner + ' ' if inner else ''}{rest}"]
    return "\n".join([*lines, "}"])


# Names that a tracker or a file knows, asked with the options that were typed.
ZSH_NAMES = """
_kiln_name_of() {
    local -a found
    found=("${(@f)$(command kiln names $1 -- ${(Q)${(z)LBUFFER}} 2> /dev/null < /dev/null)}")
    found=(${found:#})
    (( ! $#found )) || compadd -a found
}
"""


def write_zsh(program):
    name = program.names[0].replace("-", "_")
    functions = "\n\n".join(zsh_function(level) for level in all_levels(program))
    return f"#compdef {program.names[0]}\n", f"{functions}\n{ZSH_NAMES}\n_{name} \"$@\"\n"


# ---- fish ----

FISH = """
# Whether the words after the program, without options, begin with these.
function __@NAME@_is
    set -l given (string match -v -- '-*' (commandline -opc)[2..])
    test "$given[1..$(count $argv)]" = "$argv"
end
# Whether the first of them are these, and the next is none of those after --.
function __@NAME@_wants
    set -l at (contains -i -- -- $argv)
    set -l path $argv[1..$at]
    set -e path[-1]
    test (count $path) -eq 0; or __@NAME@_is $path; or return 1
    for word in (commandline -opc)[2..]
        contains -- $word $argv[(math $at + 1)..]; and return 1
    end
    return 0
end
# Whether exactly these stand there.
function __@NAME@_only
    test (count (string match -v -- '-*' (commandline -opc)[2..])) -eq (count $argv); and __@NAME@_is $argv
end
# Names that a tracker or a file knows, asked with the options that were typed.
function __@NAME@_names
    command kiln names $argv[1] -- (commandline -opc) 2> /dev/null < /dev/null
end
"""


def fish_words(kind, words, name):
    """What stands behind -a."""
    return quote(f"(__{name}_names {kind.removeprefix('names ')})") if kind.startswith("names ") else quote(" ".join(words))


def fish_value(option, name):
    if not option.metavar:
        return ""
    if option.kind == "files":
        return " -r -F"
    if option.kind == "folders":
        return " -x -a '(__fish_complete_directories)'"
    return " -x" + (f" -a {fish_words(option.kind, option.words, name)}" if option.kind else "")


def fish_level(level, name, above):
    command, path = f"complete -c {level.names[0]}", " ".join(level.names[1:])
    here = f" -n {quote(f'__{name}_is {path}')}" if path else ""
    for below in level.below:
        words = " ".join(other.names[-1] for other in level.below)
        yield f"{command} -f -n {quote(f'__{name}_wants {path} -- {words}')} -a {below.names[-1]} -d {quote(short(below.help))}"
    if path != "help":
        for option in level.options:
            if option in above:  # which is offered there
                continue
            spelled = "".join(f" -l {word[2:]}" if word.startswith("--") else f" -s {word[1:]}" for word in option.names)
            yield f"{command}{here}{spelled}{fish_value(option, name)} -d {quote(short(option.help))}"
    if level.kind == "files":
        yield f"{command}{here} -F"
    elif level.kind == "folders":
        yield f"{command}{here} -a '(__fish_complete_directories)'"
    elif level.kind:
        first = f" -n {quote(f'__{name}_only {path}')}" if level.once else here
        yield f"{command}{first} -f -a {fish_words(level.kind, level.words, name)}"


def write_fish(program):
    name = program.names[0].replace("-", "_")
    lines = [f"complete -c {program.names[0]} -f"]
    for level in program.below or [program]:
        lines += fish_level(level, name, [])
        for below in level.below:
            lines += fish_level(below, name, level.options)
    if program.below:
        lines += fish_level(program, name, [])
    return FISH.replace("@NAME@", name) + "\n".join(lines) + "\n"


def rows_of(table):
    """The first two columns of a table."""
    return re.findall(r'^X\("([^"]+)", "?([^",)]+)', pathlib.Path(table).read_text(encoding="utf-8"), re.M)


def main(bash, zsh, fish, targets, networks, arguments, commands, name, program):
    rows = [] if commands == "-" else re.findall(r'^X\("([a-z]+)", \w+, "(.*)"\)$', pathlib.Path(commands).read_text(encoding="utf-8"), re.M)
    words = {"targets": ["native", *(row[0] for row in rows_of(targets))], "networks": ["list", *(row[0] for row in rows_of(networks))]}
    tree, head = read_program(name, program, Known(rows, dict(rows_of(arguments)), words)), HEAD.format(name)
    first, rest = write_zsh(tree)
    pathlib.Path(bash).write_text(head + write_bash(tree), encoding="utf-8")
    pathlib.Path(zsh).write_text(first + head + rest, encoding="utf-8")
    pathlib.Path(fish).write_text(head + write_fish(tree), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
