#include "watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
release(void *arg)
{
	free(arg);
}

void
page_answer(struct http_answer *out)
{
	char *text = malloc(page_html_size), nonce[sizeof PAGE_NONCE] = "";
	char *at;

	if (!text) {
		out->status = 503;
		out->nbytes = 0;
		return;
	}
	for (size_t i = 0; i < strlen(PAGE_NONCE); i++)
		nonce[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
		    [net_random() % 64];
	memcpy(text, page_html, page_html_size);
	/* Insert a nonce, which has the length of PAGE_NONCE, at its places. */
	at = text;
	while (
	    (at = memmem(at, page_html_size - (size_t)(at - text), PAGE_NONCE, strlen(PAGE_NONCE))))
		memcpy(at, nonce, strlen(PAGE_NONCE));
	*out = (struct http_answer){.status = 200,
				    .type = "text/html; charset=utf-8",
				    .body = text,
				    .nbytes = page_html_size,
				    .release = release,
				    .arg = text};
	snprintf(out->headers, sizeof out->headers,
		 "Content-Security-Policy: default-src 'none'; script-src 'nonce-%s'; "
		 "style-src 'nonce-%s'; img-src data:; connect-src 'self'; base-uri 'none'; "
		 "form-action 'none'; frame-ancestors 'none'\r\n",
		 nonce, nonce);
}
