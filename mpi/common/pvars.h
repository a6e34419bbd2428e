/* Counters that a preload library offers as performance variables of MPI_T. libhopbyte_mpit finds them by the symbol
 * `hopbyte_pvars_NAME`, a struct hopbyte_pvars, for each NAME of HOPBYTE_PVAR_LIBRARIES; without it they cost nothing. No MPI
 * here, so that libraries without a flavour can offer theirs. */
#ifndef HOPBYTE_PVARS_H
#define HOPBYTE_PVARS_H

#include <stdbool.h>
#include <stdint.h>

#define HOPBYTE_PVAR_LIBRARIES {"record", "gm", "io", "lock", "memory", "notify"}

enum hopbyte_pvar_class {
    HOPBYTE_PVAR_COUNTER,   /* events: starts at 0 in every handle */
    HOPBYTE_PVAR_AGGREGATE, /* a sum, of bytes: the same */
    HOPBYTE_PVAR_TIMER,     /* seconds, a double: the same */
    HOPBYTE_PVAR_LEVEL,     /* a present amount: as it is */
    HOPBYTE_PVAR_HIGHEST    /* the highest value since the start of the program: as it is */
};

struct hopbyte_pvar {
    const char *name, *text; /* name: hopbyte_record_sent_bytes; text: one sentence with the unit */
    enum hopbyte_pvar_class kind;
    bool real; /* the value is `seconds`; always so for timers */
};

struct hopbyte_pvar_value {
    union {
        uint64_t count;
        double seconds;
    };
    uint32_t breaks; /* increases whenever earlier values became worthless: a wrap, a reset, a failed read */
};

struct hopbyte_pvars {
    int size;         /* of this struct: a library of another version is left out */
    const char *text; /* the library, in a sentence */
    /* Number of variables. It may grow, and never shrinks. */
    int (*count)(void);
    const struct hopbyte_pvar *(*at)(int index);
    /* Any thread may call it. False: there is no value now. */
    bool (*read)(int index, struct hopbyte_pvar_value *value);
};

#define HOPBYTE_PVARS_DEFINE(name, sentence, count, at, read)                                                          \
    extern const struct hopbyte_pvars hopbyte_pvars_##name;                                                            \
    __attribute__((visibility("default"))) const struct hopbyte_pvars hopbyte_pvars_##name = {                         \
        sizeof(struct hopbyte_pvars), sentence, count, at, read}

#endif
