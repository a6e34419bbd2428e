#include "lines.h"

#include "world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hopbyte_lines_open(struct hopbyte_lines *lines, const char *path, char separator) {
    *lines = (struct hopbyte_lines){.path = path, .separator = separator, .text = hopbyte_file_share(path)};
    lines->rest = lines->text;
}

void hopbyte_lines_close(struct hopbyte_lines *lines) {
    free(lines->text);
    *lines = (struct hopbyte_lines){0};
}

void hopbyte_lines_wrong(const struct hopbyte_lines *lines, const char *found, const char *expected) {
    hopbyte_world_refuse(HOPBYTE_BAD_INPUT, "%s:%d: found '%.100s', expected %s", lines->path, lines->line, found,
                         expected);
}

static char *line_cut(struct hopbyte_lines *lines) {
    char *line = lines->rest;
    if (!*line)
        return NULL;
    char *end = line + strcspn(line, "\n");
    lines->rest = *end ? end + 1 : end;
    *end = '\0';
    if (end > line && end[-1] == '\r')
        end[-1] = '\0';
    lines->line++;
    return line;
}

static void words_cut(struct hopbyte_lines *lines, char *line) {
    const char *separators = lines->separator == '\t' ? "\t" : " \t";
    lines->count = 0;
    for (char *at = line;;) {
        if (lines->separator != '\t')
            at += strspn(at, separators);
        if (!*at && lines->separator != '\t')
            return;
        if (lines->count == HOPBYTE_WORDS_MOST)
            hopbyte_lines_wrong(lines, at, "the end of the line");
        lines->words[lines->count++] = at;
        at += strcspn(at, separators);
        if (!*at)
            return;
        *at++ = '\0';
    }
}

bool hopbyte_lines_next(struct hopbyte_lines *lines) {
    for (char *line; (line = line_cut(lines));) {
        char *start = line + strspn(line, " \t");
        if (!*start || *start == '#')
            continue;
        for (const unsigned char *c = (unsigned char *)line; *c; c++)
            if ((*c < 0x20 && *c != '\t') || *c == 0x7f)
                hopbyte_lines_wrong(lines, "a control character", "text");
        words_cut(lines, line);
        return true;
    }
    return false;
}

int hopbyte_lines_number(const struct hopbyte_lines *lines, int index, int least, int most) {
    char expected[64];
    snprintf(expected, sizeof expected, "a whole number in %d..%d", least, most);
    if (index >= lines->count)
        hopbyte_lines_wrong(lines, "the end of the line", expected);
    char *end;
    errno = 0;
    long number = strtol(lines->words[index], &end, 10);
    if (errno || *end || end == lines->words[index] || number < least || number > most)
        hopbyte_lines_wrong(lines, lines->words[index], expected);
    return (int)number;
}
