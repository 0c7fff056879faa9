/* egress.h - the protocol between the host of sandboxes (coved, cove run) and cove-egress
 *
 * A SOCK_SEQPACKET pair. Each verb has one size (egress_size()); anything else ends the connection,
 * and with it every way out. A sandbox is named by the spawner's number. Its rules come first, one
 * by one, then its secrets, each followed by its hosts, and the authority that signs for these;
 * then EGRESS_OPEN with the socket that listens in its network namespace. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define EGRESS_LINK_FD     3 /* where cove-egress finds its end of the pair */
#define EGRESS_PORT        808 /* on 127.0.0.1 inside: below 1024, so that nobody inside can take it */
#define EGRESS_NAME_BYTES  256
#define EGRESS_WORDS_BYTES 256
#define EGRESS_RULES_MAX   512 /* of one sandbox */

#define EGRESS_SECRETS_MAX      32 /* of one sandbox */
#define EGRESS_SECRET_HOSTS_MAX 32 /* of one secret */
#define EGRESS_SECRET_BYTES     4096
#define EGRESS_PLACEHOLDER      "cove-secret-" /* how each begins... */
#define EGRESS_PLACEHOLDER_HEX  40             /* ...and what follows: 160 bits of chance */
#define EGRESS_PLACEHOLDER_LEN  (sizeof(EGRESS_PLACEHOLDER) - 1 + EGRESS_PLACEHOLDER_HEX)

enum egress_verb {
    EGRESS_RULE = 1,    /* one more host that the sandbox may reach, once it is opened */
    EGRESS_SECRET,      /* one more value that it knows by a placeholder alone */
    EGRESS_SECRET_HOST, /* a rule: where the last secret belongs */
    EGRESS_AUTHORITY,   /* who signs for the hosts of its secrets. From cove-egress: the one that it
                         * has made at the EGRESS_OPEN, since none was given */
    EGRESS_TRUST,       /* of no sandbox, with a memory file: certificates (PEM) that are trusted
                         * beside the system's */
    EGRESS_OPEN,        /* with a listening socket: from now on */
    EGRESS_CLOSE,       /* all that it has open is cut; none is fine */
    EGRESS_READY,       /* from cove-egress, first: it has started, and is confined */
    EGRESS_DENIED,      /* from cove-egress: it asked for something else. Told before it is */
    EGRESS_FAILED,      /* from cove-egress: a host that it may reach could not be. Told as well */
    EGRESS_VERB_COUNT
};

enum egress_rule_flags {
    EGRESS_BELOW = 1 << 0,   /* every name below this one, and not itself: *.example.com */
    EGRESS_PRIVATE = 1 << 1, /* its address may be a private one: the operator says so */
    EGRESS_PLAIN = 1 << 2,   /* of a secret: by plain HTTP, and not by TLS */
};

struct egress_rule {
    char name[EGRESS_NAME_BYTES]; /* as authority.h spells it */
    uint32_t port;                /* 0: 80 and 443 */
    uint32_t flags;
};

struct egress_open {
    uint64_t bytes_max; /* in both directions, of all its connections; 0: no limit */
    uint32_t connections_max;
    uint32_t reserved; /* 0 */
};

struct egress_secret {
    char placeholder[EGRESS_PLACEHOLDER_LEN];
    uint32_t len;
    char value[EGRESS_SECRET_BYTES]; /* behind its length, all zero */
};

#define EGRESS_CERTIFICATE_BYTES 1024
#define EGRESS_KEY_BYTES         256

struct egress_authority { /* as struct certificate_authority has them */
    uint32_t certificate_len, key_len;
    uint8_t certificate[EGRESS_CERTIFICATE_BYTES];
    uint8_t key[EGRESS_KEY_BYTES];
};

struct egress_denied { /* or failed */
    char host[EGRESS_NAME_BYTES];
    uint32_t port;
    char rule[EGRESS_WORDS_BYTES]; /* why, in words */
};

struct egress_message {
    uint32_t verb;
    uint32_t reserved; /* 0 */
    uint64_t sandbox;
    union {
        struct egress_rule rule;
        struct egress_open open;
        struct egress_secret secret;
        struct egress_authority authority;
        struct egress_denied denied;
    };
};

/* Of a message with this verb; 0: there is no such verb. */
static inline size_t egress_size(uint32_t verb)
{
    static const size_t bodies[EGRESS_VERB_COUNT] = {
        [EGRESS_RULE] = sizeof(struct egress_rule),
        [EGRESS_SECRET] = sizeof(struct egress_secret),
        [EGRESS_SECRET_HOST] = sizeof(struct egress_rule),
        [EGRESS_AUTHORITY] = sizeof(struct egress_authority),
        [EGRESS_OPEN] = sizeof(struct egress_open),
        [EGRESS_DENIED] = sizeof(struct egress_denied),
        [EGRESS_FAILED] = sizeof(struct egress_denied),
    };
    if (verb == 0 || verb >= EGRESS_VERB_COUNT)
        return 0;
    return offsetof(struct egress_message, rule) + bodies[verb];
}
