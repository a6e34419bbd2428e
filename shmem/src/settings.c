#include "state.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* As OpenSHMEM 1.5 (8.2) writes sizes: a number, whole or not, and K, M, G or T. */
bool settings_bytes(const char *text, uint64_t *bytes)
{
    static const char units[] = "kmgt";
    char *end;
    if (strspn(text, "0123456789") == 0 || text[strcspn(text, "xX")])
        return false;
    long double value = strtold(text, &end);
    const char *unit = *end ? strchr(units, tolower((unsigned char)*end)) : NULL;
    if (unit) {
        value *= (long double)(UINT64_C(1) << (10 * (unit - units + 1)));
        end++;
    }
    if (*end || value > (long double)(UINT64_MAX >> 1))
        return false;
    *bytes = (uint64_t)value;
    return true;
}
