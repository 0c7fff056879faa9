/* wish.h - what somebody asks for: a session, or code to run; read by tables at every door */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/params.h"
#include "core/template.h"
#include "core/vault.h"

#define WISH_CODE_MAX  (4 * 1024 * 1024) /* bytes of code, and of stdin */
#define WISH_FILES_MAX 64

struct session_wish {
    char *template;           /* by id or name; NULL: that of the language */
    char *language;           /* NULL: python, or the template's */
    char *name;               /* NULL: none */
    uint64_t ttl_ms, idle_ms; /* 0: the template's */
    struct resource_spec resources;
    struct network_spec network;
    bool has_network;                  /* else the template's */
    struct param_list secrets;         /* struct secret_wish */
    struct param_strings requirements; /* beside the template's */
    struct param_map env;
    struct param_map metadata;
};

struct wish_file {
    char *path;
    char *content; /* one of these two */
    char *content_base64;
};

enum wish_mode { WISH_ASYNC, WISH_SYNC, WISH_STREAM };

struct code_wish {
    char *code;
    char *language;          /* NULL: the session's; without one, python */
    int mode;                /* enum wish_mode; of a session only */
    uint64_t timeout_ms;     /* 0: the template's */
    uint64_t output_bytes;   /* kept of each stream; 0: the template's */
    char *stdin_text;        /* NULL: empty */
    struct param_list files; /* struct wish_file */
    struct param_map env;
    struct param_strings args;
    char *cwd; /* below the workspace; NULL: where the session is */
    bool may_queue;
    bool is_idempotent;
    bool is_watched;                   /* plane_last_output() is wanted while it runs */
    char *template;                    /* without a session: of which sandbox, ... */
    struct param_strings requirements; /* ...and which packages beside the template's */
    struct resource_spec resources;
    struct network_spec network;
    bool has_network;          /* else the template's */
    struct param_list secrets; /* struct secret_wish */
};

extern const struct param_table session_wish_table;
extern const struct param_table code_wish_table;      /* in a session */
extern const struct param_table stateless_wish_table; /* without one */
