#include "report.h"

#include <math.h>
#include <stdlib.h>

void hopbyte_record_open(struct hopbyte_record *record, const char *schema) {
    record->schema = schema;
    record->count = 0;
}

static void field_add(struct hopbyte_record *record, struct hopbyte_field field) {
    if (record->count == HOPBYTE_FIELDS_MOST)
        abort(); /* a record with more fields than the array is a bug in this program */
    record->fields[record->count++] = field;
}

void hopbyte_record_number(struct hopbyte_record *record, const char *name, double value, const char *header,
                           double scale) {
    field_add(record,
              (struct hopbyte_field){
                  .name = name, .kind = HOPBYTE_FIELD_NUMBER, .number = value, .header = header, .scale = scale});
}

void hopbyte_record_whole(struct hopbyte_record *record, const char *name, long long value, const char *header) {
    field_add(record,
              (struct hopbyte_field){.name = name, .kind = HOPBYTE_FIELD_WHOLE, .whole = value, .header = header});
}

void hopbyte_record_text(struct hopbyte_record *record, const char *name, const char *value, const char *header) {
    field_add(record,
              (struct hopbyte_field){.name = name, .kind = HOPBYTE_FIELD_TEXT, .text = value, .header = header});
}

void hopbyte_record_raw(struct hopbyte_record *record, const char *name, const char *json) {
    field_add(record, (struct hopbyte_field){.name = name, .kind = HOPBYTE_FIELD_RAW, .text = json});
}

void hopbyte_json_string(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

void hopbyte_record_json(const struct hopbyte_record *record, FILE *out) {
    fputs("{\"schema\":", out);
    hopbyte_json_string(out, record->schema);
    for (int i = 0; i < record->count; i++) {
        const struct hopbyte_field *field = &record->fields[i];
        fprintf(out, ",\"%s\":", field->name);
        if (field->kind == HOPBYTE_FIELD_WHOLE)
            fprintf(out, "%lld", field->whole);
        else if (field->kind == HOPBYTE_FIELD_TEXT)
            hopbyte_json_string(out, field->text);
        else if (field->kind == HOPBYTE_FIELD_RAW)
            fputs(field->text, out);
        else if (isfinite(field->number))
            fprintf(out, "%.9g", field->number);
        else
            fputs("null", out);
    }
    fputs("}\n", out);
    fflush(out);
}

void hopbyte_record_row(const struct hopbyte_record *record, bool header, FILE *out) {
    char mark = '#';
    for (int i = 0; header && i < record->count; i++)
        if (record->fields[i].header) {
            fprintf(out, "%c%13s", mark, record->fields[i].header);
            mark = ' ';
        }
    if (header)
        fputc('\n', out);
    for (int i = 0; i < record->count; i++) {
        const struct hopbyte_field *field = &record->fields[i];
        if (!field->header)
            continue;
        if (field->kind == HOPBYTE_FIELD_WHOLE)
            fprintf(out, "%14lld", field->whole);
        else if (field->kind == HOPBYTE_FIELD_TEXT)
            fprintf(out, " %13s", field->text);
        else if (isfinite(field->number))
            fprintf(out, "%14.*f", fabs(field->number * field->scale) < 100 ? 3 : 1, field->number * field->scale);
        else
            fprintf(out, "%14s", "-");
    }
    fputc('\n', out);
    fflush(out);
}
