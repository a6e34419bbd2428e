/* What was delivered, as text and JSON. */
#include "kinds.h"

#include <string.h>

static const struct mem_node *node_of(const struct mem_machine *machine, int id)
{
    for (int i = 0; i < machine->count; i++)
        if (machine->nodes[i].id == id)
            return &machine->nodes[i];
    return NULL;
}

static const char *kind_of(const struct mem_machine *machine, int id)
{
    const struct mem_node *node = node_of(machine, id);
    return mem_kind_name(node ? node->kind : MEM_UNKNOWN);
}

void mem_delivered_add(struct mem_delivered *sum, const struct mem_delivered *d)
{
    sum->bytes += d->bytes;
    sum->absent += d->absent;
    sum->unknown += d->unknown;
    sum->elsewhere += d->elsewhere;
    sum->huge += d->huge;
    sum->transparent += d->transparent;
    sum->smaller += d->smaller;
    sum->page = d->page ? d->page : sum->page;
    for (int id = 0; id < MEM_NODES_MOST; id++)
        sum->node[id] += d->node[id];
    if (!*sum->reason)
        memcpy(sum->reason, d->reason, sizeof sum->reason);
}

void mem_delivered_write(FILE *out, const struct mem_machine *machine, const struct mem_delivered *d)
{
    char text[32], page[32];
    const char *comma = "";
    for (int id = 0; id < MEM_NODES_MOST; id++)
        if (d->node[id]) {
            fprintf(out, "%snode %d (%s) %s", comma, id, kind_of(machine, id), mem_bytes_text(d->node[id], text));
            comma = ", ";
        }
    if (d->absent) {
        fprintf(out, "%sno page behind %s", comma, mem_bytes_text(d->absent, text));
        comma = ", ";
    }
    if (d->unknown)
        fprintf(out, "%snode not known %s", comma, mem_bytes_text(d->unknown, text));
    comma = "; pages of ";
    if (d->huge) {
        fprintf(out, "%s%s %s", comma, mem_page_text(d->page, page), mem_bytes_text(d->huge, text));
        comma = ", ";
    }
    if (d->transparent) {
        fprintf(out, "%s%s (transparent) %s", comma, mem_page_text(machine->transparent, page), mem_bytes_text(d->transparent, text));
        comma = ", ";
    }
    if (d->bytes > d->huge + d->transparent)
        fprintf(out, "%s%s %s", comma, mem_page_text(machine->base, page),
                mem_bytes_text(d->bytes - d->huge - d->transparent, text));
}

void mem_delivered_json(FILE *out, const struct mem_machine *machine, const struct mem_delivered *d)
{
    const char *comma = "";
    fprintf(out, "\"delivered_bytes\":%llu,\"by_node\":[", (unsigned long long)d->bytes);
    for (int id = 0; id < MEM_NODES_MOST; id++)
        if (d->node[id]) {
            fprintf(out, "%s{\"node\":%d,\"kind\":\"%s\",\"bytes\":%llu}", comma, id, kind_of(machine, id),
                    (unsigned long long)d->node[id]);
            comma = ",";
        }
    comma = "";
    fprintf(out, "],\"by_page\":[");
    if (d->huge) {
        fprintf(out, "{\"page_bytes\":%llu,\"transparent\":false,\"bytes\":%llu}", (unsigned long long)d->page,
                (unsigned long long)d->huge);
        comma = ",";
    }
    if (d->transparent) {
        fprintf(out, "%s{\"page_bytes\":%llu,\"transparent\":true,\"bytes\":%llu}", comma,
                (unsigned long long)machine->transparent, (unsigned long long)d->transparent);
        comma = ",";
    }
    if (d->bytes > d->huge + d->transparent)
        fprintf(out, "%s{\"page_bytes\":%llu,\"transparent\":false,\"bytes\":%llu}", comma, (unsigned long long)machine->base,
                (unsigned long long)(d->bytes - d->huge - d->transparent));
    fprintf(out, "],\"other_node_bytes\":%llu,\"smaller_page_bytes\":%llu,\"absent_bytes\":%llu,\"unverified_bytes\":%llu,\"short\":",
            (unsigned long long)d->elsewhere, (unsigned long long)d->smaller, (unsigned long long)d->absent,
            (unsigned long long)d->unknown);
    if (*d->reason)
        hopbyte_json_text(out, d->reason);
    else
        fprintf(out, "null");
}
