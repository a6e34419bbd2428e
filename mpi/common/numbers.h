/* Numbers in files have a decimal point, also under a program that called setlocale for a language with commas. */
#ifndef HOPBYTE_NUMBERS_H
#define HOPBYTE_NUMBERS_H

#include <locale.h>

/* Sets this thread's numbers to those of C; returns what hopbyte_numbers_end restores. */
static inline locale_t hopbyte_numbers_begin(void)
{
    static locale_t kept;
    locale_t plain = __atomic_load_n(&kept, __ATOMIC_ACQUIRE), none = (locale_t)0;
    if (!plain) {
        /* Only numbers: messages stay in the program's language. */
        locale_t own = duplocale(uselocale(none));
        plain = newlocale(LC_NUMERIC_MASK, "C", own);
        if (!plain) {
            if (own)
                freelocale(own);
            return none;
        }
        if (!__atomic_compare_exchange_n(&kept, &none, plain, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            freelocale(plain);
            plain = none;
        }
    }
    return uselocale(plain);
}

static inline void hopbyte_numbers_end(locale_t before)
{
    if (before)
        uselocale(before);
}

#endif
