/* Sums over all files as performance variables (../common/pvars.h); only where timers are on. */
#include "io.h"

#include "../common/pvars.h"

#include <stddef.h>

#define SECONDS(name, member, sentence)                                                                                \
    {{"hopbyte_io_" name "_seconds", sentence, HOPBYTE_PVAR_TIMER, true}, offsetof(struct hopbyte_io_sums, member)}
#define COUNT(name, member, sentence)                                                                                  \
    {{"hopbyte_io_" name, sentence, HOPBYTE_PVAR_COUNTER, false}, offsetof(struct hopbyte_io_sums, member)}
#define BYTES(name, member, sentence)                                                                                  \
    {{"hopbyte_io_" name "_bytes", sentence, HOPBYTE_PVAR_AGGREGATE, false}, offsetof(struct hopbyte_io_sums, member)}

static const struct {
    struct hopbyte_pvar variable;
    size_t offset;
} offered[] = {
    SECONDS("total", total, "Seconds in reads and writes of MPI files; the next five add up to it"),
    SECONDS("wait_for_coll", arrival, "Seconds of waiting for late ranks before collective reads and writes"),
    SECONDS("collective", agree, "Seconds in the MPI library's own calls that move no file data"),
    SECONDS("data_send", exchange, "Seconds in which the MPI library exchanged file data between ranks"),
    SECONDS("file_system", file, "Seconds with a file operation under way"),
    SECONDS("other", other, "Other seconds in reads and writes of MPI files"),
    COUNT("calls", calls, "Reads and writes of MPI files by this process"),
    BYTES("requested", requested, "Bytes that reads and writes of MPI files asked for"),
    BYTES("delivered", delivered, "Bytes that reads and writes of MPI files delivered"),
    BYTES("sent", sent, "Bytes of file data that this process sent to other ranks"),
    BYTES("read", read_bytes, "Bytes read from the file system"),
    BYTES("written", written_bytes, "Bytes written to the file system"),
    COUNT("reads", reads, "Read operations of the file system"),
    COUNT("writes", writes, "Write operations of the file system"),
    COUNT("failed", failed, "Reads and writes of MPI files that returned an error"),
    COUNT("file_errors", file_errors, "Operations of the file system that failed"),
};

static int offered_count(void)
{
    return hopbyte_io_on ? (int)(sizeof offered / sizeof *offered) : 0;
}

static const struct hopbyte_pvar *offered_at(int index)
{
    return &offered[index].variable;
}

static bool offered_read(int index, struct hopbyte_pvar_value *value)
{
    struct hopbyte_io_sums sums;
    hopbyte_io_all(&sums);
    const char *at = (const char *)&sums + offered[index].offset;
    if (offered[index].variable.real)
        value->seconds = *(const double *)(const void *)at;
    else
        value->count = *(const uint64_t *)(const void *)at;
    return true;
}

HOPBYTE_PVARS_DEFINE(io, "Reads and writes of MPI files by this process (libhopbyte_io)", offered_count, offered_at,
                     offered_read);
