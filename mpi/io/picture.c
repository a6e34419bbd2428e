/* A stacked bar for every rank: the phases of its calls on one file. */
#include "io.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEFT = 70, WIDTH = 640, TOP = 64, BAR = 14, GAP = 4, ROWS_MOST = 128 };

static double seconds_of(const struct hopbyte_io_sums *row, int phase)
{
    double seconds = *(const double *)((const char *)row + hopbyte_io_phases[phase].offset);
    return seconds > 0 ? seconds : 0;
}

void hopbyte_io_xml(FILE *out, const char *text)
{
    for (; *text; text++) {
        const char *entity = *text == '<' ? "&lt;" : *text == '&' ? "&amp;" : *text == '"' ? "&quot;" : NULL;
        if (entity)
            fputs(entity, out);
        else if ((unsigned char)*text >= 0x20)
            fputc(*text, out);
    }
}

static void draw(FILE *out, const struct hopbyte_io_file *file, const char *title, const struct hopbyte_io_sums *rows)
{
    int shown = file->size < ROWS_MOST ? file->size : ROWS_MOST;
    double longest = 0;
    for (int rank = 0; rank < shown; rank++)
        longest = rows[rank].total > longest ? rows[rank].total : longest;
    int height = TOP + shown * (BAR + GAP) + 30;
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
                 "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n<text x=\"10\" y=\"18\">",
            LEFT + WIDTH + 90, height);
    hopbyte_io_xml(out, file->name);
    fprintf(out, ": %s, seconds by rank%s</text>\n", title, shown < file->size ? " (the first 128)" : "");
    for (int phase = 0, x = 10; phase < IO_PHASES; phase++, x += 130)
        fprintf(out, "<rect x=\"%d\" y=\"30\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%d\" y=\"40\">%s</text>\n",
                x, hopbyte_io_phases[phase].colour, x + 15, hopbyte_io_phases[phase].text);
    for (int rank = 0; rank < shown; rank++) {
        double x = LEFT;
        int y = TOP + rank * (BAR + GAP);
        fprintf(out, "<text x=\"10\" y=\"%d\">rank %d</text>\n", y + BAR - 3, rank);
        for (int phase = 0; phase < IO_PHASES; phase++) {
            double seconds = seconds_of(&rows[rank], phase), width = longest > 0 ? WIDTH * seconds / longest : 0;
            fprintf(out, "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\"><title>%s %.6f s</title></rect>\n",
                    x, y, width, BAR, hopbyte_io_phases[phase].colour, hopbyte_io_phases[phase].text, seconds);
            x += width;
        }
        fprintf(out, "<text x=\"%.2f\" y=\"%d\">%.4f s</text>\n", x + 4, y + BAR - 3, rows[rank].total);
    }
    fprintf(out, "</svg>\n");
}

void hopbyte_io_picture(const char *folder, const struct hopbyte_io_file *file, const char *title,
                        const struct hopbyte_io_sums *rows)
{
    const char *base = strrchr(file->name, '/');
    char path[4096], temporary[4160];
    base = base ? base + 1 : file->name;
    snprintf(path, sizeof path, "%s/%s.%s.svg", folder, base, title);
    /* The file may be opened again, or have the name of one in another folder. */
    for (int again = 2; access(path, F_OK) == 0; again++)
        snprintf(path, sizeof path, "%s/%s.%s.%d.svg", folder, base, title, again);
    snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid());
    FILE *out = fopen(temporary, "w");
    if (!out) {
        hopbyte_say("cannot write %s: %m", temporary);
        return;
    }
    draw(out, file, title, rows);
    if (fclose(out) != 0 || rename(temporary, path) != 0) {
        hopbyte_say("cannot write %s: %m", path);
        unlink(temporary);
    }
}
