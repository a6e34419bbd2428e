#include "state.h"

#include <stdlib.h>

bool settings_bytes(const char *text, uint64_t *bytes)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    unsigned long long value = strtoull(text, &end, 10);
    int shift = *end == 'k' || *end == 'K' ? 10 : *end == 'm' || *end == 'M' ? 20 : *end == 'g' || *end == 'G' ? 30 : 0;
    if (shift)
        end++;
    if (*end || value > (UINT64_MAX >> 1 >> shift))
        return false;
    *bytes = (uint64_t)value << shift;
    return true;
}
