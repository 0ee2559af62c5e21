/*
 * page.h - the live page: one file with HTML, style and script, assembled at build time from page/.
 */
#ifndef GPUCOORD_PAGE_H
#define GPUCOORD_PAGE_H

#include "net/http_server.h"

/* The generated file, in which PAGE_NONCE marks each place for a nonce. */
extern const unsigned char page_html[];
extern const size_t page_html_size;

#define PAGE_NONCE "@NONCE-OF-THIS-ANSWER@"

/* Answer with the page. Its style and script carry a random nonce of this answer, and the policy in the
 * answer's header allows only these: no text from a device or client can run in a browser. */
void page_answer(struct http_answer *out);

#endif
