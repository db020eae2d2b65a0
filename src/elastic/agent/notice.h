/* elastic/agent/notice.h - what the notice script says: whether this host will
 * go, and when.
 *
 *   exit status 0, nothing printed      it stays
 *   exit status 0, "SECONDS [WHY]"      it will be gone in SECONDS, whole ones
 *   anything else                       the script could not find it out
 *
 * Blank lines in front are passed over; what follows the line is not looked at.
 *
 * Pure. Threads: none of its own. Memory: the caller's. */
#ifndef ELASTIC_AGENT_NOTICE_H
#define ELASTIC_AGENT_NOTICE_H

#include <stddef.h>
#include <stdint.h>

#include "elastic/wire/message.h"

enum { NOTICE_MAX_S = 1000000 };

enum notice_answer { NOTICE_STAYS, NOTICE_GOES, NOTICE_NONSENSE };

/* text [nbytes]: what was printed. GOES: *left_us_p, and in why
 * [WIRE_TEXT_MAX] the rest of the line, or "". NONSENSE: why is the line. */
enum notice_answer notice_parse(const char *text, size_t nbytes,
                                uint64_t *left_us_p, char *why);

#endif
