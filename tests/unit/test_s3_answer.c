/* test_s3_answer.c - the documents that S3 answers with, and those that it should not */
/* SPDX-License-Identifier: Apache-2.0 */
#include "blob/s3_answer.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/scoped.h"
#include "check.h"

static bool parse(struct s3_answer *answer, const char *text)
{
    return s3_answer_parse(answer, text, strlen(text));
}

static void test_error(void **state)
{
    (void)state;
    scoped_s3_answer struct s3_answer answer;
    assert_true(parse(&answer, "<?xml version=\"1.0\"?>\n<Error><Code>AuthorizationHeaderMalformed"
                               "</Code><Region>eu-west-1</Region></Error>"));
    assert_string_equal(answer.root, "Error");
    assert_string_equal(answer.code, "AuthorizationHeaderMalformed");
    assert_string_equal(answer.region, "eu-west-1");
}

static void test_upload(void **state)
{
    (void)state;
    scoped_s3_answer struct s3_answer answer, done;
    assert_true(parse(&answer, "<InitiateMultipartUploadResult xmlns=\"x\"><UploadId>a&amp;b"
                               "</UploadId></InitiateMultipartUploadResult>"));
    assert_string_equal(answer.upload_id, "a&b");
    assert_true(parse(&done, "<CompleteMultipartUploadResult><ETag>&quot;ab-2&quot;</ETag>"
                             "</CompleteMultipartUploadResult>"));
    assert_string_equal(done.etag, "ab-2");
}

static void test_list(void **state)
{
    (void)state;
    scoped_s3_answer struct s3_answer answer;
    assert_true(parse(&answer, "<ListBucketResult><IsTruncated>true</IsTruncated>"
                               "<Contents><Key>a</Key><Size>434234</Size><ETag>\"x\"</ETag>"
                               "<LastModified>2009-10-12T17:50:30.000Z</LastModified></Contents>"
                               "<Contents><Key>b</Key><Size>0</Size></Contents>"
                               "</ListBucketResult>"));
    assert_true(answer.is_truncated);
    assert_int_equal(answer.count, 2);
    assert_string_equal(answer.items[0].key, "a");
    assert_string_equal(answer.items[0].etag, "x");
    assert_int_equal(answer.items[0].size, 434234);
    assert_int_equal(answer.items[0].modified_ns / 1000000000, 1255369830);
    assert_string_equal(answer.items[1].key, "b");
    assert_string_equal(answer.items[1].etag, "");
    assert_int_equal(answer.items[1].size, 0);
}

static const struct bad_case {
    const char *name, *text;
} bad_cases[] = {
    {"refuses nothing", ""},
    {"refuses what is no XML", "gateway timeout"},
    {"refuses one that is cut", "<Error><Code>No"},
    {"refuses two in one", "<Error></Error><Error></Error>"},
    {"refuses a document type",
     "<!DOCTYPE x [<!ENTITY a \"aaaa\">]><Error><Code>&a;</Code></Error>"},
    {"refuses a deep one", "<a><b><c><d><e><f><g><h><i></i></h></g></f></e></d></c></b></a>"},
    {"refuses a size that is none",
     "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>"},
    {"refuses an entry without a key",
     "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>"},
};

static void test_bad(void **state)
{
    const struct bad_case *row = *state;
    scoped_s3_answer struct s3_answer answer;
    assert_false(parse(&answer, row->text));
}

/* A code goes into messages and logs of ours. */
static void test_words(void **state)
{
    (void)state;
    scoped_s3_answer struct s3_answer answer;
    assert_true(parse(&answer, "<Error><Code>No such\nkey: AKIA</Code></Error>"));
    assert_string_equal(answer.code, "");
}

static void test_long(void **state)
{
    (void)state;
    char value[S3_TEXT_BYTES];
    memset(value, 'a', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    scoped_s3_answer struct s3_answer fits, longer;
    scoped_free char *one = xasprintf("<InitiateMultipartUploadResult><UploadId>%s</UploadId>"
                                      "</InitiateMultipartUploadResult>",
                                      value);
    scoped_free char *two = xasprintf("<InitiateMultipartUploadResult><UploadId>%sa</UploadId>"
                                      "</InitiateMultipartUploadResult>",
                                      value);
    assert_true(parse(&fits, one));
    assert_string_equal(fits.upload_id, value);
    assert_false(parse(&longer, two));
}

static void test_time(void **state)
{
    (void)state;
    assert_int_equal(s3_time_ns("Mon, 12 Oct 2009 17:50:30 GMT") / 1000000000, 1255369830);
    assert_int_equal(s3_time_ns("yesterday"), 0);
    assert_int_equal(s3_time_ns("9999-10-12T17:50:30.000Z"), 0); /* nanoseconds have no room */
    assert_int_equal(s3_time_ns("0001-10-12T17:50:30.000Z"), 0);
}

int main(void)
{
    static struct check check;
    check_one(&check, "reads errors", test_error);
    check_one(&check, "reads uploads", test_upload);
    check_one(&check, "reads lists", test_list);
    check_rows(&check, bad_cases, test_bad);
    check_one(&check, "takes words only as codes", test_words);
    check_one(&check, "has room for the longest value, and no more", test_long);
    check_one(&check, "reads times of documents and of headers", test_time);
    return check_run(&check, "s3_answer");
}
