/* io FILE BLOCK COUNT WAY [KEY=VALUE…]: blocks of all ranks interleaved in one file, written and read back.
 *   WAY  all      one collective write and read;  split  begin and end;  nonblocking  iwrite_all
 *        at       write_at, each rank its own part;  many  a collective for every block;  late  rank 1 comes 0.3 s late
 *        fail     a write to a file opened for reading;  unclosed  without MPI_File_close;  none  opened and closed only */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks;

static void check(int rc, const char *what)
{
    if (rc != MPI_SUCCESS) {
        fprintf(stderr, "%s failed\n", what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void fill(unsigned char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(i * 31 + (size_t)rank * 7 + i / 251);
}

static void transfer(MPI_File file, const char *way, unsigned char *data, int block, int count, int writing)
{
    int bytes = block * count;
    MPI_Request request;
    check(MPI_File_seek(file, 0, MPI_SEEK_SET), "seek");
    if (strcmp(way, "split") == 0) {
        check(writing ? MPI_File_write_all_begin(file, data, bytes, MPI_BYTE)
                      : MPI_File_read_all_begin(file, data, bytes, MPI_BYTE),
              "begin");
        check(writing ? MPI_File_write_all_end(file, data, MPI_STATUS_IGNORE)
                      : MPI_File_read_all_end(file, data, MPI_STATUS_IGNORE),
              "end");
    } else if (strcmp(way, "nonblocking") == 0) {
        check(writing ? MPI_File_iwrite_all(file, data, bytes, MPI_BYTE, &request)
                      : MPI_File_iread_all(file, data, bytes, MPI_BYTE, &request),
              "nonblocking");
        check(MPI_Wait(&request, MPI_STATUS_IGNORE), "wait");
    } else if (strcmp(way, "at") == 0) {
        check(writing ? MPI_File_write_at(file, 0, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE)
                      : MPI_File_read_at(file, 0, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE),
              "independent");
    } else if (strcmp(way, "many") == 0) {
        for (int i = 0; i < count; i++)
            check(writing ? MPI_File_write_at_all(file, (MPI_Offset)i * block, data + (size_t)i * block, block, MPI_BYTE,
                                                  MPI_STATUS_IGNORE)
                          : MPI_File_read_at_all(file, (MPI_Offset)i * block, data + (size_t)i * block, block, MPI_BYTE,
                                                 MPI_STATUS_IGNORE),
                  "one of many");
    } else {
        if (strcmp(way, "late") == 0 && rank == 1)
            usleep(300000);
        check(writing ? MPI_File_write_at_all(file, 0, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE)
                      : MPI_File_read_at_all(file, 0, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE),
              "collective");
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 5)
        MPI_Abort(MPI_COMM_WORLD, 2);
    int block = atoi(argv[2]), count = atoi(argv[3]);
    const char *way = argv[4];
    MPI_Info info;
    MPI_Info_create(&info);
    for (int i = 5; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        *equals = 0;
        MPI_Info_set(info, argv[i], equals + 1);
    }
    int mode = strcmp(way, "fail") == 0 ? MPI_MODE_RDONLY : MPI_MODE_CREATE | MPI_MODE_RDWR;
    MPI_File file;
    check(MPI_File_open(MPI_COMM_WORLD, argv[1], mode, info, &file), "open");
    unsigned char *data = malloc((size_t)block * (size_t)count + 1), *back = calloc((size_t)count + 1, (size_t)block + 1);
    fill(data, (size_t)block * (size_t)count);
    if (strcmp(way, "fail") == 0) {
        int rc = MPI_File_write_at_all(file, 0, data, block, MPI_BYTE, MPI_STATUS_IGNORE);
        printf("write returned %s\n", rc == MPI_SUCCESS ? "success" : "an error");
    } else if (strcmp(way, "none") != 0) {
        MPI_Datatype type;
        MPI_Type_vector(count, block, block * ranks, MPI_BYTE, &type);
        MPI_Type_commit(&type);
        check(MPI_File_set_view(file, (MPI_Offset)rank * block, MPI_BYTE, type, "native", info), "view");
        transfer(file, way, data, block, count, 1);
        check(MPI_File_sync(file), "sync");
        MPI_Barrier(MPI_COMM_WORLD);
        transfer(file, way, back, block, count, 0);
        if (memcmp(data, back, (size_t)block * (size_t)count) != 0) {
            fprintf(stderr, "rank %d read other bytes than it wrote\n", rank);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        MPI_Type_free(&type);
    }
    MPI_Info_free(&info);
    if (strcmp(way, "unclosed") != 0)
        check(MPI_File_close(&file), "close");
    free(data);
    free(back);
    MPI_Finalize();
    return 0;
}
