/* base/program.h - execute a program as a shell does, and say why it could not
 * be: execve(2) answers "No such file or directory" of a script that is there
 * when its interpreter is not.
 *
 * program_exec() is for the child of a fork: it is async-signal-safe and
 * allocates nothing. */
#ifndef BASE_PROGRAM_H
#define BASE_PROGRAM_H

enum { PROGRAM_WHY_MAX = 400 };

/* What a child writes to its report pipe instead of becoming a program. */
struct program_failure {
    int error;                 /* errno */
    char why[PROGRAM_WHY_MAX]; /* the sentence, if errno misleads; or "" */
};

/* execve path with arguments sh_argv + 1. A script without #! is executed by
 * sh_argv[0], a shell, with sh_argv[1] = path; a binary of another processor,
 * or one that is damaged, never is. Returns only if this fails: errno, which
 * is in *failure as well. A sentence that is there already stays. */
int program_exec(const char *path, char **sh_argv, char *const *envp,
                 struct program_failure *failure);

/* The child calls this after execve(2): fills in `why`, if errno misleads. */
void program_explain(const char *path, struct program_failure *failure);

/* The sentence. In the parent. */
const char *program_why(const struct program_failure *failure);

#endif
