/* runner.h - how programs of a language are started, and in which image
 *
 * An image's runner.conf has one [section] per language:
 *
 *   [python]
 *   aliases = py python3
 *   extensions = py
 *   main = main.py                      name of the file for code that has none
 *   command = /usr/bin/python3 {file}   without {file} the code goes to standard input
 *   inline = /usr/bin/python3 -c {code} for one line of code; without it, that is a file as well
 *   env = MPLBACKEND=Agg                may be repeated
 *   version = 3.11.2
 *
 * Its kernel, for sessions, is described by the kernel.conf beside the recipe, in the same form, so
 * that it comes with Cove and not with the image; an image that brings its own says so itself:
 *
 *   [python]
 *   kernel = kernel.py                  its text, beside this file; handed in as fd 4
 *   kernel_command = /usr/bin/python3 /proc/self/fd/4
 *   kernel_form = frames                or plain
 *   installer = install.py              its text: installs packages, in a sandbox of their own
 *   installer_command = /usr/bin/python3 /workspace/.cove/install.py
 *   installer_tools = uv pip.whl        of Cove's folder of installers; what there is, is handed in
 *   installer_index = python            which index it asks: python or npm
 *   packages_env = PYTHONPATH=/packages what programs find set that run with packages
 *
 * Words are split at blanks; a word with blanks stands in double quotes, where \\ and \" mean \ and
 * ".
 */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "codec/sha256.h"

#define RUNNER_WORDS_MAX 64
#define RUNNER_FILE_MARK "{file}" /* in command: the path of the program */
#define RUNNER_CODE_MARK "{code}" /* in inline: the program itself */
#define RUNNER_CONF      "runner.conf"
#define RUNNER_KERNEL    "kernel.conf"

/* NULL-terminated; owned. */
struct runner_words {
    char **items; /* never NULL once parsed */
    size_t count;
};

/* Plain data; everything in it is owned by the list. */
struct runner {
    char *language;
    char *version; /* for people; NULL when the image does not say */
    char *main;
    struct runner_words aliases;
    struct runner_words extensions;
    struct runner_words command; /* first one absolute, in the image */
    struct runner_words inlined; /* the same; none: every program is a file */
    struct runner_words env;     /* NAME=VALUE */
    bool takes_stdin;            /* no {file} in command */
    char *kernel;                /* NULL: none, or in the image itself */
    char *kernel_form;
    struct runner_words kernel_command;
    char *installer, *installer_index; /* NULL: it has no packages */
    struct runner_words installer_command, installer_tools, packages_env;

    char *image;    /* its tag */
    char *data_dir; /* of the store that holds it */
    uint8_t digest[SHA256_BYTES];
};

struct runner_list {
    struct runner *items;
    size_t count;
    bool has_images; /* any at all, even one without a usable runner.conf */
    struct error
        broken; /* why the first unusable image is unusable; code is 0 and msg "" if none */
};

/* All runners of the tagged images in the stores of `data_dirs` (NULL-terminated, see
 * image_store_dirs()), in order. A store that is not there is empty. One broken image does not hide
 * the others: it is left out and remembered. Reads one small file per image. */
MUST_CHECK int runner_list_load(struct runner_list *out, const char *const *data_dirs,
                                struct error *err);
void runner_list_release(struct runner_list *list); /* a zeroed one is fine */

#define scoped_runner_list __attribute__((cleanup(runner_list_release)))

/* By language, alias, or by a file's extension; borrowed from the list. NULL with *err filled:
 * which languages there are, or how to get some. */
const struct runner *runner_find(const struct runner_list *list, const char *language,
                                 struct error *err);
const struct runner *runner_find_by_file(const struct runner_list *list, const char *file,
                                         struct error *err);

/* How the kernel of a language is started. */
struct runner_kernel {
    struct runner_words command;
    char *text; /* path of its text on the host; NULL: the image has it */
    bool is_plain;
};

void runner_kernel_release(struct runner_kernel *kernel); /* a zeroed one is fine */

/* The image's own kernel, or the one for its language in one of the recipes; ERROR_NOT_FOUND when
 * the language has none: it can be run, but has no sessions. */
MUST_CHECK int runner_find_kernel(struct runner_kernel *out, const struct runner *runner,
                                  const char *recipes_dir, struct error *err);

enum runner_index { RUNNER_INDEX_PYTHON, RUNNER_INDEX_NPM };

/* How packages of a language are installed. */
struct runner_installer {
    struct runner_words command;
    struct runner_words tools;
    struct runner_words env; /* of programs that have the packages */
    char *text;              /* path on the host */
    char *name;              /* of the text, without its folder */
    enum runner_index index;
};

void runner_installer_release(struct runner_installer *installer); /* a zeroed one is fine */

#define scoped_installer __attribute__((cleanup(runner_installer_release)))

/* ERROR_INVALID: the language has none. */
MUST_CHECK int runner_find_installer(struct runner_installer *out, const struct runner *runner,
                                     const char *recipes_dir, struct error *err);

/* Parses a runner.conf in `dir_fd` into the list (appending); used to check one before it is
 * stored. Image, data_dir and digest are left empty. A file without any language is ERROR_INVALID.
 */
MUST_CHECK int runner_list_parse(struct runner_list *list, int dir_fd, const char *name,
                                 struct error *err);
