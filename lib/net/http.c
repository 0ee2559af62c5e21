/*
 * Design notes. nng makes the connection, writes the request and reads the answer's head (at most
 * 8 KiB); its own way to read a body has no bound, so that is done here: by length, by chunks, or to
 * the end of the connection. All waits are nng_aio_wait on the caller's thread, each with the
 * deadline's rest as its timeout; a callback of nng may call this, as only one thread at a time
 * does, and nng has more.
 */
#include "net/http.h"

#include <nng/nng.h>
#include <nng/supplemental/http/http.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/parse.h"

#define LINE_MAX_BYTES 128 /* of a chunk's length, or a trailer */

struct exchange {
	const char *host;
	uint64_t deadline_ns;
	nng_url *url;
	nng_http_client *client;
	nng_http_req *req;
	nng_http_res *res;
	nng_http_conn *conn;
	nng_aio *aio;
	size_t max;
	struct buf *out;
	char piece[4096]; /* read, but not taken */
	size_t have, taken;
};

static enum rc
http_err(const struct exchange *x, int rv, struct err *err)
{
	enum rc rc = rv == NNG_ETIMEDOUT ? RC_TIMEOUT
		     : rv == NNG_ENOMEM	 ? RC_NOMEM
		     : rv == NNG_EPROTO	 ? RC_BADDATA
					 : RC_UNREACHABLE;

	return err_set(err, rc, "%s: %s", x->host, nng_strerror(rv));
}

/* Start an operation with time left for it. */
static enum rc
begin(struct exchange *x, struct err *err)
{
	int32_t left = deadline_left_ms(x->deadline_ns);

	if (left == 0)
		return http_err(x, NNG_ETIMEDOUT, err);
	nng_aio_set_timeout(x->aio, left);
	return RC_OK;
}

static enum rc
end(struct exchange *x, struct err *err)
{
	int rv;

	nng_aio_wait(x->aio);
	rv = nng_aio_result(x->aio);
	return rv == 0 ? RC_OK : http_err(x, rv, err);
}

static enum rc
prepare(struct exchange *x, const char *path, const void *body, size_t nbytes, struct err *err)
{
	char text[512];
	int rv;

	if (snprintf(text, sizeof text, "http://%s%s", x->host, path) >= (int)sizeof text)
		return err_set(err, RC_INVAL, "%s: the address is too long", x->host);
	rv = nng_url_parse(&x->url, text);
	if (rv == 0)
		rv = nng_http_client_alloc(&x->client, x->url);
	if (rv == 0)
		rv = nng_http_req_alloc(&x->req, x->url);
	if (rv == 0)
		rv = nng_http_res_alloc(&x->res);
	if (rv == 0)
		rv = nng_http_req_set_method(x->req, "POST");
	if (rv == 0)
		rv = nng_http_req_set_header(x->req, "Content-Type", "application/json");
	if (rv == 0)
		rv = nng_http_req_set_header(x->req, "Connection", "close");
	if (rv == 0)
		rv = nng_http_req_copy_data(x->req, body, nbytes);
	if (rv == 0)
		rv = nng_aio_alloc(&x->aio, NULL, NULL);
	if (rv == NNG_EINVAL || rv == NNG_EADDRINVAL || rv == NNG_ENOTSUP)
		return err_set(err, RC_INVAL, "'%s' is not host:port", x->host);
	return rv == 0 ? RC_OK : http_err(x, rv, err);
}

static enum rc
ask(struct exchange *x, struct err *err)
{
	enum rc rc = begin(x, err);

	if (rc != RC_OK)
		return rc;
	nng_http_client_connect(x->client, x->aio);
	rc = end(x, err);
	if (rc != RC_OK)
		return rc;
	x->conn = nng_aio_get_output(x->aio, 0);
	rc = begin(x, err);
	if (rc != RC_OK)
		return rc;
	nng_http_conn_write_req(x->conn, x->req, x->aio);
	rc = end(x, err);
	if (rc == RC_OK)
		rc = begin(x, err);
	if (rc != RC_OK)
		return rc;
	nng_http_conn_read_res(x->conn, x->res, x->aio);
	return end(x, err);
}

/* ---- the body */

/* Have at least one byte in piece; *closed: the connection ended instead. */
static enum rc
fill(struct exchange *x, bool *closed, struct err *err)
{
	nng_iov iov = {x->piece, sizeof x->piece};
	enum rc rc;
	int rv;

	*closed = false;
	if (x->taken < x->have)
		return RC_OK;
	x->taken = x->have = 0;
	rc = begin(x, err);
	if (rc != RC_OK)
		return rc;
	nng_aio_set_iov(x->aio, 1, &iov);
	nng_http_conn_read(x->conn, x->aio);
	nng_aio_wait(x->aio);
	rv = nng_aio_result(x->aio);
	if (rv == 0)
		x->have = nng_aio_count(x->aio);
	*closed = rv == NNG_ECLOSED || rv == NNG_ECONNSHUT || rv == NNG_ECONNRESET ||
		  (rv == 0 && x->have == 0);
	return rv == 0 || *closed ? RC_OK : http_err(x, rv, err);
}

static enum rc
short_body(const struct exchange *x, struct err *err)
{
	return err_set(err, RC_UNREACHABLE, "%s: the connection ended inside the answer", x->host);
}

/* Take n bytes; or, when n is SIZE_MAX, all until the end of the connection. */
static enum rc
take(struct exchange *x, size_t n, struct err *err)
{
	bool all = n == SIZE_MAX, closed;

	while (n > 0) {
		enum rc rc = fill(x, &closed, err);
		size_t k = x->have - x->taken;

		if (rc != RC_OK)
			return rc;
		if (closed)
			return all ? RC_OK : short_body(x, err);
		k = k < n ? k : n;
		if (k > x->max)
			return err_set(err, RC_BADDATA, "%s: an answer longer than we take",
				       x->host);
		if (!buf_add(x->out, x->piece + x->taken, k))
			return err_set(err, RC_NOMEM, "%s: out of memory", x->host);
		x->taken += k;
		x->max -= k;
		n -= all ? 0 : k;
	}
	return RC_OK;
}

/* A line, without its end. */
static enum rc
take_line(struct exchange *x, char line[LINE_MAX_BYTES], struct err *err)
{
	size_t n = 0;
	bool closed;

	for (;;) {
		enum rc rc = fill(x, &closed, err);

		if (rc != RC_OK)
			return rc;
		if (closed)
			return short_body(x, err);
		line[n] = x->piece[x->taken++];
		if (line[n] == '\n')
			break;
		if (++n == LINE_MAX_BYTES)
			return err_set(err, RC_BADDATA, "%s: what it answers is no HTTP", x->host);
	}
	if (n > 0 && line[n - 1] == '\r')
		n--;
	line[n] = '\0';
	return RC_OK;
}

static enum rc
take_chunks(struct exchange *x, struct err *err)
{
	char line[LINE_MAX_BYTES], *end_of;
	enum rc rc;

	for (;;) {
		unsigned long long n;

		rc = take_line(x, line, err);
		if (rc != RC_OK)
			return rc;
		n = strtoull(line, &end_of, 16);
		if (end_of == line || line[0] == '-' || (*end_of && *end_of != ';'))
			return err_set(err, RC_BADDATA, "%s: what it answers is no HTTP", x->host);
		if (n > x->max)
			return err_set(err, RC_BADDATA, "%s: an answer longer than we take",
				       x->host);
		if (n == 0)
			return RC_OK; /* trailers say nothing to us */
		rc = take(x, (size_t)n, err);
		if (rc == RC_OK)
			rc = take_line(x, line, err);
		if (rc == RC_OK && line[0])
			rc = err_set(err, RC_BADDATA, "%s: what it answers is no HTTP", x->host);
		if (rc != RC_OK)
			return rc;
	}
}

static enum rc
take_body(struct exchange *x, struct err *err)
{
	const char *coding = nng_http_res_get_header(x->res, "Transfer-Encoding");
	const char *length = nng_http_res_get_header(x->res, "Content-Length");
	uint64_t n;

	if (coding && strcasecmp(coding, "chunked") == 0)
		return take_chunks(x, err);
	if (!length)
		return take(x, SIZE_MAX, err);
	if (parse_u64(length, 0, UINT64_MAX, &n, NULL) != RC_OK)
		return err_set(err, RC_BADDATA, "%s: what it answers is no HTTP", x->host);
	if (n > x->max)
		return err_set(err, RC_BADDATA, "%s: an answer longer than we take", x->host);
	return take(x, (size_t)n, err);
}

static void
finish(struct exchange *x)
{
	if (x->aio) {
		nng_aio_stop(x->aio);
		nng_aio_free(x->aio);
	}
	if (x->conn)
		nng_http_conn_close(x->conn);
	if (x->res)
		nng_http_res_free(x->res);
	if (x->req)
		nng_http_req_free(x->req);
	if (x->client)
		nng_http_client_free(x->client);
	if (x->url)
		nng_url_free(x->url);
}

enum rc
http_post(const char *host, const char *path, const void *body, size_t nbytes, uint64_t deadline_ns,
	  size_t max, struct buf *out, unsigned *status, struct err *err)
{
	struct exchange x = {.host = host, .deadline_ns = deadline_ns, .max = max, .out = out};
	enum rc rc = prepare(&x, path, body, nbytes, err);

	if (rc == RC_OK)
		rc = ask(&x, err);
	if (rc == RC_OK)
		rc = take_body(&x, err);
	if (rc == RC_OK)
		*status = nng_http_res_get_status(x.res);
	finish(&x);
	return rc;
}
