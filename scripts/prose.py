"""prose.py - sentences that hide who acts, for scripts/check.

    python3 scripts/prose.py FILE...    lists them: FILE:LINE: KIND: SENTENCE

Two kinds count. A free clause stands where the reader needs a noun ("Who waits
polls.", "a copy of what was sent"). A back reference opens a paragraph, item or
cell with a word whose meaning stands elsewhere ("It", "Of these"). FILES are
the pages that a stranger reads first; each may have LIMIT of either kind. The
messages of the programs and the library, strings of C files, may have no free
clause.
"""
import re
import sys

FILES = ("README.md", "NEWS.md", "CONTRIBUTING.md", "docs/hvd-agent.1.scd",
         "docs/hvd-elastic.1.scd", "docs/releasing.md",
         *("include/hvd/%s.h" % name for name in (
             "collectives", "comm", "device", "elastic", "sampler", "state",
             "status", "version", "world")),
         *("examples/charlm/" + name for name in (
             "main.c", "model.c", "model.h", "parameters.c", "parameters.h",
             "place.h")),
         *("examples/charlm_cuda/" + name for name in (
             "gpu.c", "gpu.h", "kernels.cu", "model_cuda.c")))
LIMIT = 0.03    # of the sentences in a file
SHORT = 4       # fewer words are no sentence

PRONOUN = r"(?P<who>who|whom|what|whoever|whomever|whatever)"
# The word before a clause that is the subject or object of another one.
OPENER = (r"(?:^|[(;:]|\.\.\.|\b(?:and|or|but|nor|that|if|when|while|as|because|until|"
          r"unless|than|so|then|though|since|before|after|for|of|by|with|from|to|in|on|"
          r"at|against|between|behind|about|into|over|under|without|through)\b|, (?=what))")
FREE = re.compile(r"%s\s*\"?%s\b" % (OPENER, PRONOUN), re.I)
ALWAYS = re.compile(r"\bwho(?:m)?ever\b", re.I)
# "Prints who is there": the clause is a question that this verb asks.
ASKING = re.compile(
    r"\b(?:say|tell|ask|know|see|show|find|learn|decide|check|name|print|state|describe|"
    r"explain|report|choose|list|note|compare|depend|matter|remember|told|said|known?|"
    r"seen|shown|found|chose|clear)(?:s|d|ed|ing)?\b", re.I)
BACK = re.compile(r"(?:It|Its|They|Of|Who|Whom|What|That|This|These|Those|One|As|And|"
                  r"Or|But|Else|Likewise|Behind|The same|\.\.\.)\b")


def is_free(sentence):
    if sentence.endswith("?"):
        return False
    if ALWAYS.search(sentence):
        return True
    return any(not ASKING.search(sentence[:match.start("who")])
               and not re.search(r"\w of $", sentence[:match.start("who")])
               or match.group("who")[0].isupper()
               for match in FREE.finditer(sentence))


def bare(text):
    """Without markup; code is one word."""
    text = re.sub(r"`[^`]*`", "CODE", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"(?<![A-Za-z0-9])[*_]+|[*_]+(?![A-Za-z0-9])", "", text)


def blocks(lines):
    """(line number, text) of each paragraph, item and cell."""
    held, begun, fenced = [], 0, False

    def flush():
        if held:
            yield begun, " ".join(held)
        held.clear()

    for number, line in enumerate(lines, 1):
        text = line.strip()
        item = re.match(r"(?:[-*]|\d+\.)\s+", text)
        cells = text[:1] in "|[]:" and text
        if text.startswith("```"):
            fenced, text = not fenced, ""
        code = fenced or (line.startswith("    ") and not held)
        if not text or code or item or cells or text[0] in "#;":
            yield from flush()
        if not text or code or text[0] in "#;":
            continue
        if cells:
            for cell in text.split("|"):
                yield number, bare(cell.strip(" :-[]<"))
            continue
        begun = begun if held else number
        held.append(bare(text[item.end():] if item else text))
    yield from flush()


def comments(lines):
    """The lines of a header, with what its comments say alone; a comment that
    stands behind code is none of its paragraphs'."""
    inside = False
    for line in lines:
        text = line.strip()
        if not inside and not text.startswith("/*"):
            yield ""
            continue
        inside = "*/" not in text
        text = re.sub(r"^/?\*+ ?|\s*\*/.*$", "", text)
        # a heading of its own in the column of names: another paragraph
        if re.match(r"\s*\w+ {2,}\S", text):
            yield ""
        yield text.strip()


def sentences(lines):
    """(line number, opens its block, sentence)."""
    for number, text in blocks(lines):
        for at, part in enumerate(re.split(r"(?<=[.!?:;]) +(?=[A-Z\"(])", text)):
            if len(part.split()) >= SHORT:
                yield number, at == 0, part


def offences(lines):
    """(line number, kind, sentence), and how many sentences there are."""
    found, n = [], 0
    for number, opens, sentence in sentences(lines):
        n += 1
        if is_free(sentence):
            found.append((number, "free", sentence))
        elif opens and BACK.match(sentence):
            found.append((number, "back", sentence))
    return found, n


def of_file(path, lines):
    return list(comments(lines)) if path.endswith((".h", ".c", ".cu")) else lines


LITERAL = r'"(?:[^"\\\n]|\\.)*"'
LITERALS = re.compile(r"%s(?:\s*(?:PRI\w+)?\s*%s)*" % (LITERAL, LITERAL))


def messages(text):
    """(line number, sentence) of the strings of a C file."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), text,
                  flags=re.S)
    for m in LITERALS.finditer(text):
        said = "".join(part[1:-1] for part in re.findall(LITERAL, m[0]))
        for part in re.split(r"(?<=[.!?:;]) +|-> |\\n", said):
            if len(part.split()) >= SHORT:
                yield text.count("\n", 0, m.start()) + 1, part


def hidden_in_messages(path, text):
    """Messages in which the actor is hidden: none is allowed."""
    return ["%s:%d: free: %s" % (path, number, part)
            for number, part in messages(text) if is_free(part)]


def over_limit(path, lines):
    """What there is to say of a file with more than LIMIT of a kind."""
    found, n = offences(of_file(path, lines))
    for kind in ("free", "back"):
        of_kind = [row for row in found if row[1] == kind]
        if len(of_kind) > LIMIT * n:
            yield "%s: %d of %d sentences are of the kind %s, first line %d" % (
                path, len(of_kind), n, kind, of_kind[0][0])


def main():
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            for row in offences(of_file(path, file.read().split("\n")))[0]:
                print("%s:%d: %s: %s" % (path, *row))


if __name__ == "__main__":
    main()
