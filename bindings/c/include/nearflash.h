/*
 * nearflash: one-sided access to remote flash.
 *
 * Functions that can fail return 0, or one of the NEARFLASH_ codes: those of a node below 65536,
 * the client's own from there on. nearflash_last_error() has the whole message then.
 *
 * A volume may be used by any number of threads at a time; a queue pair, its buffers and a client
 * by one at a time. A pointer that a function is given must be valid, and NULL only where it says
 * so. Freeing NULL does nothing.
 *
 * License: MIT OR Apache-2.0
 */
#ifndef NEARFLASH_H
#define NEARFLASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header. Before 1.0 every minor version is another library. */
#define NEARFLASH_VERSION_MAJOR 0
#define NEARFLASH_VERSION_MINOR 1

/* What a node answers. */
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

/* What the client finds by itself. */
#define NEARFLASH_INVALID_URL 65536
#define NEARFLASH_INVALID_CREDENTIALS 65537
#define NEARFLASH_UNREACHABLE 65538
#define NEARFLASH_REFUSED 65539
/* The connection was lost before the answer; nothing was changed. */
#define NEARFLASH_CONNECTION_LOST 65540
/* The connection was lost before the answer; the volume may have been changed or not. */
#define NEARFLASH_OUTCOME_UNKNOWN 65541
#define NEARFLASH_QUEUE_FULL 65542
#define NEARFLASH_INVALID_LENGTH 65543
#define NEARFLASH_NO_MEMORY 65544
/* This binding's: a pointer is NULL that may not be, a text is not UTF-8, a buffer is in flight. */
#define NEARFLASH_INVALID_ARGUMENT 131072

typedef struct nearflash_client nearflash_client;
typedef struct nearflash_volume nearflash_volume;
typedef struct nearflash_queue_pair nearflash_queue_pair;
typedef struct nearflash_buffer nearflash_buffer;

/* A code's name without NEARFLASH_, the same in Rust and Python; "UNKNOWN" for other numbers. */
const char *nearflash_error_name(int code);

/* What a code means, in one sentence. */
const char *nearflash_error_sentence(int code);

/* The message of the last function of this thread that failed; "" before. Valid until the next. */
const char *nearflash_last_error(void);

/*
 * Reaches the node at `url`: direct://HOST:PORT[/VOLUME] or direct+local:PATH.sock[/VOLUME], and
 * behind it ?digest=header,data&key=ID&secret-file=PATH. `key` and `secret` are what `nearflash
 * credential create` was given and printed, or both NULL.
 */
int nearflash_connect(const char *url, const char *key, const char *secret,
                      nearflash_client **client);

/* Volumes and queue pairs have connections of their own and outlive their client. */
void nearflash_client_free(nearflash_client *client);

/* ------------------------------------------------------------ a volume, for blocking calls */

/* What a node says of a volume. */
typedef struct nearflash_volume_info {
    uint64_t len;        /* in bytes */
    uint32_t block_size; /* what is written atomically, in bytes */
    uint32_t epoch;      /* grows with every change of its layout */
    uint8_t uuid[16];    /* which another volume of the same name has not */
    bool is_readable;    /* some of it may be read */
    bool is_writable;    /* some of it may be written */
} nearflash_volume_info;

/* Opens a volume; with NULL the one that the URL named. */
int nearflash_volume_open(nearflash_client *client, const char *name, nearflash_volume **volume);

void nearflash_volume_free(nearflash_volume *volume);

int nearflash_volume_get_info(const nearflash_volume *volume, nearflash_volume_info *info);

/* Reads `len` bytes at `offset`, both of any alignment. */
int nearflash_read(const nearflash_volume *volume, void *bytes, size_t len, uint64_t offset);

/* Writes `len` bytes at `offset`. Atomic for each block; durable after nearflash_flush(). */
int nearflash_write(const nearflash_volume *volume, const void *bytes, size_t len,
                    uint64_t offset);

/* Everything whose call has returned is on stable media when this returns. */
int nearflash_flush(const nearflash_volume *volume);

/* The contents of `len` bytes at `offset` are no longer needed. */
int nearflash_discard(const nearflash_volume *volume, uint64_t offset, uint64_t len);

/*
 * Puts `desired` in place of the little-endian 8-byte word at `offset`, a multiple of 8, if it is
 * `expected`. `previous` is the word that was there: `expected` if it was put.
 */
int nearflash_compare_and_swap(const nearflash_volume *volume, uint64_t offset, uint64_t expected,
                               uint64_t desired, uint64_t *previous);

/* Adds to the word at `offset`, modulo 2^64. `previous` is the word that was there. */
int nearflash_fetch_add(const nearflash_volume *volume, uint64_t offset, uint64_t addend,
                        uint64_t *previous);

/* -------------------------------------------- a queue pair, for many operations in flight */

/* How large a queue pair is; 0 for the default. */
typedef struct nearflash_queue_options {
    uint32_t depth;    /* operations in flight: 128; the node may allow fewer */
    size_t shared_len; /* memory shared with a node of this machine, for buffers: 16 MiB */
} nearflash_queue_options;

/* The end of an operation. */
typedef struct nearflash_completion {
    uint64_t token;           /* as the post gave it */
    uint64_t value;           /* the word that was there, of an atomic operation */
    nearflash_buffer *buffer; /* the operation's, the caller's again; NULL if it had none */
    int error;                /* 0 or how it failed */
} nearflash_completion;

/* Opens a volume, with NULL the one that the URL named; `options` may be NULL. */
int nearflash_queue_pair_open(nearflash_client *client, const char *name,
                              const nearflash_queue_options *options,
                              nearflash_queue_pair **pair);

/* Buffers that are in flight are freed with it; whether writes among them take effect is unknown. */
void nearflash_queue_pair_free(nearflash_queue_pair *pair);

int nearflash_queue_pair_get_info(const nearflash_queue_pair *pair, nearflash_volume_info *info);

/* How many operations may be in flight, and how many are. */
uint32_t nearflash_queue_pair_depth(const nearflash_queue_pair *pair);
uint32_t nearflash_queue_pair_in_flight(const nearflash_queue_pair *pair);

/* A buffer of `len` bytes, where the node of the queue pair reaches it best. */
int nearflash_buffer_new(nearflash_queue_pair *pair, size_t len, nearflash_buffer **buffer);

/* Not while it is in flight. */
void nearflash_buffer_free(nearflash_buffer *buffer);

/* Its bytes; NULL while it is in flight. */
void *nearflash_buffer_bytes(nearflash_buffer *buffer);

/* Its length; 0 while it is in flight. */
size_t nearflash_buffer_len(const nearflash_buffer *buffer);

/* Makes it so long, up to what it was made with: what is posted is the whole of it. */
int nearflash_buffer_set_len(nearflash_buffer *buffer, size_t len);

/*
 * Posting gives a buffer to the queue pair until its completion; if it fails, it stays the
 * caller's. An operation that is posted when no other is in flight is sent at once, others together
 * with the next nearflash_submit(), nearflash_poll() or nearflash_wait(). `token` may be NULL.
 */
int nearflash_post_read(nearflash_queue_pair *pair, nearflash_buffer *buffer, uint64_t offset,
                        uint64_t *token);
int nearflash_post_write(nearflash_queue_pair *pair, nearflash_buffer *buffer, uint64_t offset,
                         uint64_t *token);
/* On stable media before its completion. */
int nearflash_post_write_durable(nearflash_queue_pair *pair, nearflash_buffer *buffer,
                                 uint64_t offset, uint64_t *token);
/* What completed before this was posted is on stable media at its completion. */
int nearflash_post_flush(nearflash_queue_pair *pair, uint64_t *token);
int nearflash_post_discard(nearflash_queue_pair *pair, uint64_t offset, uint32_t len,
                           uint64_t *token);
int nearflash_post_compare_and_swap(nearflash_queue_pair *pair, uint64_t offset,
                                    uint64_t expected, uint64_t desired, uint64_t *token);
int nearflash_post_fetch_add(nearflash_queue_pair *pair, uint64_t offset, uint64_t addend,
                             uint64_t *token);

/* Sends what was posted. */
int nearflash_submit(nearflash_queue_pair *pair);

/*
 * Sends what was posted, and puts up to `max` operations that are over into `completions`; `count`
 * says how many. Never waits. Fails when the connection is lost and all that was in flight was
 * told: every operation in flight then had ended with NEARFLASH_CONNECTION_LOST, or with
 * NEARFLASH_OUTCOME_UNKNOWN where it might have changed the volume.
 */
int nearflash_poll(nearflash_queue_pair *pair, nearflash_completion *completions, size_t max,
                   size_t *count);

/* Sends what was posted and sleeps until there may be something to poll, or `timeout_ns` passed. */
int nearflash_wait(nearflash_queue_pair *pair, uint64_t timeout_ns);

/* Connects again after the connection was lost. */
int nearflash_reconnect(nearflash_queue_pair *pair);

#ifdef __cplusplus
}
#endif

#endif
