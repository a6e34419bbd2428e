/* Payloads in which a lost, stale or misplaced byte is detected. */
#ifndef HOPBYTE_PAYLOAD_H
#define HOPBYTE_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

/* Hashes a number: neighbouring numbers give unrelated results. */
uint64_t hopbyte_scramble(uint64_t number);

/* A seed for the message from `source` to `target` in round `round`. */
uint64_t hopbyte_payload_seed(int source, int target, int round);

/* Fills a buffer with the pattern of a seed. */
void hopbyte_payload_fill(void *buffer, size_t bytes, uint64_t seed);

/* Number of bytes in a buffer that differ from the pattern. */
size_t hopbyte_payload_wrong(const void *buffer, size_t bytes, uint64_t seed);

#endif
