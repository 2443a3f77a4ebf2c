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

    /* The same volume, whose calls end after 5 s at the latest; and memory in pieces. */
    nearflash_volume *timed;
    check(nearflash_volume_with_timeout(volume, 5000000000, &timed), "time-out");
    const struct iovec places[] = {{read, 7}, {read + 7, sizeof read - 7}};
    check(nearflash_readv(timed, places, 2, 4000), "read");
    nearflash_volume_free(timed);
    printf("%s\n", read);

    uint64_t before;
    check(nearflash_fetch_add(volume, 8192, 1, &before), "fetch and add");
    printf("run %" PRIu64 " times before\n", before);
    nearflash_volume_free(volume);
}

enum { COUNT = 32, LEN = 4096 };

/* Waits until all operations have completed, and hands their buffers to `take`. */
static void finish(nearflash_queue_pair *pair, void (*take)(nearflash_buffer *buffer))
{
    int done = 0;
    while (done < COUNT) {
        nearflash_completion completions[COUNT];
        size_t count;
        check(nearflash_poll(pair, completions, COUNT, &count), "poll");
        if (count == 0)
            check(nearflash_wait(pair, 1000000000, NULL), "wait");
        for (size_t i = 0; i < count; i++, done++) {
            if (completions[i].error != NEARFLASH_OK) {
                fprintf(stderr, "operation: %s\n", completions[i].message);
                exit(EXIT_FAILURE);
            }
            take(completions[i].buffer);
        }
    }
}

static uint64_t sum;

static void add_up(nearflash_buffer *buffer)
{
    const unsigned char *bytes = nearflash_buffer_bytes(buffer);
    for (size_t i = 0; i < nearflash_buffer_len(buffer); i++)
        sum += bytes[i];
    nearflash_buffer_free(buffer);
}

static void in_flight(nearflash_client *client)
{
    const uint64_t start = 1 << 20;
    nearflash_queue_pair *pair;
    check(nearflash_queue_pair_open(client, NULL, NULL, &pair), "queue pair");
    for (int i = 0; i < COUNT; i++) {
        nearflash_buffer *buffer;
        check(nearflash_buffer_new(pair, LEN, &buffer), "buffer");
        memset(nearflash_buffer_bytes(buffer), i, LEN);
        check(nearflash_post_write(pair, buffer, start + (uint64_t)i * LEN, NULL), "write");
    }
    finish(pair, nearflash_buffer_free);
    for (int i = 0; i < COUNT; i++) {
        nearflash_buffer *buffer;
        check(nearflash_buffer_new(pair, LEN, &buffer), "buffer");
        check(nearflash_post_read(pair, buffer, start + (uint64_t)i * LEN, NULL), "read");
    }
    finish(pair, add_up);
    printf("%d reads, the sum of their bytes is %" PRIu64 "\n", COUNT, sum);
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
