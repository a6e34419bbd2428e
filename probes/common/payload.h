/* Payloads that tell a lost, stale or misplaced byte. */
#ifndef HOPBYTE_PAYLOAD_H
#define HOPBYTE_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

/* Scrambles a number: neighbouring ones give results that have nothing in common. */
uint64_t hopbyte_scramble(uint64_t number);

/* A seed for what `source` sends to `target` in round `round`. */
uint64_t hopbyte_payload_seed(int source, int target, int round);

/* Fills a buffer with the pattern of a seed. */
void hopbyte_payload_fill(void *buffer, size_t bytes, uint64_t seed);

/* How many bytes of a buffer differ from the pattern. */
size_t hopbyte_payload_wrong(const void *buffer, size_t bytes, uint64_t seed);

#endif
