#include "options.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool whole_read(const char *text, int least, int *value) {
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno || end == text || *end || number < least || number > INT_MAX)
        return false;
    *value = (int)number;
    return true;
}

bool hopbyte_bytes_read(const char *text, size_t *bytes) {
    static const struct {
        const char *unit;
        double factor;
    } units[] = {{"", 1},     {"B", 1},      {"kB", 1e3},      {"MB", 1e6},
                 {"GB", 1e9}, {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}};
    if (*text < '0' || *text > '9')
        return false;
    char *end;
    double number = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        double product = number * units[i].factor;
        if (strcmp(end, units[i].unit) == 0 && product < 1e15 && product == floor(product)) {
            *bytes = (size_t)product;
            return true;
        }
    }
    return false;
}

/* Cuts the next comma-separated word off `rest`; NULL at the end. */
static char *word_cut(char **rest) {
    char *word = *rest;
    if (!word)
        return NULL;
    char *comma = strchr(word, ',');
    if (comma)
        *comma++ = '\0';
    *rest = comma;
    return word;
}

static bool sizes_read(char *text, struct hopbyte_sizes *sizes) {
    sizes->count = 0;
    for (char *word; (word = word_cut(&text));) {
        if (sizes->count == HOPBYTE_SIZES_MOST || !hopbyte_bytes_read(word, &sizes->bytes[sizes->count++]))
            return false;
    }
    return true;
}

static bool triple_read(char *text, int least, int *values) {
    int count = 0;
    for (char *word; (word = word_cut(&text));)
        if (count == 3 || !whole_read(word, least, &values[count++]))
            return false;
    return count == 3;
}

static bool choice_read(const char *text, const char *choices, int *value) {
    size_t length = strlen(text);
    *value = 0;
    for (const char *at = choices;; at = strchr(at, '|') + 1, ++*value) {
        if (strcspn(at, "|") == length && strncmp(at, text, length) == 0)
            return length > 0;
        if (!strchr(at, '|'))
            return false;
    }
}

static bool value_read(const struct hopbyte_option *option, const char *text) {
    char copy[1024];
    if (option->kind != HOPBYTE_TEXT && snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy)
        return false;
    switch (option->kind) {
    case HOPBYTE_FLAG:
        return false;
    case HOPBYTE_COUNT:
        return whole_read(text, option->least, option->value);
    case HOPBYTE_BYTES:
        return hopbyte_bytes_read(text, option->value) && *(size_t *)option->value >= (size_t)option->least;
    case HOPBYTE_REAL: {
        char *end;
        double number = strtod(text, &end);
        *(double *)option->value = number;
        return end != text && !*end && isfinite(number) && number >= option->least;
    }
    case HOPBYTE_TEXT:
        *(const char **)option->value = text;
        return *text != '\0';
    case HOPBYTE_CHOICE:
        return choice_read(text, option->choices, option->value);
    case HOPBYTE_SIZES:
        return sizes_read(copy, option->value);
    case HOPBYTE_TRIPLE:
        return triple_read(copy, option->least, option->value);
    }
    return false;
}

static void expected_write(const struct hopbyte_option *option, char *text, size_t room) {
    switch (option->kind) {
    case HOPBYTE_FLAG:
        snprintf(text, room, "no value");
        break;
    case HOPBYTE_COUNT:
    case HOPBYTE_REAL:
        snprintf(text, room, "a %snumber from %d", option->kind == HOPBYTE_COUNT ? "whole " : "", option->least);
        break;
    case HOPBYTE_BYTES:
        snprintf(text, room, "bytes from %d, such as 4096, 64kB or 4MiB", option->least);
        break;
    case HOPBYTE_TEXT:
        snprintf(text, room, "a word");
        break;
    case HOPBYTE_CHOICE:
        snprintf(text, room, "one of %s", option->choices);
        break;
    case HOPBYTE_SIZES:
        snprintf(text, room, "up to %d sizes joined by commas, such as 8,4KiB,1MB", HOPBYTE_SIZES_MOST);
        break;
    case HOPBYTE_TRIPLE:
        snprintf(text, room, "three whole numbers from %d joined by commas", option->least);
        break;
    }
}

static const struct hopbyte_option *option_find(const struct hopbyte_option *options, const char *word, size_t length) {
    for (; options->name; options++)
        if (strlen(options->name) == length && strncmp(options->name, word, length) == 0)
            return options;
    return NULL;
}

int hopbyte_options_read(const struct hopbyte_option *options, int argc, char **argv, int first, char *problem,
                         size_t room) {
    char expected[256];
    for (int i = first; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
            return 1;
        if (strncmp(word, "--", 2) != 0) {
            snprintf(problem, room, "found '%.100s', expected an option (see --help)", word);
            return -1;
        }
        size_t length = strcspn(word + 2, "=");
        const struct hopbyte_option *option = option_find(options, word + 2, length);
        if (!option) {
            snprintf(problem, room, "unknown option '%.100s' (see --help)", word);
            return -1;
        }
        const char *value = word[2 + length] == '=' ? word + length + 3 : NULL;
        if (option->kind == HOPBYTE_FLAG && !value) {
            *(bool *)option->value = true;
            continue;
        }
        if (!value && option->kind != HOPBYTE_FLAG && i + 1 < argc)
            value = argv[++i];
        if (!value || !value_read(option, value)) {
            expected_write(option, expected, sizeof expected);
            snprintf(problem, room, "--%s: found '%.100s', expected %s", option->name, value ? value : "nothing",
                     expected);
            return -1;
        }
    }
    return 0;
}

int hopbyte_options_pick(const struct hopbyte_option *options, unsigned groups, struct hopbyte_option *picked,
                         int most) {
    int count = 0;
    for (; options->name && count < most - 1; options++)
        if (!options->group || (options->group & groups))
            picked[count++] = *options;
    picked[count] = (struct hopbyte_option){0};
    return count;
}

void hopbyte_options_help(const struct hopbyte_option *options) {
    static const char *const values[] = {"", " N", " BYTES", " X", " WORD", "", " BYTES,…", " A,B,C"};
    for (; options->name; options++) {
        char left[256];
        if (options->kind == HOPBYTE_CHOICE)
            snprintf(left, sizeof left, "--%s %s", options->name, options->choices);
        else
            snprintf(left, sizeof left, "--%s%s", options->name, values[options->kind]);
        printf("  %-34s %s\n", left, options->help);
    }
}
