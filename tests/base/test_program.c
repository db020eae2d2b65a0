/* tests/base/test_program.c - what is executed, and why it could not be. */
#include "base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

enum { FAILED = 100 };

static char path[64];
static int report[2];
static struct program_failure failure;

static void setup(void)
{
    strcpy(path, "/tmp/test_program_XXXXXX");
    ck_assert_int_eq(pipe2(report, O_CLOEXEC | O_NONBLOCK), 0);
    failure = (struct program_failure){0};
}

static void teardown(void)
{
    close(report[0]);
    close(report[1]);
    unlink(path);
}

static int execute(const void *program)
{
    char *argv[] = {(char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t)program,
                    NULL};
    char *envp[] = {NULL};
    struct program_failure why = {0};

    program_exec(program, argv, envp, &why);
    return write(report[1], &why, sizeof(why)) < 0 ? 1 : FAILED;
}

/* The program's exit status; FAILED: *failure says why. */
static int run(const char *program)
{
    int status = support_in_child(execute, program);

    if (read(report[0], &failure, sizeof(failure)) < 0)
        ck_assert_int_eq(errno, EAGAIN);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* That of a file with these bytes [n]. */
static int run_bytes(const char *bytes, size_t n)
{
    int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq((int)write(fd, bytes, n), (int)n);
    ck_assert_int_eq(fchmod(fd, 0700), 0);
    close(fd);
    return run(path);
}

#define RUN(bytes) run_bytes(bytes, sizeof(bytes) - 1)

START_TEST(program_without_interpreter_line_runs_in_a_shell)
{
    ck_assert_int_eq(RUN("exit 7\n\0\1\2"), 7); /* an archive may follow */
}
END_TEST

START_TEST(program_that_is_not_there_has_the_words_of_its_errno)
{
    ck_assert_int_eq(run("/nowhere/train"), FAILED);
    ck_assert_int_eq(failure.error, ENOENT);
    ck_assert_str_eq(program_why(&failure), "No such file or directory");
}
END_TEST

START_TEST(program_of_another_processor_is_no_script)
{
    ck_assert_int_eq(RUN("\177ELF\2\1\1\n\nexit 0\n"), FAILED);
    ck_assert_int_eq(failure.error, ENOEXEC);
    ck_assert_str_eq(program_why(&failure), "Exec format error");
}
END_TEST

START_TEST(program_with_a_nul_in_its_first_line_is_no_script)
{
    ck_assert_int_eq(RUN("exit 0\0\nexit 0\n"), FAILED);
    ck_assert_int_eq(failure.error, ENOEXEC);
}
END_TEST

START_TEST(program_of_windows_names_its_interpreter)
{
    ck_assert_int_eq(RUN("#! /bin/sh\r\nexit 0\r\n"), FAILED);
    ck_assert_int_eq(failure.error, ENOENT);
    ck_assert_str_eq(program_why(&failure), "its first line names "
                                            "\"/bin/sh\\r\", which is not "
                                            "there");
}
END_TEST

START_TEST(program_names_an_interpreter_that_is_not_executable)
{
    ck_assert_int_eq(RUN("#!/etc/passwd -x\n"), FAILED);
    ck_assert_int_eq(failure.error, EACCES);
    ck_assert_str_eq(program_why(&failure), "its first line names "
                                            "\"/etc/passwd\", which is not "
                                            "executable");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("program");
    TCase *tcase = tcase_create("program");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, program_without_interpreter_line_runs_in_a_shell);
    tcase_add_test(tcase, program_that_is_not_there_has_the_words_of_its_errno);
    tcase_add_test(tcase, program_of_another_processor_is_no_script);
    tcase_add_test(tcase, program_with_a_nul_in_its_first_line_is_no_script);
    tcase_add_test(tcase, program_of_windows_names_its_interpreter);
    tcase_add_test(tcase, program_names_an_interpreter_that_is_not_executable);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
