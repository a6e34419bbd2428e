/* 64-bit FNV-1a (RFC 9923), as crates/fabric/src/hash.rs. A copy, because these libraries are loaded into other
 * programs and must not depend on Rust; tests/mpi/harness.py checks the ids of recorded groups. */
#ifndef HOPBYTE_HASH_H
#define HOPBYTE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HOPBYTE_FNV_BASIS UINT64_C(0xcbf29ce484222325)

/* Continues a hash (initially HOPBYTE_FNV_BASIS) over `count` more bytes. */
static inline uint64_t hopbyte_fnv1a(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
