/* Words of settings: kinds, policies, sizes, lists of nodes. */
#include "kinds.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *word;
    enum mem_kind kind;
} kinds[] = {{"SYS_DEFAULT", MEM_SYSTEM}, {"SYS DEFAULT", MEM_SYSTEM}, {"S", MEM_SYSTEM}, {"DDR", MEM_DDR},
             {"D", MEM_DDR}, {"DRAM", MEM_DDR}, {"NORMALMEM", MEM_DDR}, {"N", MEM_DDR}, {"HBM", MEM_HBM},
             {"H", MEM_HBM}, {"MCDRAM", MEM_HBM}, {"M", MEM_HBM}, {"FASTMEM", MEM_HBM}, {"F", MEM_HBM},
             {"CXL", MEM_CXL}, {"C", MEM_CXL}, {"PMEM", MEM_PMEM}};
static const struct {
    const char *word;
    enum mem_policy policy;
} policies[] = {{"MANDATORY", MEM_MANDATORY}, {"M", MEM_MANDATORY}, {"PREFERRED", MEM_PREFERRED},
                {"P", MEM_PREFERRED}, {"INTERLEAVE", MEM_INTERLEAVE}, {"I", MEM_INTERLEAVE}};

void mem_fail(struct mem_error *error, enum mem_failure what, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    error->what = what;
    vsnprintf(error->text, sizeof error->text, format, list);
    va_end(list);
}

const char *mem_kind_name(enum mem_kind kind)
{
    static const char *const names[] = {"SYS_DEFAULT", "DDR", "HBM", "CXL", "PMEM", "unknown", "node list"};
    return names[kind];
}

const char *mem_policy_name(enum mem_policy policy)
{
    static const char *const names[] = {"none", "Mandatory", "Preferred", "Interleave", "bound"};
    return names[policy];
}

bool mem_list_read(const char *text, struct mem_mask *mask)
{
    memset(mask, 0, sizeof *mask);
    for (const char *at = text;;) {
        char *end;
        if (!isdigit((unsigned char)*at))
            return false;
        long first = strtol(at, &end, 10), last = first;
        if (*end == '-') {
            at = end + 1;
            if (!isdigit((unsigned char)*at))
                return false;
            last = strtol(at, &end, 10);
        }
        if (last < first || last >= MEM_NODES_MOST)
            return false;
        for (long id = first; id <= last; id++)
            mem_mask_add(mask, (int)id);
        if (*end == '\0' || *end == '\n')
            return true;
        if (*end != ',')
            return false;
        at = end + 1;
    }
}

const char *mem_list_text(const struct mem_mask *mask, char *text, size_t room)
{
    size_t length = 0;
    *text = '\0';
    for (int id = 0; id < MEM_NODES_MOST; id++) {
        int last = id;
        if (!mem_mask_has(mask, id))
            continue;
        while (mem_mask_has(mask, last + 1))
            last++;
        int step = snprintf(text + length, room - length, last > id ? "%s%d-%d" : "%s%d", length ? "," : "", id, last);
        if (step < 0 || (size_t)step >= room - length)
            break;
        length += (size_t)step;
        id = last;
    }
    return text;
}

bool mem_kind_read(const char *text, struct mem_request *request, struct mem_error *error)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcasecmp(text, kinds[i].word) == 0) {
            request->kind = kinds[i].kind;
            return true;
        }
    const char *list = strncasecmp(text, "node", 4) == 0 ? text + 4 : "";
    if (mem_list_read(list + (*list == ':'), &request->list)) {
        request->kind = MEM_LIST;
        return true;
    }
    mem_fail(error, MEM_BAD_VALUE,
             "\"%s\": expected DDR (D, NORMALMEM), HBM (H, MCDRAM, M, FASTMEM, F), CXL (C), PMEM, SYS_DEFAULT (S) or nodeLIST",
             text);
    return false;
}

bool mem_policy_read(const char *text, struct mem_request *request, struct mem_error *error)
{
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        if (strcasecmp(text, policies[i].word) == 0) {
            request->policy = policies[i].policy;
            return true;
        }
    mem_fail(error, MEM_BAD_VALUE, "\"%s\": expected Mandatory (M), Preferred (P) or Interleave (I)", text);
    return false;
}

bool mem_bytes_read(const char *text, uint64_t *bytes)
{
    static const char suffixes[] = "KMGT";
    char *end;
    if (!isdigit((unsigned char)*text))
        return false;
    unsigned long long value = strtoull(text, &end, 10);
    const char *suffix = *end ? strchr(suffixes, toupper((unsigned char)*end)) : NULL;
    int shift = suffix ? 10 * (int)(suffix - suffixes + 1) : 0;
    if (suffix)
        end++;
    if (*end || value > UINT64_MAX >> 1 >> shift)
        return false;
    *bytes = (uint64_t)value << shift;
    return true;
}

bool mem_page_read(const char *text, const struct mem_machine *machine, struct mem_request *request,
                   struct mem_error *error)
{
    uint64_t bytes = 0, most = (uint64_t)512 << 20;
    bool good = mem_bytes_read(text, &bytes) && bytes > 0 && (bytes & (bytes - 1)) == 0;
    bool known = bytes == 4096 || bytes == (uint64_t)1 << 30 || (bytes >= 2 << 20 && bytes <= most);
    for (int i = 0; i < machine->sizes && !known; i++)
        known = machine->size[i].bytes == bytes;
    if (good && known) {
        request->page = bytes;
        return true;
    }
    mem_fail(error, MEM_BAD_VALUE, "\"%s\": expected 4K, 2M, 4M, 8M, 16M, 32M, 64M, 128M, 256M, 512M or 1G", text);
    return false;
}

const char *mem_bytes_text(uint64_t bytes, char *text)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    snprintf(text, 32, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}

const char *mem_page_text(uint64_t bytes, char *text)
{
    static const char suffixes[] = "KMG";
    int unit = 0;
    for (; bytes % 1024 == 0 && bytes > 0 && unit < 3; unit++)
        bytes /= 1024;
    snprintf(text, 32, "%llu%.1s", (unsigned long long)bytes, unit ? &suffixes[unit - 1] : "");
    return text;
}
