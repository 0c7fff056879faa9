/* upload_form.h - the files of a multipart form, one after the other, into a session
 *
 * Never more than one read of the body waits in memory. Each file is there when it is whole; when
 * the form goes wrong those before it stay. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/api.h"

/* Answers the call, at whose head it is, with a "FileUpload". `directory` is where the files go,
 * and borrowed for the call. */
void upload_form_begin(struct api_call *call, const char *session, const char *directory,
                       bool overwrites);
