/* Calls every function of the header on a volume of a real node, and checks what each does.
 *
 *   every_function URL [KEY SECRET]
 *   every_function URL lost
 *   every_function URL late
 *   every_function URL replaced
 *
 * tests/functions.rs generates counted.h, which includes the header and records each call, and runs
 * this program. The program prints the name of each function that it has called. With `lost`, it
 * prints `asleep` instead, and the test ends the node. With `late`, the node's device does not
 * answer. With `replaced`, the test replaces the node after the word `written`.
 */
#define _POSIX_C_SOURCE 200809L
#include "counted.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define EXPECT(condition) \
    ((condition) ? (void)0 : fail(__LINE__, #condition, nearflash_last_error()))
#define EXPECT_OK(call) EXPECT((call) == NEARFLASH_OK)

static const uint64_t SECOND = 1000000000;
static const uint64_t MIB = 1 << 20;

static void fail(int line, const char *condition, const char *message)
{
    fprintf(stderr, "every_function.c:%d: not %s; last error: %s\n", line, condition, message);
    exit(EXIT_FAILURE);
}

static void fill(unsigned char *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)(seed + i * 7);
}

static bool is_filled(const unsigned char *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != (unsigned char)(seed + i * 7))
            return false;
    return true;
}

static void check_info(const nearflash_volume_info *info)
{
    static const unsigned char nil[16];
    EXPECT(info->len == 8 * MIB);
    EXPECT(info->block_size == 4096);
    EXPECT(memcmp(info->uuid, nil, sizeof nil) != 0);
    EXPECT(info->is_readable && info->is_writable);
}

/* ------------------------------------------------------------------------------------ errors */

static void errors(nearflash_client *client, const char *url)
{
    EXPECT(strcmp(nearflash_error_name(NEARFLASH_NOT_GRANTED), "NOT_GRANTED") == 0);
    EXPECT(strcmp(nearflash_error_name(NEARFLASH_INVALID_ARGUMENT), "INVALID_ARGUMENT") == 0);
    EXPECT(strcmp(nearflash_error_name(-1), "UNKNOWN") == 0);
    EXPECT(strstr(nearflash_error_sentence(NEARFLASH_QUEUE_FULL), "depth") != NULL);

    int mark;
    nearflash_client *none = (nearflash_client *)&mark;
    EXPECT(nearflash_connect(NULL, NULL, NULL, &none) == NEARFLASH_INVALID_ARGUMENT);
    EXPECT(none == NULL);
    EXPECT(nearflash_connect(url, "key", NULL, &none) == NEARFLASH_INVALID_ARGUMENT);
    EXPECT(strstr(nearflash_last_error(), "secret") != NULL);
    EXPECT(nearflash_connect(url, "key", "short", &none) == NEARFLASH_INVALID_CREDENTIALS);
    EXPECT(nearflash_connect("direct://\xff", NULL, NULL, &none) == NEARFLASH_INVALID_ARGUMENT);
    EXPECT(nearflash_connect("http://a", NULL, NULL, &none) == NEARFLASH_INVALID_URL);

    nearflash_volume *volume = (nearflash_volume *)&mark;
    EXPECT(nearflash_volume_open(client, "absent", &volume) != NEARFLASH_OK);
    EXPECT(volume == NULL && strstr(nearflash_last_error(), "'absent'") != NULL);
    EXPECT(nearflash_volume_open(client, "data", NULL) == NEARFLASH_INVALID_ARGUMENT);
    nearflash_queue_pair *pair = (nearflash_queue_pair *)&mark;
    EXPECT(nearflash_queue_pair_open(client, "absent", NULL, &pair) != NEARFLASH_OK);
    EXPECT(pair == NULL);

    nearflash_client_free(NULL);
    nearflash_volume_free(NULL);
    nearflash_queue_pair_free(NULL);
    nearflash_buffer_free(NULL);
}

/* Time-outs are the caller's: a node that never answers is given up on. */
static void options(const char *url)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t len = sizeof address;
    EXPECT(bind(listener, (struct sockaddr *)&address, len) == 0 && listen(listener, 1) == 0);
    EXPECT(getsockname(listener, (struct sockaddr *)&address, &len) == 0);
    char silent[40];
    snprintf(silent, sizeof silent, "direct://127.0.0.1:%d", ntohs(address.sin_port));

    nearflash_connect_options wanted = {.size = sizeof wanted, .silence_max_ns = SECOND};
    nearflash_client *client = NULL;
    int error = nearflash_connect_with(silent, NULL, NULL, &wanted, &client);
    EXPECT(error == NEARFLASH_UNREACHABLE && client == NULL);
    EXPECT(strstr(nearflash_last_error(), "within 1 s") != NULL);
    close(listener);

    wanted.size = 1;
    error = nearflash_connect_with(url, NULL, NULL, &wanted, &client);
    EXPECT(error == NEARFLASH_INVALID_ARGUMENT);
    EXPECT(strstr(nearflash_last_error(), "size") != NULL);
}

/* -------------------------------------------------------------------------- blocking calls */

static void blocking(nearflash_client *client)
{
    nearflash_volume *volume = NULL;
    EXPECT_OK(nearflash_volume_open(client, NULL, &volume));
    nearflash_volume_info info;
    EXPECT_OK(nearflash_volume_get_info(volume, &info));
    check_info(&info);

    /* Neither the length nor the offset is a multiple of anything, and the data has many pieces. */
    const size_t len = 3 * MIB + 17;
    const uint64_t offset = 4001;
    unsigned char *written = malloc(len), *read = malloc(len);
    EXPECT(written != NULL && read != NULL);
    fill(written, len, 1);
    memset(read, 0, len);
    EXPECT_OK(nearflash_write(volume, written, len, offset));
    EXPECT_OK(nearflash_flush(volume));
    uint64_t replaced = 7;
    EXPECT_OK(nearflash_replaced_connections(volume, &replaced));
    EXPECT(replaced == 0);
    EXPECT_OK(nearflash_read(volume, read, len, offset));
    EXPECT(is_filled(read, len, 1));
    EXPECT_OK(nearflash_read(volume, NULL, 0, 0));
    EXPECT(nearflash_read(volume, NULL, 1, 0) == NEARFLASH_INVALID_ARGUMENT);
    EXPECT(nearflash_write(volume, NULL, 1, 0) == NEARFLASH_INVALID_ARGUMENT);
    EXPECT(nearflash_read(volume, read, 2, info.len - 1) == NEARFLASH_OUT_OF_RANGE);

    /* The device of the test reads as zeroes after a discard. */
    EXPECT_OK(nearflash_discard(volume, MIB, 8192));
    EXPECT_OK(nearflash_read(volume, read, 8194, MIB - 1));
    EXPECT(is_filled(read, 1, 1 + (unsigned)(MIB - 1 - offset) * 7));
    for (size_t i = 1; i <= 8192; i++)
        EXPECT(read[i] == 0);
    EXPECT(is_filled(read + 8193, 1, 1 + (unsigned)(MIB + 8192 - offset) * 7));

    /* Memory in pieces, and zeroes; an empty piece has no address. */
    const struct iovec parts[3] = {
        {.iov_base = written, .iov_len = 5}, {NULL, 0}, {written + 5, 2 * MIB}};
    EXPECT_OK(nearflash_writev(volume, parts, 3, 99));
    const struct iovec places[2] = {{read, 2 * MIB}, {read + 2 * MIB, 5}};
    memset(read, 0, len);
    EXPECT_OK(nearflash_readv(volume, places, 2, 99));
    EXPECT(is_filled(read, 2 * MIB + 5, 1) && read[2 * MIB + 5] == 0);
    EXPECT_OK(nearflash_write_zeroes(volume, 100, 2 * MIB + 3));
    EXPECT_OK(nearflash_read(volume, read, 2 * MIB + 5, 99));
    EXPECT(read[0] == written[0] && is_filled(read + 2 * MIB + 4, 1, 1 + (2 * MIB + 4) * 7));
    for (size_t i = 1; i < 2 * MIB + 4; i++)
        EXPECT(read[i] == 0);
    EXPECT_OK(nearflash_readv(volume, NULL, 0, 0));
    EXPECT(nearflash_writev(volume, NULL, 1, 0) == NEARFLASH_INVALID_ARGUMENT);
    const struct iovec missing = {NULL, 1};
    EXPECT(nearflash_readv(volume, &missing, 1, 0) == NEARFLASH_INVALID_ARGUMENT);
    EXPECT(nearflash_write_zeroes(volume, info.len, 1) == NEARFLASH_OUT_OF_RANGE);
    EXPECT_OK(nearflash_write_durable(volume, written, 9, 33));
    EXPECT(nearflash_write_durable(volume, NULL, 1, 0) == NEARFLASH_INVALID_ARGUMENT);

    /* A call without time does nothing. Each handle is freed on its own. */
    nearflash_volume *timed = NULL;
    EXPECT_OK(nearflash_volume_with_timeout(volume, 0, &timed));
    EXPECT(nearflash_write(timed, "x", 1, 33) == NEARFLASH_CONNECTION_LOST);
    EXPECT(strstr(nearflash_last_error(), "time-out") != NULL);
    nearflash_volume_free(timed);
    EXPECT_OK(nearflash_volume_with_timeout(volume, 30 * SECOND, &timed));
    EXPECT_OK(nearflash_read(timed, read, 9, 33));
    EXPECT(is_filled(read, 9, 1));
    nearflash_volume_free(timed);
    EXPECT(nearflash_volume_with_timeout(NULL, SECOND, &timed) != NEARFLASH_OK && timed == NULL);

    uint64_t word = 99;
    const unsigned char forty[8] = {40};
    EXPECT_OK(nearflash_write(volume, forty, sizeof forty, 6 * MIB));
    EXPECT_OK(nearflash_fetch_add(volume, 6 * MIB, 2, &word));
    EXPECT(word == 40);
    EXPECT_OK(nearflash_compare_and_swap(volume, 6 * MIB, 41, 7, &word));
    EXPECT(word == 42);
    EXPECT_OK(nearflash_compare_and_swap(volume, 6 * MIB, 42, 7, &word));
    EXPECT(word == 42);
    EXPECT_OK(nearflash_read(volume, read, 8, 6 * MIB));
    EXPECT(read[0] == 7 && read[1] == 0);
    EXPECT(nearflash_fetch_add(volume, 6 * MIB + 1, 1, &word) == NEARFLASH_INVALID_FIELD);

    free(written);
    free(read);
    nearflash_volume_free(volume);
}

/* ----------------------------------------------------------------------------- a queue pair */

/* Waits for exactly `wanted` completions, in any order. */
static void complete(nearflash_queue_pair *pair, nearflash_completion *done, size_t wanted)
{
    size_t total = 0;
    while (total < wanted) {
        size_t count = 99;
        EXPECT_OK(nearflash_poll(pair, done + total, wanted - total, &count));
        EXPECT(count <= wanted - total);
        total += count;
        bool is_ready = false;
        if (total < wanted)
            EXPECT_OK(nearflash_wait(pair, 30 * SECOND, &is_ready));
        EXPECT(total == wanted || is_ready);
    }
}

/* The completion of the only operation in flight. */
static nearflash_completion one(nearflash_queue_pair *pair, uint64_t token)
{
    nearflash_completion done;
    EXPECT_OK(nearflash_submit(pair));
    EXPECT(nearflash_queue_pair_in_flight(pair) == 1);
    complete(pair, &done, 1);
    EXPECT(done.token == token);
    EXPECT(nearflash_queue_pair_in_flight(pair) == 0);
    return done;
}

static void buffers(nearflash_queue_pair *pair)
{
    nearflash_buffer *buffer = NULL;
    EXPECT_OK(nearflash_buffer_new(pair, 5000, &buffer));
    EXPECT(nearflash_buffer_len(buffer) == 5000);
    EXPECT((uintptr_t)nearflash_buffer_bytes(buffer) % 4096 == 0);
    EXPECT_OK(nearflash_buffer_set_len(buffer, 4096));
    EXPECT(nearflash_buffer_len(buffer) == 4096);
    EXPECT(nearflash_buffer_set_len(buffer, 1 << 20) == NEARFLASH_INVALID_ARGUMENT);
    nearflash_buffer_free(buffer);
    EXPECT(nearflash_buffer_new(NULL, 1, &buffer) != NEARFLASH_OK && buffer == NULL);
    EXPECT(nearflash_buffer_len(NULL) == 0 && nearflash_buffer_bytes(NULL) == NULL);
}

static void operations(nearflash_queue_pair *pair)
{
    uint64_t token = 0;
    nearflash_buffer *buffer = NULL;
    EXPECT_OK(nearflash_buffer_new(pair, 8192, &buffer));

    fill(nearflash_buffer_bytes(buffer), 8192, 2);
    EXPECT_OK(nearflash_post_write(pair, buffer, 8192, &token));
    EXPECT(nearflash_buffer_bytes(buffer) == NULL && nearflash_buffer_len(buffer) == 0);
    EXPECT(nearflash_post_write(pair, buffer, 0, NULL) == NEARFLASH_INVALID_ARGUMENT);
    EXPECT(nearflash_buffer_set_len(buffer, 1) == NEARFLASH_INVALID_ARGUMENT);
    nearflash_completion done = one(pair, token);
    EXPECT(done.error == NEARFLASH_OK && done.buffer == buffer && done.value == 0);
    EXPECT(done.message == NULL);
    fill(nearflash_buffer_bytes(buffer), 8192, 3);
    EXPECT_OK(nearflash_post_write_durable(pair, buffer, 16384, &token));
    EXPECT(one(pair, token).error == NEARFLASH_OK);

    EXPECT_OK(nearflash_buffer_set_len(buffer, 4096));
    EXPECT_OK(nearflash_post_read(pair, buffer, 16384 - 2048, &token));
    EXPECT(one(pair, token).error == NEARFLASH_OK);
    const unsigned char *bytes = nearflash_buffer_bytes(buffer);
    EXPECT(is_filled(bytes, 2048, 2 + 6144 * 7) && is_filled(bytes + 2048, 2048, 3));

    EXPECT_OK(nearflash_post_flush(pair, &token));
    done = one(pair, token);
    EXPECT(done.error == NEARFLASH_OK && done.buffer == NULL);
    EXPECT_OK(nearflash_post_discard(pair, 8192, 8192, &token));
    EXPECT(one(pair, token).error == NEARFLASH_OK);
    EXPECT_OK(nearflash_post_fetch_add(pair, 8192, 5, &token));
    done = one(pair, token);
    EXPECT(done.error == NEARFLASH_OK && done.value == 0);
    EXPECT_OK(nearflash_post_compare_and_swap(pair, 8192, 5, 6, &token));
    EXPECT(one(pair, token).value == 5);
    EXPECT_OK(nearflash_post_compare_and_swap(pair, 8192, 5, 7, &token));
    EXPECT(one(pair, token).value == 6);

    EXPECT_OK(nearflash_post_read(pair, buffer, 8 * MIB - 1, &token));
    done = one(pair, token);
    EXPECT(done.error == NEARFLASH_OUT_OF_RANGE && done.buffer == buffer);
    EXPECT(strcmp(done.message, nearflash_error_sentence(done.error)) == 0);
    nearflash_buffer_free(buffer);
}

/* Operations on memory in pieces, and of zeroes. */
static void pieces(nearflash_queue_pair *pair)
{
    uint64_t token = 0;
    unsigned char first[3], second[4094];
    fill(first, sizeof first, 5);
    fill(second, sizeof second, 5 + 3 * 7);
    const struct iovec both[3] = {{first, sizeof first}, {NULL, 0}, {second, sizeof second}};
    EXPECT_OK(nearflash_post_writev(pair, both, 3, 5 * MIB + 1, &token));
    /* The post has copied them. */
    memset(first, 0, sizeof first);
    memset(second, 0, sizeof second);
    nearflash_completion done = one(pair, token);
    EXPECT(done.error == NEARFLASH_OK && done.buffer == NULL);
    EXPECT_OK(nearflash_post_readv(pair, both, 3, 5 * MIB + 1, &token));
    done = one(pair, token);
    EXPECT(done.error == NEARFLASH_OK && done.buffer == NULL);
    EXPECT(is_filled(first, sizeof first, 5) && is_filled(second, sizeof second, 5 + 3 * 7));

    EXPECT_OK(nearflash_post_write_zeroes(pair, 5 * MIB + 2, 4095, &token));
    EXPECT(one(pair, token).error == NEARFLASH_OK);
    EXPECT_OK(nearflash_post_readv(pair, both, 3, 5 * MIB + 1, &token));
    EXPECT(one(pair, token).error == NEARFLASH_OK);
    EXPECT(is_filled(first, 1, 5) && first[1] == 0 && first[2] == 0);
    EXPECT(second[0] == 0 && second[4092] == 0 && is_filled(second + 4093, 1, 5 + 4096 * 7));

    /* A failed read leaves the memory alone. */
    EXPECT_OK(nearflash_post_readv(pair, both, 3, 8 * MIB - 1, &token));
    EXPECT(one(pair, token).error == NEARFLASH_OUT_OF_RANGE);
    EXPECT(is_filled(first, 1, 5));
    EXPECT(nearflash_post_readv(pair, both, 0, 0, NULL) == NEARFLASH_INVALID_LENGTH);
    EXPECT(nearflash_post_writev(pair, NULL, 1, 0, NULL) == NEARFLASH_INVALID_ARGUMENT);
    const struct iovec long_one = {first, SIZE_MAX};
    EXPECT(nearflash_post_readv(pair, &long_one, 1, 0, NULL) == NEARFLASH_INVALID_LENGTH);
    EXPECT(nearflash_post_write_zeroes(pair, 0, 0, NULL) == NEARFLASH_INVALID_LENGTH);

    EXPECT_OK(nearflash_queue_pair_set_timeout(pair, 0));
    EXPECT(nearflash_post_flush(pair, NULL) == NEARFLASH_CONNECTION_LOST);
    EXPECT_OK(nearflash_queue_pair_set_timeout(pair, 30 * SECOND));
    EXPECT_OK(nearflash_post_flush(pair, &token));
    EXPECT(one(pair, token).error == NEARFLASH_OK);
    EXPECT_OK(nearflash_queue_pair_set_timeout(pair, UINT64_MAX));
}

/* As many operations as the queue pair takes, and one more. */
static void full_queue(nearflash_queue_pair *pair)
{
    enum { DEPTH = 8, LEN = 4096 };
    EXPECT(nearflash_queue_pair_depth(pair) == DEPTH);
    nearflash_buffer *buffers[DEPTH];
    uint64_t tokens[DEPTH];
    for (unsigned i = 0; i < DEPTH; i++) {
        EXPECT_OK(nearflash_buffer_new(pair, LEN, &buffers[i]));
        fill(nearflash_buffer_bytes(buffers[i]), LEN, i);
        EXPECT_OK(nearflash_post_write(pair, buffers[i], i * LEN, &tokens[i]));
    }
    EXPECT(nearflash_post_flush(pair, NULL) == NEARFLASH_QUEUE_FULL);
    nearflash_completion done[DEPTH];
    complete(pair, done, DEPTH);
    for (unsigned i = 0; i < DEPTH; i++) {
        EXPECT(done[i].error == NEARFLASH_OK);
        EXPECT_OK(nearflash_post_read(pair, buffers[i], i * LEN, &tokens[i]));
    }
    complete(pair, done, DEPTH);
    unsigned seen = 0;
    for (unsigned i = 0; i < DEPTH; i++) {
        unsigned at = 0;
        while (at < DEPTH && tokens[at] != done[i].token)
            at++;
        EXPECT(at < DEPTH && done[i].error == NEARFLASH_OK && done[i].buffer == buffers[at]);
        EXPECT(is_filled(nearflash_buffer_bytes(done[i].buffer), LEN, at));
        seen |= 1u << at;
        nearflash_buffer_free(done[i].buffer);
    }
    EXPECT(seen == (1u << DEPTH) - 1);
    size_t count = 99;
    EXPECT_OK(nearflash_poll(pair, NULL, 0, &count));
    EXPECT(count == 0);
    EXPECT_OK(nearflash_poll(pair, done, DEPTH, &count));
    EXPECT(count == 0);
    bool is_ready = true;
    EXPECT_OK(nearflash_wait(pair, 1000, &is_ready));
    EXPECT(!is_ready);
    EXPECT_OK(nearflash_wait(pair, 0, NULL));
}

/* A connection that ends with operations in flight, and the next one. */
static void reconnect(nearflash_queue_pair *pair)
{
    nearflash_buffer *buffers[2] = {NULL, NULL};
    uint64_t tokens[2];
    EXPECT_OK(nearflash_buffer_new(pair, 4096, &buffers[0]));
    EXPECT_OK(nearflash_buffer_new(pair, 4096, &buffers[1]));
    fill(nearflash_buffer_bytes(buffers[1]), 4096, 9);
    EXPECT_OK(nearflash_post_read(pair, buffers[0], 0, &tokens[0]));
    EXPECT_OK(nearflash_post_write(pair, buffers[1], 4096, &tokens[1]));
    EXPECT_OK(nearflash_reconnect(pair));
    nearflash_completion done[2];
    complete(pair, done, 2);
    EXPECT(done[0].token == tokens[0] && done[0].error == NEARFLASH_CONNECTION_LOST);
    EXPECT(done[1].token == tokens[1] && done[1].error == NEARFLASH_OUTCOME_UNKNOWN);
    EXPECT(strstr(done[0].message, "was lost") != NULL);
    EXPECT(strstr(done[1].message, "unknown") != NULL);
    EXPECT(done[0].buffer == buffers[0] && done[1].buffer == buffers[1]);
    EXPECT(is_filled(nearflash_buffer_bytes(buffers[1]), 4096, 9));

    uint64_t token;
    EXPECT_OK(nearflash_post_write(pair, buffers[1], 4096, &token));
    EXPECT(one(pair, token).error == NEARFLASH_OK);
    EXPECT_OK(nearflash_post_read(pair, buffers[0], 4096, &token));
    EXPECT(one(pair, token).error == NEARFLASH_OK);
    EXPECT(is_filled(nearflash_buffer_bytes(buffers[0]), 4096, 9));
    nearflash_buffer_free(buffers[0]);
    nearflash_buffer_free(buffers[1]);
}

/* With nothing in flight, the descriptor is silent. The node may signal the last completion after it was polled,
 * but only once. */
static void expect_silence(nearflash_queue_pair *pair, int fd)
{
    int signals = 0;
    struct pollfd watched = {.fd = fd, .events = POLLIN};
    for (;;) {
        bool is_ready = true;
        EXPECT_OK(nearflash_arm(pair, &is_ready));
        EXPECT(!is_ready);
        if (poll(&watched, 1, 0) == 0)
            return;
        EXPECT(++signals == 1);
        nearflash_completion done[8];
        size_t count = 1;
        EXPECT_OK(nearflash_poll(pair, done, 8, &count));
        EXPECT(count == 0);
    }
}

/* Sleeps on the descriptor as an event loop does, until as many operations are complete. */
static void sleep_until_complete(nearflash_queue_pair *pair, size_t wanted)
{
    int fd = -1;
    EXPECT_OK(nearflash_queue_pair_fd(pair, &fd));
    while (wanted > 0) {
        bool is_ready = false;
        EXPECT_OK(nearflash_arm(pair, &is_ready));
        struct pollfd watched = {.fd = fd, .events = POLLIN};
        EXPECT(nearflash_time_left(pair) <= 10 * SECOND);
        EXPECT(is_ready || poll(&watched, 1, 30000) == 1);
        nearflash_completion done[8];
        size_t count = 0;
        EXPECT_OK(nearflash_poll(pair, done, 8, &count));
        for (size_t i = 0; i < count; i++) {
            EXPECT(done[i].error == NEARFLASH_OK);
            nearflash_buffer_free(done[i].buffer);
        }
        wanted -= count;
    }
    expect_silence(pair, fd);
    EXPECT(nearflash_time_left(pair) == UINT64_MAX && !nearflash_has_unsent(pair));
}

static void event_loop(nearflash_queue_pair *pair, size_t len, unsigned rounds)
{
    for (unsigned round = 0; round < rounds; round++) {
        unsigned count = 1 + round % 7;
        for (unsigned i = 0; i < count; i++) {
            nearflash_buffer *buffer = NULL;
            EXPECT_OK(nearflash_buffer_new(pair, len, &buffer));
            if (round % 2 == 0)
                EXPECT_OK(nearflash_post_write(pair, buffer, i * len, NULL));
            else
                EXPECT_OK(nearflash_post_read(pair, buffer, i * len, NULL));
        }
        sleep_until_complete(pair, count);
    }
}

static void open_pair(nearflash_client *client, uint64_t shared_len, nearflash_queue_pair **pair)
{
    const nearflash_queue_options options = {
        .size = sizeof options, .depth = 8, .shared_len = shared_len};
    EXPECT_OK(nearflash_queue_pair_open(client, "data", &options, pair));
    EXPECT(nearflash_queue_pair_len_max(*pair) >= MIB);
}

/* Without shared memory, buffers are not limited by it. */
static void without_shared_memory(nearflash_client *client, bool is_local)
{
    nearflash_queue_pair *pair = NULL;
    nearflash_buffer *buffer = NULL;
    open_pair(client, MIB, &pair);
    int error = nearflash_buffer_new(pair, 2 * MIB, &buffer);
    EXPECT(error == (is_local ? NEARFLASH_NO_MEMORY : NEARFLASH_OK));
    EXPECT((buffer == NULL) == is_local);
    nearflash_buffer_free(buffer);
    nearflash_queue_pair_free(pair);

    open_pair(client, NEARFLASH_NONE, &pair);
    EXPECT_OK(nearflash_buffer_new(pair, 20 * MIB, &buffer));
    nearflash_buffer_free(buffer);
    /* More than the socket accepts at once. */
    event_loop(pair, MIB, 8);
    nearflash_queue_pair_free(pair);
}

static void queue_pair(nearflash_client *client)
{
    nearflash_queue_pair *pair = NULL;
    open_pair(client, MIB, &pair);
    nearflash_volume_info info;
    EXPECT_OK(nearflash_queue_pair_get_info(pair, &info));
    check_info(&info);
    buffers(pair);
    operations(pair);
    pieces(pair);
    full_queue(pair);
    int before = -1, after = -1;
    EXPECT_OK(nearflash_queue_pair_fd(pair, &before));
    event_loop(pair, 4096, 50);
    reconnect(pair);
    EXPECT(!nearflash_queue_pair_is_lost(pair));
    event_loop(pair, 4096, 50);
    EXPECT_OK(nearflash_queue_pair_fd(pair, &after));
    EXPECT(before == after);

    /* A buffer in flight is freed with its queue pair. */
    nearflash_buffer *buffer = NULL;
    EXPECT_OK(nearflash_buffer_new(pair, 4096, &buffer));
    EXPECT_OK(nearflash_post_read(pair, buffer, 0, NULL));
    nearflash_queue_pair_free(pair);

    EXPECT_OK(nearflash_queue_pair_open(client, NULL, NULL, &pair));
    EXPECT(nearflash_queue_pair_depth(pair) == 128);
    nearflash_queue_pair_free(pair);
}

/* The test ends the node while this program sleeps. */
static void lose(const char *url)
{
    nearflash_connect_options once = {.size = sizeof once, .reconnect_max_ns = NEARFLASH_NONE};
    nearflash_client *client = NULL;
    nearflash_queue_pair *pair = NULL;
    int fd = -1;
    bool is_ready = true;
    EXPECT_OK(nearflash_connect_with(url, NULL, NULL, &once, &client));
    EXPECT_OK(nearflash_queue_pair_open(client, NULL, NULL, &pair));
    EXPECT_OK(nearflash_queue_pair_fd(pair, &fd));
    EXPECT_OK(nearflash_arm(pair, &is_ready));
    EXPECT(!is_ready);
    puts("asleep");
    fflush(stdout);
    struct pollfd watched = {.fd = fd, .events = POLLIN};
    EXPECT(poll(&watched, 1, 30000) == 1);
    size_t count = 0;
    nearflash_completion done;
    EXPECT(nearflash_poll(pair, &done, 1, &count) == NEARFLASH_CONNECTION_LOST && count == 0);
    EXPECT(nearflash_queue_pair_is_lost(pair));
    EXPECT(nearflash_wait(pair, SECOND, &is_ready) == NEARFLASH_CONNECTION_LOST);
    /* The dying node may still accept connections. */
    int error = nearflash_reconnect(pair);
    EXPECT(error == NEARFLASH_UNREACHABLE || error == NEARFLASH_CONNECTION_LOST);
    nearflash_queue_pair_free(pair);
    nearflash_client_free(client);
}

/* No operation on the device ends, so each call and each operation is late. */
static void be_late(const char *url)
{
    const uint64_t soon = SECOND / 20;
    nearflash_client *client = NULL;
    EXPECT_OK(nearflash_connect(url, NULL, NULL, &client));
    static const int errors[2] = {NEARFLASH_CONNECTION_LOST, NEARFLASH_OUTCOME_UNKNOWN};
    for (int writes = 0; writes < 2; writes++) {
        nearflash_volume *volume = NULL, *timed = NULL;
        unsigned char bytes[4096] = {0};
        EXPECT_OK(nearflash_volume_open(client, NULL, &volume));
        EXPECT_OK(nearflash_volume_with_timeout(volume, soon, &timed));
        int error = writes ? nearflash_write(timed, bytes, 4096, 0)
                           : nearflash_read(timed, bytes, 4096, 0);
        EXPECT(error == errors[writes]);
        /* The next call waits for this one, as long as it has time. */
        EXPECT(nearflash_write(timed, bytes, 4096, 0) == NEARFLASH_CONNECTION_LOST);
        nearflash_volume_free(volume);
        nearflash_volume_free(timed);
    }

    nearflash_queue_pair *pair = NULL;
    nearflash_buffer *buffers[2];
    unsigned char bytes[4096] = {7};
    const struct iovec place = {bytes, sizeof bytes};
    nearflash_completion done[3];
    EXPECT_OK(nearflash_queue_pair_open(client, NULL, NULL, &pair));
    for (int i = 0; i < 2; i++)
        EXPECT_OK(nearflash_buffer_new(pair, 4096, &buffers[i]));
    fill(nearflash_buffer_bytes(buffers[1]), 4096, 3);
    EXPECT_OK(nearflash_post_read(pair, buffers[0], 0, NULL));
    EXPECT_OK(nearflash_queue_pair_set_timeout(pair, soon));
    EXPECT_OK(nearflash_post_write(pair, buffers[1], 4096, NULL));
    EXPECT_OK(nearflash_post_readv(pair, &place, 1, 0, NULL));
    EXPECT(nearflash_time_left(pair) <= soon);
    complete(pair, done, 3);
    EXPECT(done[0].error == NEARFLASH_CONNECTION_LOST && done[0].buffer == buffers[0]);
    EXPECT(done[1].error == NEARFLASH_OUTCOME_UNKNOWN && done[1].buffer == buffers[1]);
    EXPECT(done[2].error == NEARFLASH_CONNECTION_LOST && done[2].buffer == NULL);
    EXPECT(strstr(done[0].message, "time-out") != NULL && bytes[0] == 7);
    EXPECT(nearflash_buffer_len(buffers[0]) == 4096);
    EXPECT(is_filled(nearflash_buffer_bytes(buffers[1]), 4096, 3));
    EXPECT(nearflash_queue_pair_is_lost(pair));
    nearflash_buffer_free(buffers[0]);
    nearflash_buffer_free(buffers[1]);
    nearflash_queue_pair_free(pair);
    nearflash_client_free(client);
}

/* The test ends the node between the write and the flush, and starts it again. */
static void replace(const char *url)
{
    nearflash_client *client = NULL;
    nearflash_volume *volume = NULL;
    uint64_t before = 7, after = 7;
    char word[8];
    EXPECT_OK(nearflash_connect(url, NULL, NULL, &client));
    EXPECT_OK(nearflash_volume_open(client, NULL, &volume));
    EXPECT_OK(nearflash_replaced_connections(volume, &before));
    EXPECT_OK(nearflash_write(volume, "flash", 5, 0));
    EXPECT_OK(nearflash_flush(volume));
    EXPECT_OK(nearflash_replaced_connections(volume, &after));
    EXPECT(before == 0 && after == 0);
    EXPECT_OK(nearflash_write(volume, "other", 5, 0));
    puts("written");
    fflush(stdout);
    EXPECT(fgets(word, sizeof word, stdin) != NULL);
    /* A read is repeated over a new connection, and a flush over that one succeeds. */
    EXPECT_OK(nearflash_read(volume, word, 1, 0));
    EXPECT_OK(nearflash_flush(volume));
    EXPECT_OK(nearflash_replaced_connections(volume, &after));
    EXPECT(after > before);
    nearflash_volume_free(volume);
    nearflash_client_free(client);
}

/* The object of the seal in the environment, as hexadecimal digits: 8 KiB from 1 MiB on. */
static void sealed(nearflash_client *client)
{
    const char *text = getenv("SEAL");
    EXPECT(text != NULL);
    unsigned char seal[512];
    size_t len = strlen(text) / 2;
    EXPECT(len <= sizeof seal);
    for (size_t at = 0; at < len; at++) {
        unsigned byte;
        EXPECT(sscanf(text + 2 * at, "%2x", &byte) == 1);
        seal[at] = (unsigned char)byte;
    }
    nearflash_volume *object = NULL, *whole = NULL;
    EXPECT(nearflash_volume_open_sealed(client, seal, len - 1, &object) ==
           NEARFLASH_INVALID_ARGUMENT);
    EXPECT(nearflash_volume_open_sealed(client, NULL, len, &object) == NEARFLASH_INVALID_ARGUMENT);
    EXPECT_OK(nearflash_volume_open_sealed(client, seal, len, &object));
    EXPECT_OK(nearflash_volume_open(client, NULL, &whole));
    nearflash_volume_info info;
    EXPECT_OK(nearflash_volume_get_info(object, &info));
    EXPECT(info.len == 8192);
    char found[6];
    EXPECT_OK(nearflash_write(object, "sealed", 6, 4093));
    EXPECT_OK(nearflash_read(whole, found, 6, (1 << 20) + 4093));
    EXPECT(memcmp(found, "sealed", 6) == 0);
    EXPECT(nearflash_read(object, found, 6, 8190) == NEARFLASH_OUT_OF_RANGE);
    nearflash_volume_free(object);
    nearflash_volume_free(whole);
}

int main(int argc, char **argv)
{
    EXPECT(nearflash_version() == NEARFLASH_VERSION_NUMBER);
    if (argc == 3) {
        if (strcmp(argv[2], "late") == 0)
            be_late(argv[1]);
        else if (strcmp(argv[2], "replaced") == 0)
            replace(argv[1]);
        else
            lose(argv[1]);
        return EXIT_SUCCESS;
    }
    if (argc != 2 && argc != 4) {
        fprintf(stderr, "usage: %s URL [KEY SECRET | lost | late | replaced]\n", argv[0]);
        return EXIT_FAILURE;
    }
    EXPECT(nearflash_last_error()[0] == '\0');
    const char *key = argc == 4 ? argv[2] : NULL, *secret = argc == 4 ? argv[3] : NULL;
    nearflash_client *client = NULL;
    EXPECT_OK(nearflash_connect(argv[1], key, secret, &client));
    errors(client, argv[1]);
    options(argv[1]);
    blocking(client);
    sealed(client);
    queue_pair(client);
    without_shared_memory(client, strncmp(argv[1], "direct+local:", 13) == 0);
    nearflash_client_free(client);
    print_calls();
    return EXIT_SUCCESS;
}
