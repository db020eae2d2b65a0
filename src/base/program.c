/* base/program.c - see program.h. */
#include "base/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

enum { HEAD_MAX = 256, HEADERS_MAX = 64 };

/* How many bytes; what cannot be read has none. */
static size_t read_head(const char *path, char *head)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? 0 : read(fd, head, HEAD_MAX);

    if (fd >= 0)
        close(fd);
    return n < 0 ? 0 : (size_t)n;
}

/* As bash decides: a binary has a NUL in its first line, or is ELF. */
static bool is_binary(const char *path)
{
    char head[HEAD_MAX];
    size_t n = read_head(path, head);
    const char *end = memchr(head, '\n', n);

    if (n >= SELFMAG && memcmp(head, ELFMAG, SELFMAG) == 0)
        return true;
    return memchr(head, '\0', end ? (size_t)(end - head) : n) != NULL;
}

/* ---- why ----------------------------------------------------------------- */

/* As the kernel reads it: behind #! and blanks, up to the next blank. */
static bool find_script_interpreter(const char *path, char *name)
{
    char head[HEAD_MAX];
    size_t n = read_head(path, head), at = 2, length = 0;

    if (n < 2 || head[0] != '#' || head[1] != '!')
        return false;
    while (at < n && (head[at] == ' ' || head[at] == '\t'))
        at++;
    while (at + length < n && !strchr(" \t\n", head[at + length]))
        length++;
    memcpy(name, head + at, length);
    name[length] = '\0';
    return length > 0;
}

/* The dynamic linker that a binary of this machine asks for. */
static bool find_linker(const char *path, char *name)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ElfW(Ehdr) head = {0};
    ElfW(Phdr) part = {0};
    ssize_t n = pread(fd, &head, sizeof(head), 0);

    if (n != (ssize_t)sizeof(head) ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_phentsize != sizeof(part))
        head.e_phnum = 0;
    for (int i = 0; i < head.e_phnum && i < HEADERS_MAX; i++) {
        n = pread(fd, &part, sizeof(part),
                  (off_t)head.e_phoff + i * (off_t)sizeof(part));
        if (n == (ssize_t)sizeof(part) && part.p_type == PT_INTERP)
            break;
        part.p_type = PT_NULL;
    }
    n = part.p_type == PT_INTERP
            ? pread(fd, name, HEAD_MAX - 1, (off_t)part.p_offset)
            : 0;
    name[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        close(fd);
    return *name != '\0';
}

static void add_escaped(struct text *t, const char *name)
{
    for (; *name; name++)
        if (*name == '\r')
            text_add(t, "\\r");
        else
            text_add_n(
                t, (unsigned char)*name < ' ' || *name == 0x7f ? "?" : name, 1);
}

/* Where the program itself is there and may be executed, its interpreter is
 * what is not. */
void program_explain(const char *path, struct program_failure *failure)
{
    char name[HEAD_MAX];
    const char *who;
    struct text t;

    if ((failure->error != ENOENT && failure->error != EACCES) ||
        access(path, X_OK) != 0)
        return;
    if (find_script_interpreter(path, name))
        who = "its first line names \"";
    else if (find_linker(path, name))
        who = "it needs \"";
    else
        return;
    if (access(name, X_OK) == 0)
        return;
    t = text_into(failure->why, PROGRAM_WHY_MAX);
    text_add(&t, who);
    add_escaped(&t, name);
    text_add(&t, errno == EACCES ? "\", which is not executable"
                                 : "\", which is not there");
}

int program_exec(const char *path, char **sh_argv, char *const *envp,
                 struct program_failure *failure)
{
    int error;

    execve(path, sh_argv + 1, envp);
    error = errno;
    if (error == ENOEXEC && !is_binary(path)) {
        memcpy(&sh_argv[1], &path, sizeof(path)); /* nobody writes to it */
        execve(sh_argv[0], sh_argv, envp);
        error = errno;
    }
    failure->error = error;
    if (!*failure->why)
        program_explain(path, failure);
    return error;
}

const char *program_why(const struct program_failure *failure)
{
    return *failure->why ? failure->why : strerror(failure->error);
}
