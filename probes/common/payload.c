#include "payload.h"

#include <string.h>

uint64_t hopbyte_scramble(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t hopbyte_payload_seed(int source, int target, int round) {
    return hopbyte_scramble(hopbyte_scramble(hopbyte_scramble((uint64_t)source + 1) + (uint64_t)target + 1) +
                            (uint64_t)(int64_t)round);
}

/* Word `i` of the pattern: cheap enough that filling costs no more than copying. */
static uint64_t word(uint64_t seed, size_t i) {
    uint64_t x = (seed + i) * 0x9e3779b97f4a7c15u;
    return x ^ (x >> 29);
}

void hopbyte_payload_fill(void *buffer, size_t bytes, uint64_t seed) {
    unsigned char *at = buffer;
    for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        uint64_t value = word(seed, i / sizeof value);
        memcpy(at + i, &value, bytes - i < sizeof value ? bytes - i : sizeof value);
    }
}

size_t hopbyte_payload_wrong(const void *buffer, size_t bytes, uint64_t seed) {
    const unsigned char *at = buffer;
    size_t wrong = 0;
    for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        uint64_t value = word(seed, i / sizeof value);
        size_t room = bytes - i < sizeof value ? bytes - i : sizeof value;
        if (memcmp(at + i, &value, room) == 0)
            continue;
        for (size_t k = 0; k < room; k++)
            wrong += at[i + k] != ((unsigned char *)&value)[k];
    }
    return wrong;
}
