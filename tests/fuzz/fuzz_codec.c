/* tests/fuzz/fuzz_codec.c - libFuzzer's door to the codec and the table. The
 * first byte says which; the rest is what came from the network. Built with
 * -Dfuzzing=true and clang:
 *
 *   CC=clang meson setup build-fuzz -Dfuzzing=true -Db_lundef=false
 *       -Db_sanitize=address,undefined
 *   build-fuzz/tests/fuzz/fuzz_codec -max_len=4096 -max_total_time=60 */
#include "property.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] & 1)
        property_table(data + 1, size - 1);
    else
        property_message(data + 1, size - 1);
    return 0;
}
