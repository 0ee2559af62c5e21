/*
 * page.h - the live page: one file of HTML, style and script, put together at build time from page/.
 */
#ifndef GPUCOORD_PAGE_H
#define GPUCOORD_PAGE_H

#include "net/http_server.h"

/* Of the generated file: with each place for a nonce marked by PAGE_NONCE. */
extern const unsigned char page_html[];
extern const size_t page_html_size;

#define PAGE_NONCE "@NONCE-OF-THIS-ANSWER@"

/* Answer with the page. Its style and script carry a number that was drawn for this answer, and the policy in the
 * answer's head allows these alone: nothing that a device or a client can write into a text runs in a browser. */
void page_answer(struct http_answer *out);

#endif
