"""mutants - small wrong changes to C sources: what scripts/mutate tries.

A mutant replaces a part of one function by something that compiles and is
wrong: a statement that is not there, a condition that never holds, a
comparison off by one. Found in the text, by the way clang-format leaves it:
operators of two operands have blanks on both sides, functions begin and end
in the first column. No line is added or taken away.
"""
import re

SWAPPED = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "&&": "||", "||": "&&", "+": "-", "-": "+", "*": "/", "/": "*",
    "%": "/", "<<": ">>", ">>": "<<", "&": "|", "|": "&",
    "+=": "-=", "-=": "+=",
}
OPERATOR = re.compile(r"(?<=\s)(%s)(?=\s)" % "|".join(
    re.escape(op) for op in sorted(SWAPPED, key=len, reverse=True)))
WORDS = {
    "true": "false", "false": "true",
    "memory_order_release": "memory_order_relaxed",
    "memory_order_acquire": "memory_order_relaxed",
}


class Function:
    """A function's name, type and the part of the text that is its body."""

    def __init__(self, name, kind, begin, end):
        self.name, self.kind, self.begin, self.end = name, kind, begin, end


class Mutant:
    """text[begin:end] of the file becomes `new`."""

    def __init__(self, path, text, function, what, begin, end, new):
        self.path, self.function, self.what = path, function, what
        self.text = text
        self.begin, self.end, self.new = begin, end, new
        self.line = text.count("\n", 0, begin) + 1
        # as many lines as before: assertions tell their own
        self.new += "\n" * (text.count("\n", begin, end) - new.count("\n"))
        changed = text[:begin] + self.new + text[end:]
        first = text.rfind("\n", 0, begin) + 1
        last = text.find("\n", end)
        self.line_before = text[text.rfind("\n", 0, first - 1) + 1:first]
        self.old_lines = text[first:last]
        self.new_lines = changed[first:last + len(changed) - len(text)]

    def applied(self):
        return self.text[:self.begin] + self.new + self.text[self.end:]

    def change(self):
        """In one line, for the patterns of the explained ones: what is before
        it, what it was, what it is."""
        return "%s | %s => %s" % tuple(
            " ".join(lines.split()) for lines in
            (self.line_before, self.old_lines, self.new_lines))


# ---- the text --------------------------------------------------------------

def blanked(text):
    """Comments, strings and the preprocessor's lines made of blanks."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0))

    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'
                  r"'(?:\\.|[^'\\\n])*'|^#(?:\\\n|[^\n])*",
                  blank, text, flags=re.S | re.M)


def functions(code):
    found = []
    for match in re.finditer(r"^\{$.*?^\}$", code, flags=re.S | re.M):
        before = re.split(r"\n\s*\n|;|^\}", code[:match.start()],
                          flags=re.M)[-1]
        named = re.search(r"(\w+)\s*\(", before)
        if named:
            kind = before[:named.start()].replace("static ", "")
            found.append(Function(named.group(1),
                                  kind.replace("inline ", "").strip(),
                                  match.start() + 1, match.end() - 1))
    return found


def closing(code, at):
    """Where the parenthesis at `at` is closed."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] in "([{") - (code[i] in ")]}")
        if depth == 0:
            return i
    return len(code) - 1


def statements(code, function):
    """(begin, end) of what ends in a semicolon."""
    start = i = function.begin
    while i < function.end:
        char, text = code[i], code[start:i].strip()
        if char == "(":
            i = closing(code, i)
            if re.match(r"(else\s+)?(if|for|while|switch)\b", text):
                start = i + 1
        elif char == "{" and text not in ("", "else", "do"):
            i = closing(code, i)  # an initialiser
        elif char in "{}" or (char == ":" and
                              re.match(r"case\b|default\b|\w+$", text)):
            start = i + 1
        elif char == ";":
            begin = start + len(code[start:i]) - len(code[start:i].lstrip())
            els = re.match(r"(else|do)\s+", code[begin:i])
            yield (begin + els.end() if els else begin), i + 1
            start = i + 1
        i += 1


# ---- the kinds of mutants: each yields (what, begin, end, new) --------------

def is_call(statement):
    match = re.match(r"(?:\(void\)\s*)?!*[A-Za-z_]\w*(?:(?:->|\.)\w+)*\(",
                     statement)
    return match and closing(statement, match.end() - 1) == \
        len(statement) - 2


def is_assignment(statement):
    if re.match(r"(?!return\b)(?:\w+\s+)+\**\w+(\[.*?\])*\s*[=;,]", statement):
        return False  # a declaration
    return re.match(r"[\w>.\-\[\]\s*()&+%]+?\s(=|[-+*/%&|^]=|<<=|>>=)\s",
                    statement) or \
        re.fullmatch(r"[\w>.\-\[\]()]+(\+\+|--);", statement)


def without_statements(code, function):
    for begin, end in statements(code, function):
        text = code[begin:end]
        if is_call(text):
            yield "no call", begin, end, ";"
        elif text in ("break;", "continue;"):
            yield "no jump", begin, end, ";"
        elif not text.startswith("return") and is_assignment(text):
            yield "no assignment", begin, end, ";"


def other_conditions(code, function):
    for match in re.compile(r"\b(if|while) \(").finditer(
            code, function.begin, function.end):
        begin = match.end()
        end = closing(code, begin - 1)
        condition = code[begin:end]
        yield "negated", begin, end, "!(%s)" % condition
        yield "never", begin, end, "false && (%s)" % condition


def operand_end(code, at):
    i = at
    while code[i] not in ")]};,?:" and code[i:i + 2] not in ("&&", "||"):
        i = closing(code, i) if code[i] in "([{" else i
        i += 1
    return at + len(code[at:i].rstrip())


def operand_begin(code, at):
    """Where the left operand begins; None: it is one of several."""
    depth, i = 0, at - 1
    while depth > 0 or code[i] not in "([{};,?:":
        depth += (code[i] in ")]}") - (code[i] in "([{")
        if depth == 0 and code[i - 1:i + 1] in ("&&", "||"):
            return None
        if depth == 0 and code[i] == "=" and code[i - 1] not in "=!<>" and \
                code[i + 1] != "=":
            break
        i -= 1
    i += 1
    returns = list(re.finditer(r"\breturn\b", code[i:at]))
    if returns:
        i += returns[-1].end()
    return i + len(code[i:at]) - len(code[i:at].lstrip())


def fewer_clauses(code, function):
    for match in re.compile(r"(?<=\s)(&&|\|\|)(?=\s)").finditer(
            code, function.begin, function.end):
        neutral = "true" if match.group(1) == "&&" else "false"
        end = operand_end(code, match.end())
        yield "clause dropped", match.end(), end, " " + neutral
        begin = operand_begin(code, match.start())
        if begin is not None:
            yield "clause dropped", begin, match.start(), neutral + " "


def other_operators(code, function):
    for match in OPERATOR.finditer(code, function.begin, function.end):
        yield ("swapped", match.start(), match.end(),
               SWAPPED[match.group(1)])
    for match in re.compile(r"\+\+|--").finditer(code, function.begin,
                                                 function.end):
        yield ("swapped", match.start(), match.end(),
               "--" if match.group(0) == "++" else "++")
    for match in re.compile(r"(?<=[\s(])!(?=[\w(])").finditer(
            code, function.begin, function.end):
        yield "not dropped", match.start(), match.end(), ""


def other_constants(code, function):
    for match in re.compile(r"(?<![\w.])(\d+)(?=[uUlL]*\b)(?![xX.])").finditer(
            code, function.begin, function.end):
        n = int(match.group(1))
        yield ("constant", match.start(), match.end(),
               "0" if n == 1 else str(n + 1))
    pattern = re.compile(r"\b(%s)\b" % "|".join(WORDS))
    for match in pattern.finditer(code, function.begin, function.end):
        yield ("constant", match.start(), match.end(),
               WORDS[match.group(1)])


def early_return(code, function):
    values = {"void": [""], "bool": [" true", " false"],
              "hvd_status_t": [" HVD_OK"]}
    if function.kind.endswith("*"):
        values = [" NULL"]
    elif re.match(r"(const )?(struct|double|float)\b", function.kind):
        values = []
    else:
        values = values.get(function.kind, [" 0"])
    for value in values:
        # what follows would be unreachable: a jump behind a test is not
        yield ("returns early", function.begin, function.begin,
               " if (true) return%s;" % value)


KINDS = [without_statements, other_conditions, fewer_clauses, other_operators,
         other_constants, early_return]


def unwatched(code):
    """Parts that are for our own mistakes, and for the log."""
    return [(match.start(), closing(code, match.end() - 1)) for match in
            re.finditer(r"\b(?:HVD_ASSERT|_Static_assert|log_\w+)\(", code)]


def generate(path, text):
    """All mutants of a file, in the order of their places."""
    code = blanked(text)
    skipped = unwatched(code)
    found = []
    for function in functions(code):
        for kind in KINDS:
            found += [Mutant(path, text, function.name, *change)
                      for change in kind(code, function)
                      if not any(begin <= change[1] < end
                                 for begin, end in skipped)]
    return sorted(found, key=lambda m: (m.begin, m.end, m.what, m.new))
