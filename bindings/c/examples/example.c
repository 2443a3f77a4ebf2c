/* Writes and reads a volume, counts in it, and reads it with many operations in flight.
 *
 *   cc example.c $(pkg-config --cflags --libs nearflash) -o example
 *   ./example direct://127.0.0.1:4421/data
 */
#include <nearflash.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program with the error's message. */
static void check(int error, const char *what)
{
    if (error != NEARFLASH_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, nearflash_error_name(error), nearflash_last_error());
        exit(EXIT_FAILURE);
    }
}

static void blocking(nearflash_client *client)
{
    nearflash_volume *volume;
    check(nearflash_volume_open(client, NULL, &volume), "open");

    const char greeting[] = "Hello, flash";
    char read[sizeof greeting];
    check(nearflash_write(volume, greeting, sizeof greeting, 4000), "write");
    check(nearflash_flush(volume), "flush");
    check(nearflash_read(volume, read, sizeof read, 4000), "read");
    printf("%s\n", read);

    uint64_t before;
    check(nearflash_fetch_add(volume, 8192, 1, &before), "fetch and add");
    printf("run %" PRIu64 " times before\n", before);
    nearflash_volume_free(volume);
}

static void in_flight(nearflash_client *client)
{
    enum { READS = 32, LEN = 4096 };
    nearflash_queue_pair *pair;
    check(nearflash_queue_pair_open(client, NULL, NULL, &pair), "queue pair");
    for (int i = 0; i < READS; i++) {
        nearflash_buffer *buffer;
        check(nearflash_buffer_new(pair, LEN, &buffer), "buffer");
        check(nearflash_post_read(pair, buffer, (uint64_t)i * LEN, NULL), "post");
    }
    int done = 0;
    while (done < READS) {
        nearflash_completion completions[READS];
        size_t count;
        check(nearflash_poll(pair, completions, READS, &count), "poll");
        if (count == 0)
            check(nearflash_wait(pair, 1000000000), "wait");
        for (size_t i = 0; i < count; i++, done++) {
            check(completions[i].error, "read");
            nearflash_buffer_free(completions[i].buffer);
        }
    }
    printf("%d reads\n", done);
    nearflash_queue_pair_free(pair);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s URL\n", argv[0]);
        return EXIT_FAILURE;
    }
    nearflash_client *client;
    check(nearflash_connect(argv[1], NULL, NULL, &client), "connect");
    blocking(client);
    in_flight(client);
    nearflash_client_free(client);
    return EXIT_SUCCESS;
}
