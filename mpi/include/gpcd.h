/* The API of Cray's Gemini performance counter daemon library, over routers replayed or emulated from a file.
 *
 * Programs written for the real library (paper 000, Fig. 1; LDMS) compile unchanged. libgpcd.so of hopbyte reads the
 * file named by HOPBYTE_GPCD_FILE, see gpcd/README.md. All functions returning int give 0 on success, -1 otherwise. */
#ifndef HOPBYTE_GPCD_H
#define HOPBYTE_GPCD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A memory mapped register, by address and name. */
typedef struct gpcd_mmr_desc {
    uint64_t addr;
    char *name;
} gpcd_mmr_desc_t;

/* A register in a context, with the value of the last read. */
typedef struct gpcd_mmr_list {
    gpcd_mmr_desc_t *item;
    struct gpcd_mmr_list *next;
    uint64_t value;
} gpcd_mmr_list_t;

/* A set of registers read together. Adding prepends: the list is in reverse order of adding. */
typedef struct gpcd_context {
    gpcd_mmr_list_t *list;
    int count;
    uint32_t nic_addr;
} gpcd_context_t;

gpcd_context_t *gpcd_create_context(void);
int gpcd_remove_context(gpcd_context_t *context);
int gpcd_clone_context(gpcd_context_t *from, gpcd_context_t **to);
void gpcd_context_print(gpcd_context_t *context);
void gpcd_context_set_nic_addr(gpcd_context_t *context, uint32_t nic_addr);
gpcd_mmr_list_t *gpcd_context_find_list_byname(gpcd_context_t *context, char *name);

/* NULL when there is no such register. The description lives as long as the process. */
gpcd_mmr_desc_t *gpcd_lookup_mmr_byname(char *name);
int gpcd_context_add_mmr(gpcd_context_t *context, const gpcd_mmr_desc_t *desc);
int gpcd_context_remove_mmr(gpcd_context_t *context, const gpcd_mmr_desc_t *desc);

int gpcd_context_read_mmr_vals(gpcd_context_t *context);
int gpcd_read_mmr_val(const gpcd_mmr_desc_t *desc, uint64_t *value, uint32_t nic_addr);
int gpcd_read_mmr_val_byname(char *name, uint64_t *value, uint32_t nic_addr);

/* Replayed counters cannot be written: these fail with errno EPERM. */
int gpcd_context_write_mmr_vals(gpcd_context_t *context);
int gpcd_write_mmr_val(const gpcd_mmr_desc_t *desc, uint64_t *value, uint32_t nic_addr);
int gpcd_write_mmr_val_byname(char *name, uint64_t *value, uint32_t nic_addr);
int gpcd_disable_perms(void);
int gpcd_add_perms_entry(uint64_t job_id, int perms);
void gpcd_verbose_debug(int level);

/* hopbyte only: this library's address for the NICs of a router (`c0-0c0s0g0`). */
uint32_t hopbyte_gpcd_nic_addr(const char *router);

#ifdef __cplusplus
}
#endif

#endif
