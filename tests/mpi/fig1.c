/* The code of paper 000, Fig. 1, as printed there, inside a main. */
#include "gpcd.h"

#include <stdio.h>

int main(void)
{
    gpcd_context_t *ctx;
    gpcd_mmr_desc_t *desc;
    gpcd_mmr_list_t *p;
    int i, j, k;
    char name[128];

    // Create a counter group, all tile counters
    ctx = gpcd_create_context();
    for (i = 0; i < 6; i++) // TILE_ROWS
        for (j = 0; j < 8; j++) // TILE_COLS
            for (k = 0; k < 6; k++) // TILE_COUNTERS
            {
                sprintf(name, "GM_%d_%d_TILE_PERFORMANCE_COUNTERS_%d", i, j, k);
                desc = gpcd_lookup_mmr_byname(name);
                gpcd_context_add_mmr(ctx, desc);
            }

    // Sample the tile counters
    gpcd_context_read_mmr_vals(ctx);

    // Print the counter values
    for (p = ctx->list; p; p = p->next)
        printf("Counter %s: Value=%lu\n", p->item->name, p->value);
    return 0;
}
