/* tests/wire/property.h - what must hold for any bytes whatever; the fuzzer and
 * the deterministic mutations ask the same. Both abort when it does not. */
#ifndef TESTS_WIRE_PROPERTY_H
#define TESTS_WIRE_PROPERTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* bytes are refused, or mean a message whose own encoding is no longer and
 * means the same. true: accepted. */
bool property_message(const uint8_t *bytes, size_t nbytes);

/* The same for the table of an ASSIGN. */
bool property_table(const uint8_t *bytes, size_t nbytes);

#endif
