/* elastic/driver/launch_ssh.c - agents on other machines, each at the other end
 * of an ssh client. See launch.h and launch_client.h.
 *
 * A client that is killed leaves what it has started running: the end of its
 * stdin ends the agent. It asks for no password.
 *
 * Any shell of the user's reads the command line there: it is one `sh -c` in
 * single quotes, and a word or two, of which every odd character has a
 * backslash: the agent's path, and the path of its libraries.
 *
 * Settings of the user's ssh_config that are for logins of people, and break a
 * command, are switched off by name. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "elastic/driver/launch_client.h"

#define REMOTE_SCRIPT "exec sh -c '" LAUNCH_CLIENT_SCRIPT "' "

enum {
    ALIVE_MIN_S = 15, /* of ServerAliveInterval, three of which are the end */
    NUMBER_MAX = 40,
    LIBRARIES_MAX = 4096 /* bytes of LD_LIBRARY_PATH that go there */
};

static const char *const settings[] = {
    /* first: an older ssh ignores settings of this list, or of a file, that it
     * does not know */
    "IgnoreUnknown=*", "BatchMode=yes", "ServerAliveCountMax=3",
    "ClearAllForwardings=yes", /* each would be made again */
    "Tunnel=no",
    /* a command in the place of ours, or none; a terminal */
    "RemoteCommand=none", "SessionType=default", "RequestTTY=no",
    "PermitLocalCommand=no",
    /* stdin, which says who the agent is; the background, where ssh would end
     * for us */
    "StdinNull=no", "ForkAfterAuthentication=no",
    /* another ssh's connection, with which our agents would end */
    "ControlMaster=no", "ControlPath=none",
    /* why it has failed is told at this level */
    "LogLevel=INFO"};

struct ssh {
    struct launch_client client;
    char remote[sizeof(REMOTE_SCRIPT) + 2 * PATH_MAX + 2 * LIBRARIES_MAX + 2];
    char host[HOSTS_USER_MAX + HOSTS_NAME_MAX]; /* with user@ */
    char connect[NUMBER_MAX], alive[NUMBER_MAX], port[NUMBER_MAX];
};

static bool is_plain(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80 ||
           strchr("/._-+,:@%", c);
}

/* False: there are characters in it that no shell's word can have; nothing is
 * added. */
static bool add_quoted(char *to, const char *word)
{
    char *begin = to += strlen(to);

    for (; *word; word++) {
        if ((unsigned char)*word < ' ' || *word == 0x7f) {
            *begin = '\0';
            return false;
        }
        if (!is_plain(*word))
            *to++ = '\\';
        *to++ = *word;
    }
    *to = '\0';
    return true;
}

/* The environment comes with SPAWN, to an agent that runs: without this it
 * would not where it needs a library that lies where nobody looks. */
static void say_libraries(struct ssh *s)
{
    const char *path = getenv("LD_LIBRARY_PATH");
    size_t n = strlen(s->remote);

    if (!path || !*path || strlen(path) > LIBRARIES_MAX)
        return;
    strcpy(s->remote + n, " ");
    if (!add_quoted(s->remote, path))
        s->remote[n] = '\0';
}

static void say_remote(struct ssh *s)
{
    strcpy(s->remote, REMOTE_SCRIPT);
    if (!add_quoted(s->remote, s->client.agent))
        strcpy(s->remote, REMOTE_SCRIPT "hvd-agent");
    say_libraries(s);
}

static void add_word(struct ssh *s, const char *word)
{
    launch_client_add(&s->client, word);
}

static void add_setting(struct ssh *s, const char *setting)
{
    add_word(s, "-o");
    add_word(s, setting);
}

static void say_argv(struct ssh *s, const struct launch_config *config,
                     const struct launched *item)
{
    uint64_t alive_s = config->heartbeat_timeout_us / 2000000;

    snprintf(s->host, sizeof(s->host), "%s%s%s", item->user,
             item->user[0] ? "@" : "", item->host);
    snprintf(s->connect, NUMBER_MAX, "ConnectTimeout=%" PRIu64,
             launch_connect_time(config) / 1000000);
    snprintf(s->alive, NUMBER_MAX, "ServerAliveInterval=%" PRIu64,
             alive_s > ALIVE_MIN_S ? alive_s : ALIVE_MIN_S);
    snprintf(s->port, NUMBER_MAX, "%" PRIu32, config->ssh_port);
    add_word(s, "ssh");
    add_word(s, "-T"); /* no terminal there either */
    add_word(s, "-x");
    for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
        add_setting(s, settings[i]);
    add_setting(s, s->connect);
    add_setting(s, s->alive);
    if (config->ssh_port != 0) {
        add_word(s, "-p");
        add_word(s, s->port);
    }
    if (config->ssh_identity_file) {
        add_word(s, "-i");
        add_word(s, config->ssh_identity_file);
    }
    add_word(s, "--");
    add_word(s, s->host);
    add_word(s, s->remote);
}

static const char *ssh_program(void)
{
    return "ssh";
}

static hvd_status_t find_ssh(struct ssh *s, const struct launch_config *config)
{
    const char *own = config->ssh_command;
    hvd_status_t status = launch_client_find(&s->client, config, ssh_program());

    if (!own)
        return status;
    if (strlen(own) >= PATH_MAX)
        return error_set(HVD_ERR_INVALID, "--ssh-command is too long");
    strcpy(s->client.path, own);
    return HVD_OK;
}

static hvd_status_t start_ssh(const struct launch_config *config,
                              struct launched *item)
{
    struct ssh *s = calloc(1, sizeof(*s));
    hvd_status_t status;

    if (!s)
        return error_set(HVD_ERR_NOMEM, "no memory for an agent");
    status = find_ssh(s, config);
    if (status == HVD_OK) {
        say_remote(s);
        say_argv(s, config, item);
        status = launch_client_start(&s->client, config, NULL, item);
    }
    free(s);
    return status;
}

const struct launch_ops launch_ssh = {
    .name = "ssh", .client = true, .program = ssh_program, .start = start_ssh};
