/* Words of a text file line by line, with errors that name file and line. All ranks read the same shared text
 * (hopbyte_file_share), so that all refuse it together. */
#ifndef HOPBYTE_LINES_H
#define HOPBYTE_LINES_H

#include <stdbool.h>
#include <stddef.h>

enum { HOPBYTE_WORDS_MOST = 16 };

struct hopbyte_lines {
    const char *path;
    char *text; /* owned; modified while reading */
    char *rest;
    char separator; /* '\t' for tab-separated fields, ' ' for words between blanks */
    int line;       /* of the current words, from 1 */
    int count;
    char *words[HOPBYTE_WORDS_MOST];
};

/* Rank 0 reads the file and broadcasts it. */
void hopbyte_lines_open(struct hopbyte_lines *lines, const char *path, char separator);

/* The next line that is neither empty nor a comment (#); false at the end. Refuses control characters, and more than
 * HOPBYTE_WORDS_MOST words. */
bool hopbyte_lines_next(struct hopbyte_lines *lines);

/* Refuses the file at the current line. */
_Noreturn void hopbyte_lines_wrong(const struct hopbyte_lines *lines, const char *found, const char *expected);

/* Word `index` as a whole number in least…most, or refusal. */
int hopbyte_lines_number(const struct hopbyte_lines *lines, int index, int least, int most);

void hopbyte_lines_close(struct hopbyte_lines *lines);

#endif
