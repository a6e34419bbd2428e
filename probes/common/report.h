/* One list of fields, two formats: a JSON line in base units, or a row of a text table with the units in its header. */
#ifndef HOPBYTE_REPORT_H
#define HOPBYTE_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { HOPBYTE_FIELDS_MOST = 48 };

struct hopbyte_field {
    const char *name;
    enum { HOPBYTE_FIELD_NUMBER, HOPBYTE_FIELD_WHOLE, HOPBYTE_FIELD_TEXT, HOPBYTE_FIELD_RAW } kind;
    double number;
    long long whole;
    const char *text;
    const char *header; /* of the text column; NULL: not in the table */
    double scale;       /* from base units to those of the column */
};

/* Names and texts must live until the record is written. */
struct hopbyte_record {
    const char *schema;
    int count;
    struct hopbyte_field fields[HOPBYTE_FIELDS_MOST];
};

void hopbyte_record_open(struct hopbyte_record *record, const char *schema);
/* NaN and infinities become null. */
void hopbyte_record_number(struct hopbyte_record *record, const char *name, double value, const char *header,
                           double scale);
void hopbyte_record_whole(struct hopbyte_record *record, const char *name, long long value, const char *header);
void hopbyte_record_text(struct hopbyte_record *record, const char *name, const char *value, const char *header);
/* A value that is already JSON. */
void hopbyte_record_raw(struct hopbyte_record *record, const char *name, const char *json);

/* Writes the JSON line. */
void hopbyte_record_json(const struct hopbyte_record *record, FILE *out);
/* Writes the row, preceded by the header if requested. */
void hopbyte_record_row(const struct hopbyte_record *record, bool header, FILE *out);

/* Appends a JSON string, quoted and escaped. */
void hopbyte_json_string(FILE *out, const char *text);

#endif
