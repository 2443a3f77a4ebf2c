/*
 * nearflash: one-sided access to remote flash.
 *
 * Functions that can fail return 0 on success, and otherwise one of the NEARFLASH_ codes: a node's
 * status is below 65536, the client's own errors are from there on. nearflash_last_error() then
 * returns the full message.
 *
 * Any number of threads may use a volume at the same time. A client, and a queue pair with its
 * buffers, may be used by only one thread at a time. Pointers that are passed to a function must be
 * valid, and may be NULL only where the comment says so. Freeing NULL does nothing. A function that
 * fails to create an object stores NULL as its handle.
 *
 * A struct of options begins with its size, so that later versions can add fields. Initialize it
 * with its size and zeroes, and set the fields that you need:
 *
 *     nearflash_queue_options options = {.size = sizeof options, .depth = 32};
 *
 * In a field of options, 0 selects the default, and NEARFLASH_NONE selects zero. The layout of the
 * other structs changes only with the version in the library's soname.
 *
 * A bug in the library ends the program by abort(), with a message on standard error.
 *
 * License: MIT OR Apache-2.0
 */
#ifndef NEARFLASH_H
#define NEARFLASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h> /* struct iovec */

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header. Before 1.0, minor versions are not compatible with each other. */
#define NEARFLASH_VERSION_MAJOR 0
#define NEARFLASH_VERSION_MINOR 1
#define NEARFLASH_VERSION_PATCH 0
#define NEARFLASH_VERSION_NUMBER \
    (NEARFLASH_VERSION_MAJOR << 16 | NEARFLASH_VERSION_MINOR << 8 | NEARFLASH_VERSION_PATCH)

/* The version of the library that the program runs with, as a NEARFLASH_VERSION_NUMBER. */
uint32_t nearflash_version(void);

/* In a field of options: zero instead of the default. */
#define NEARFLASH_NONE UINT64_MAX

/* The statuses of a node. */
#define NEARFLASH_OK 0
#define NEARFLASH_INVALID_OPCODE 1
#define NEARFLASH_INVALID_FIELD 2
#define NEARFLASH_OUT_OF_RANGE 3
#define NEARFLASH_NOT_GRANTED 4
#define NEARFLASH_NO_SUCH_VOLUME 5
#define NEARFLASH_STALE_EPOCH 6
#define NEARFLASH_CAPACITY_EXCEEDED 7
#define NEARFLASH_UNRECOVERED_READ 8
#define NEARFLASH_WRITE_FAULT 9
#define NEARFLASH_DEVICE_UNAVAILABLE 10
#define NEARFLASH_UNSUPPORTED 11
#define NEARFLASH_ABORTED 12
#define NEARFLASH_DATA_DIGEST 13
#define NEARFLASH_HEADER_DIGEST 14
#define NEARFLASH_DUPLICATE_TAG 15
#define NEARFLASH_CREDITS_EXCEEDED 16
#define NEARFLASH_AUTHENTICATION_FAILED 17
#define NEARFLASH_CREDENTIAL_EXPIRED 18
#define NEARFLASH_VERSION 19
#define NEARFLASH_BUSY 20
#define NEARFLASH_SEQUENCE 21
#define NEARFLASH_TIMEOUT 22
#define NEARFLASH_SHUTTING_DOWN 23
#define NEARFLASH_RING_BROKEN 24
#define NEARFLASH_RESERVED 25
#define NEARFLASH_WRITE_PROTECTED 26
#define NEARFLASH_PATH_LOST 27
#define NEARFLASH_NOT_PRIMARY 28
#define NEARFLASH_STALE_TERM 29

/* The client's own errors. */
#define NEARFLASH_INVALID_URL 65536
#define NEARFLASH_INVALID_CREDENTIALS 65537
#define NEARFLASH_UNREACHABLE 65538
#define NEARFLASH_REFUSED 65539
/* The connection was lost before the answer; nothing was changed. */
#define NEARFLASH_CONNECTION_LOST 65540
/* The connection was lost before the answer; whether the volume was changed is unknown. */
#define NEARFLASH_OUTCOME_UNKNOWN 65541
#define NEARFLASH_QUEUE_FULL 65542
#define NEARFLASH_INVALID_LENGTH 65543
#define NEARFLASH_NO_MEMORY 65544
#define NEARFLASH_SUPERSEDED 65545
/* This binding's own: a pointer is NULL, a string is not UTF-8, or a buffer is in flight. */
#define NEARFLASH_INVALID_ARGUMENT 131072
/* This binding's own: the system refused a file descriptor for an event loop. */
#define NEARFLASH_SYSTEM_ERROR 131073

typedef struct nearflash_client nearflash_client;
typedef struct nearflash_volume nearflash_volume;
typedef struct nearflash_queue_pair nearflash_queue_pair;
typedef struct nearflash_buffer nearflash_buffer;

/* The name of a code without NEARFLASH_, the same in Rust and Python; otherwise "UNKNOWN". */
const char *nearflash_error_name(int code);

/* The meaning of a code, as a sentence. */
const char *nearflash_error_sentence(int code);

/* The message of this thread's last error; "" before the first. Valid until the next error. */
const char *nearflash_last_error(void);

/*
 * Connects to the node at `url`: direct://HOST:PORT[/VOLUME] or direct+local:PATH.sock[/VOLUME],
 * optionally followed by ?digest=header,data&key=ID&secret-file=PATH. `key` is the key id of a
 * credential, and `secret` its secret as printed by `nearflash credential create`; or both are
 * NULL.
 */
int nearflash_connect(const char *url, const char *key, const char *secret,
                      nearflash_client **client);

/* The time-outs of a client's connections. */
typedef struct nearflash_connect_options {
    size_t size; /* sizeof(nearflash_connect_options) */
    /* The longest silence of a node that owes an answer, in nanoseconds (10 s). After it, the
     * connection is lost. It cannot be NEARFLASH_NONE. */
    uint64_t silence_max_ns;
    /* The time for which reconnecting is tried after a loss, in nanoseconds (30 s). With
     * NEARFLASH_NONE, it is tried once. */
    uint64_t reconnect_max_ns;
    /* The time for which a blocking call spins before it sleeps, in nanoseconds (100 us). Waking
     * up takes longer than a whole exchange. With NEARFLASH_NONE, a call never spins. */
    uint64_t spin_max_ns;
} nearflash_connect_options;

/* nearflash_connect() with other time-outs; `options` may be NULL. */
int nearflash_connect_with(const char *url, const char *key, const char *secret,
                           const nearflash_connect_options *options, nearflash_client **client);

/* Volumes and queue pairs have their own connections, and outlive their client. */
void nearflash_client_free(nearflash_client *client);

/* ------------------------------------------------------------ a volume, for blocking calls */

/* The properties of a volume. */
typedef struct nearflash_volume_info {
    uint64_t len;        /* in bytes */
    uint32_t block_size; /* in bytes; a write is atomic for each block */
    uint32_t epoch;      /* grows with every change of the layout */
    uint8_t uuid[16];    /* a later volume of the same name has a different one */
    bool is_readable;    /* some of the volume may be read */
    bool is_writable;    /* some of the volume may be written */
} nearflash_volume_info;

/* Opens a volume; with NULL, the one that the URL names. */
int nearflash_volume_open(nearflash_client *client, const char *name, nearflash_volume **volume);

/*
 * Opens the object of a seal: `seal_len` bytes, as the owner of the object hands them over. Offsets are
 * the object's, and the client needs no grant. With a URL of `nearflash grant seal`, the object is the
 * volume that the URL names, and nearflash_volume_open() opens it.
 */
int nearflash_volume_open_sealed(nearflash_client *client, const void *seal, size_t seal_len,
                                 nearflash_volume **volume);

/*
 * Stores in `timed` another handle of the volume, whose calls end after `timeout_ns` at the latest,
 * except for the resolution of the node's name. A call that ends so may have begun to change the
 * volume: then it fails with NEARFLASH_OUTCOME_UNKNOWN, and otherwise with
 * NEARFLASH_CONNECTION_LOST. The next call of any thread first waits until nothing of it is under
 * way any more. The handles share their connections; each is freed on its own, in any order.
 */
int nearflash_volume_with_timeout(const nearflash_volume *volume, uint64_t timeout_ns,
                                  nearflash_volume **timed);

void nearflash_volume_free(nearflash_volume *volume);

int nearflash_volume_get_info(const nearflash_volume *volume, nearflash_volume_info *info);

/* Reads `len` bytes at `offset`, both of any alignment. */
int nearflash_read(const nearflash_volume *volume, void *bytes, size_t len, uint64_t offset);

/* Writes `len` bytes at `offset`: atomic for each block, durable after nearflash_flush(). */
int nearflash_write(const nearflash_volume *volume, const void *bytes, size_t len,
                    uint64_t offset);

/* nearflash_write(), and the data is on stable media before the call returns. */
int nearflash_write_durable(const nearflash_volume *volume, const void *bytes, size_t len,
                            uint64_t offset);

/*
 * nearflash_read() and nearflash_write() with `count` pieces of memory, one after the other. A
 * block is written at once, also if several pieces have parts of it. Pieces to read into must not
 * overlap.
 */
int nearflash_readv(const nearflash_volume *volume, const struct iovec *iov, size_t count,
                    uint64_t offset);
int nearflash_writev(const nearflash_volume *volume, const struct iovec *iov, size_t count,
                     uint64_t offset);

/*
 * Writes `len` zeroes at `offset`, as nearflash_write() does. The node zeroes whole blocks, and may
 * release their storage; zeroes are sent only for parts of blocks, and to a node of an older
 * version.
 */
int nearflash_write_zeroes(const nearflash_volume *volume, uint64_t offset, uint64_t len);

/* Makes every operation whose call has returned durable on stable media. */
int nearflash_flush(const nearflash_volume *volume);

/*
 * `count` receives the number of connections that were lost and replaced since the volume was
 * opened. If it is the same before the first write and after a flush, the flush covers all writes
 * between them. Otherwise the node's machine may have lost writes together with the connection:
 * write them again.
 */
int nearflash_replaced_connections(const nearflash_volume *volume, uint64_t *count);

/* Deallocates `len` bytes at `offset`, whose contents are no longer needed. */
int nearflash_discard(const nearflash_volume *volume, uint64_t offset, uint64_t len);

/*
 * Replaces the little-endian 8-byte word at `offset`, a multiple of 8, by `desired` if it equals
 * `expected`. `previous` receives the previous word: `expected` if it was replaced.
 */
int nearflash_compare_and_swap(const nearflash_volume *volume, uint64_t offset, uint64_t expected,
                               uint64_t desired, uint64_t *previous);

/* Adds to the word at `offset`, modulo 2^64. `previous` receives the previous word. */
int nearflash_fetch_add(const nearflash_volume *volume, uint64_t offset, uint64_t addend,
                        uint64_t *previous);

/* -------------------------------------------- a queue pair, for many operations in flight */

/* The size of a queue pair. */
typedef struct nearflash_queue_options {
    size_t size;    /* sizeof(nearflash_queue_options) */
    uint32_t depth; /* the maximum number of operations in flight (128); the node may allow fewer */
    /* The length in bytes of the memory for buffers that is shared with a node on this machine
     * (16 MiB). With NEARFLASH_NONE, no memory is shared, and the Unix socket carries the data. */
    uint64_t shared_len;
} nearflash_queue_options;

/* The completion of an operation. */
typedef struct nearflash_completion {
    uint64_t token;           /* the token from the post */
    uint64_t value;           /* the previous word, for an atomic operation */
    nearflash_buffer *buffer; /* the operation's buffer, returned to the caller, or NULL */
    int error;                /* 0 or an error code */
    const char *message;      /* the error's message, until the next nearflash_poll(); or NULL */
} nearflash_completion;

/* Opens a volume; with NULL, the one that the URL names. `options` may be NULL. */
int nearflash_queue_pair_open(nearflash_client *client, const char *name,
                              const nearflash_queue_options *options,
                              nearflash_queue_pair **pair);

/* Also frees buffers in flight. Whether writes in flight take effect is unknown. */
void nearflash_queue_pair_free(nearflash_queue_pair *pair);

int nearflash_queue_pair_get_info(const nearflash_queue_pair *pair, nearflash_volume_info *info);

/* The maximum and the current number of operations in flight. */
uint32_t nearflash_queue_pair_depth(const nearflash_queue_pair *pair);
uint32_t nearflash_queue_pair_in_flight(const nearflash_queue_pair *pair);

/* The longest operation, in bytes. */
uint32_t nearflash_queue_pair_len_max(const nearflash_queue_pair *pair);

/* Whether the connection is lost, so that nearflash_reconnect() is needed. */
bool nearflash_queue_pair_is_lost(const nearflash_queue_pair *pair);

/*
 * Sets the time-out of the operations that are posted from now on; UINT64_MAX, as at first, is no
 * time-out. When an operation is late, the next nearflash_poll() or nearflash_wait() gives the
 * connection up, so that every operation in flight ends: with NEARFLASH_OUTCOME_UNKNOWN if it may
 * have changed the volume, and otherwise with NEARFLASH_CONNECTION_LOST. Their buffers are
 * returned; memory that the node may still write to is not among them. After
 * nearflash_reconnect(), nothing of these operations is under way any more.
 */
int nearflash_queue_pair_set_timeout(nearflash_queue_pair *pair, uint64_t timeout_ns);

/* Allocates a buffer of `len` bytes, in memory shared with the node if there is any. */
int nearflash_buffer_new(nearflash_queue_pair *pair, size_t len, nearflash_buffer **buffer);

/* Frees a buffer, which must not be in flight. */
void nearflash_buffer_free(nearflash_buffer *buffer);

/* The buffer's bytes; NULL while it is in flight. */
void *nearflash_buffer_bytes(nearflash_buffer *buffer);

/* The buffer's length; 0 while it is in flight. */
size_t nearflash_buffer_len(const nearflash_buffer *buffer);

/* Sets the length, up to the capacity. An operation uses the buffer's whole length. */
int nearflash_buffer_set_len(nearflash_buffer *buffer, size_t len);

/*
 * A post gives the buffer to the queue pair until its completion; if the post fails, the caller
 * keeps it. An operation that is posted when no other is in flight is sent at once; others are sent
 * together by the next nearflash_submit(), nearflash_poll() or nearflash_wait(). `token` may be
 * NULL.
 */
int nearflash_post_read(nearflash_queue_pair *pair, nearflash_buffer *buffer, uint64_t offset,
                        uint64_t *token);
int nearflash_post_write(nearflash_queue_pair *pair, nearflash_buffer *buffer, uint64_t offset,
                         uint64_t *token);
/* The data is on stable media before the completion. */
int nearflash_post_write_durable(nearflash_queue_pair *pair, nearflash_buffer *buffer,
                                 uint64_t offset, uint64_t *token);
/*
 * One operation with `count` pieces of memory, one after the other. Its completion has no buffer:
 * the data passes through the queue pair's memory. Pieces to write are copied by the post. Pieces
 * to read into must not overlap; they must stay valid, and unused, until nearflash_poll() returns
 * the completion or the queue pair is freed, and are filled by that nearflash_poll(), unless the
 * operation failed. The array `iov` itself is not used after the post.
 */
int nearflash_post_readv(nearflash_queue_pair *pair, const struct iovec *iov, size_t count,
                         uint64_t offset, uint64_t *token);
int nearflash_post_writev(nearflash_queue_pair *pair, const struct iovec *iov, size_t count,
                          uint64_t offset, uint64_t *token);
/*
 * Writes `len` zeroes. A range of whole blocks, shorter than 4 GiB, is zeroed by the node; of other
 * ranges, up to nearflash_queue_pair_len_max(), the zeroes are sent.
 */
int nearflash_post_write_zeroes(nearflash_queue_pair *pair, uint64_t offset, uint64_t len,
                                uint64_t *token);
/* Makes every operation that completed before this post durable on stable media. */
int nearflash_post_flush(nearflash_queue_pair *pair, uint64_t *token);
int nearflash_post_discard(nearflash_queue_pair *pair, uint64_t offset, uint64_t len,
                           uint64_t *token);
int nearflash_post_compare_and_swap(nearflash_queue_pair *pair, uint64_t offset,
                                    uint64_t expected, uint64_t desired, uint64_t *token);
int nearflash_post_fetch_add(nearflash_queue_pair *pair, uint64_t offset, uint64_t addend,
                             uint64_t *token);

/* Sends the posted operations. */
int nearflash_submit(nearflash_queue_pair *pair);

/*
 * Sends the posted operations, and stores up to `max` completions in `completions` and their number
 * in `count`. Never waits. Fails when the connection is lost and every operation that was in flight
 * has been returned, with NEARFLASH_CONNECTION_LOST or, if it may have changed the volume, with
 * NEARFLASH_OUTCOME_UNKNOWN.
 */
int nearflash_poll(nearflash_queue_pair *pair, nearflash_completion *completions, size_t max,
                   size_t *count);

/*
 * Sends the posted operations, and sleeps until there may be a completion, at most `timeout_ns`.
 * `is_ready` receives true if there may be one, and false after the time-out; it may be NULL. Fails
 * as nearflash_poll() does, at once if the connection is lost.
 */
int nearflash_wait(nearflash_queue_pair *pair, uint64_t timeout_ns, bool *is_ready);

/*
 * Connects again after the connection was lost. Operations that are in flight end as lost: poll
 * their completions.
 */
int nearflash_reconnect(nearflash_queue_pair *pair);

/*
 * ------------------------------------------------- a queue pair in the program's own event loop
 *
 * Instead of calling nearflash_wait(), a program can watch a descriptor together with others:
 *
 *     bool is_ready;
 *     nearflash_arm(pair, &is_ready);
 *     if (!is_ready)
 *         // sleep until the descriptor is readable, at most nearflash_time_left(pair)
 *     nearflash_poll(pair, completions, max, &count);
 */

/*
 * Stores a descriptor in `fd` that becomes readable when there may be completions, for poll(),
 * epoll or io_uring. It stays the same when the queue pair connects again. The queue pair closes
 * it when it is freed. After an error, `fd` receives -1.
 */
int nearflash_queue_pair_fd(nearflash_queue_pair *pair, int *fd);

/*
 * Must precede each sleep on the descriptor, after the last post. It sends the posted operations,
 * and asks for a signal. `is_ready` receives true if there may be completions already; the program
 * must not sleep then. Call nearflash_poll() after the sleep.
 */
int nearflash_arm(nearflash_queue_pair *pair, bool *is_ready);

/*
 * Whether there is data that the socket has not accepted yet. The descriptor then also becomes
 * readable when the socket has room, and the next nearflash_poll() sends more.
 */
bool nearflash_has_unsent(const nearflash_queue_pair *pair);

/*
 * The time in nanoseconds until the next nearflash_poll() is due, so that a silent node or a late
 * operation is noticed; UINT64_MAX if no operation is in flight.
 */
uint64_t nearflash_time_left(const nearflash_queue_pair *pair);

#ifdef __cplusplus
}
#endif

#endif
