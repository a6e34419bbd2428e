/* Strings in JSON. */
#ifndef HOPBYTE_JSON_H
#define HOPBYTE_JSON_H

#include <stdio.h>

/* Writes a string with its quotes; control characters are escaped. */
static inline void hopbyte_json_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(out, "\\u%04x", *c);
        else
            fputc(*c, out);
    }
    fputc('"', out);
}

#endif
