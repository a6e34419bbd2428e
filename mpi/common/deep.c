#include "deep.h"

#include "own.h"

#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Thread_local int hopbyte_depth;

enum flavour { FLAVOUR_NONE, FLAVOUR_OMPI, FLAVOUR_MPICH, FLAVOUR_ABI };

static const struct {
    const char *suffix, *title;
} flavours[] = {{"none", "no MPI"}, {"ompi", "Open MPI"}, {"mpich", "MPICH"}, {"abi", "the standard MPI ABI"}};

#if defined(HOPBYTE_FLAVOUR_OMPI)
static const enum flavour own_flavour = FLAVOUR_OMPI;
#elif defined(HOPBYTE_FLAVOUR_MPICH)
static const enum flavour own_flavour = FLAVOUR_MPICH;
#else
static const enum flavour own_flavour = FLAVOUR_ABI;
#endif

enum { EXIT_ENVIRONMENT = 3 };

static struct {
    char path[4096];
    enum flavour flavour;
} library;

void hopbyte_say(const char *format, ...)
{
    char line[2048];
    int head = snprintf(line, sizeof line, "hopbyte %s: ", hopbyte_tool);
    va_list list;
    va_start(list, format);
    int tail = vsnprintf(line + head, sizeof line - (size_t)head - 1, format, list);
    va_end(list);
    size_t length = strnlen(line, sizeof line - 2);
    if (tail < 0)
        length = (size_t)head;
    line[length++] = '\n';
    /* One write, so that lines of different ranks do not mix. A failed write cannot be reported anywhere. */
    ssize_t written = hopbyte_own_write(STDERR_FILENO, line, length);
    (void)written;
}

long hopbyte_env_number(const char *name, long fallback, long least)
{
    const char *text = getenv(name);
    if (!text || !*text)
        return fallback;
    char *end;
    long value = strtol(text, &end, 10);
    if (*end || value < least) {
        hopbyte_say("%s=\"%s\" is not a whole number of at least %ld; using %ld", name, text, least, fallback);
        return fallback;
    }
    return value;
}

void hopbyte_host_read(char *name, size_t room)
{
    if (gethostname(name, room) != 0)
        snprintf(name, room, "unknown");
    name[room - 1] = 0;
}

/* Sorts by the library's file name. Every Open MPI since 1.3 is libmpi.so.0 to .40 or .80; libraries of the
 * MPICH ABI initiative are .12 under various names (Intel MPI, Cray MPICH, MVAPICH). */
static enum flavour flavour_guess(const char *path)
{
    const char *file = strrchr(path, '/');
    file = file ? file + 1 : path;
    if (strncmp(file, "libmpi_abi.so", 13) == 0)
        return FLAVOUR_ABI;
    if (strncmp(file, "libmpich", 8) == 0 || strncmp(file, "libmpi_cray", 11) == 0 ||
        strncmp(file, "libmpi_gnu", 10) == 0 || strncmp(file, "libmpi_intel", 12) == 0)
        return FLAVOUR_MPICH;
    if (strncmp(file, "libmpi.so", 9) != 0)
        return FLAVOUR_NONE;
    void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return FLAVOUR_NONE;
    enum flavour flavour = dlsym(handle, "ompi_mpi_comm_world") ? FLAVOUR_OMPI : FLAVOUR_MPICH;
    dlclose(handle);
    return flavour;
}

static int library_visit(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    enum flavour flavour = info->dlpi_name ? flavour_guess(info->dlpi_name) : FLAVOUR_NONE;
    if (flavour == FLAVOUR_NONE)
        return 0;
    library.flavour = flavour;
    snprintf(library.path, sizeof library.path, "%s", info->dlpi_name);
    return 1;
}

void hopbyte_flavour_check(void)
{
    if (library.flavour == FLAVOUR_NONE)
        dl_iterate_phdr(library_visit, NULL);
    if (library.flavour == FLAVOUR_NONE || library.flavour == own_flavour)
        return;
    hopbyte_say("libhopbyte_%s_%s.so is for %s, but this program uses %s (%s); preload libhopbyte_%s_%s.so instead",
                hopbyte_tool, flavours[own_flavour].suffix, flavours[own_flavour].title,
                flavours[library.flavour].title, library.path, hopbyte_tool, flavours[library.flavour].suffix);
    _exit(EXIT_ENVIRONMENT);
}

/* A library loaded for one module only (Python's dlopen) is not in the global scope: look up by its handle. */
static void *library_symbol(const char *name)
{
    if (library.flavour == FLAVOUR_NONE)
        return NULL;
    void *handle = dlopen(library.path, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return NULL;
    void *symbol = dlsym(handle, name);
    dlclose(handle);
    return symbol;
}

static void *symbol_require(void *symbol, const char *name)
{
    if (!symbol)
        symbol = library_symbol(name);
    if (symbol)
        return symbol;
    if (library.flavour == FLAVOUR_NONE)
        hopbyte_say("the program calls MPI, but no MPI library of a known name is loaded (wanted %s); a statically "
                    "linked MPI cannot be observed",
                    name);
    else
        hopbyte_say("%s does not have %s", library.path, name);
    _exit(EXIT_ENVIRONMENT);
}

void *hopbyte_next_find(const char *name)
{
    hopbyte_flavour_check();
    return symbol_require(dlsym(RTLD_NEXT, name), name);
}

/* Null until this library's own addresses are relocated. A library that is relocated before it (MPI's Fortran library,
 * where everything is bound at the start) refers only to functions that its MPI has. */
static void *volatile relocated = (void *)&relocated;

struct search {
    const char *name;
    bool found;
};

/* The tables of a library by which the loader finds its symbols. */
struct tables {
    const ElfW(Sym) *symbols;
    const char *names;
    const uint32_t *hash; /* DT_GNU_HASH: buckets, first symbol, filter words, shift; filter, buckets, chains */
};

static bool symbol_has(const struct tables *t, const char *name)
{
    uint32_t hash = 5381;
    for (const char *c = name; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    uint32_t count = t->hash[0], first = t->hash[1];
    const uint32_t *buckets = (const uint32_t *)((const ElfW(Addr) *)(t->hash + 4) + t->hash[2]), *chains = buckets + count;
    uint32_t at = count ? buckets[hash % count] : 0;
    if (at < first)
        return false;
    do {
        if ((chains[at - first] | 1) == (hash | 1) && t->symbols[at].st_shndx != SHN_UNDEF &&
            strcmp(t->names + t->symbols[at].st_name, name) == 0)
            return true;
    } while (!(chains[at++ - first] & 1));
    return false;
}

/* Looks a name up in one MPI library. A library that is being loaded cannot be asked by dlopen, which would run its
 * constructors too early. */
static int symbol_search(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *search = data;
    struct tables tables = {0};
    const char *file = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    (void)size;
    if (!file || strncmp(file, "/libmpi", 7) != 0)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        const ElfW(Dyn) *entry = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        for (; entry->d_tag != DT_NULL; entry++) {
            /* Addresses already, or offsets on architectures where this section is read-only. */
            uintptr_t at = entry->d_un.d_ptr < info->dlpi_addr ? info->dlpi_addr + entry->d_un.d_ptr : entry->d_un.d_ptr;
            if (entry->d_tag == DT_SYMTAB)
                tables.symbols = (const ElfW(Sym) *)at;
            else if (entry->d_tag == DT_STRTAB)
                tables.names = (const char *)at;
            else if (entry->d_tag == DT_GNU_HASH)
                tables.hash = (const uint32_t *)at;
        }
    }
    search->found = tables.symbols && tables.names && tables.hash && symbol_has(&tables, search->name);
    return search->found;
}

HOPBYTE_EARLY bool hopbyte_next_has(const char *name)
{
    if (relocated != (void *)&relocated)
        return true;
    if (dlsym(RTLD_NEXT, name))
        return true;
    struct search search = {name, false};
    dl_iterate_phdr(symbol_search, &search);
    return search.found;
}

__attribute__((constructor)) static void flavour_check_early(void)
{
    hopbyte_flavour_check();
}

void *hopbyte_data_find(const char *name)
{
    hopbyte_flavour_check();
    /* Not RTLD_NEXT: a program built without -fPIC has its own copy of the object, and that copy is the one in use. */
    return symbol_require(dlsym(RTLD_DEFAULT, name), name);
}
