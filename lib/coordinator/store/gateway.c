/* Each exchange has its own connection. On a kept connection libcurl would repeat a request if the server
 * closed before it answered; a transaction must not be carried out twice. */
#include "store/gateway.h"

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "store/store.h"

#define LOGIN_PATH "/v3/auth/authenticate"

struct gateway {
	CURL *curl;
	bool tls;
	size_t max;
	char *hosts; /* with NULs for commas */
	const char *host[GATEWAY_MAX_HOSTS];
	size_t nhosts, at;
	struct curl_slist *headers;
	struct buf login; /* body of the request for a token; len 0: no user */
	bool has_token;
	char why[CURL_ERROR_SIZE];
};

/* ---- libcurl, loaded when it is needed */

static struct {
	__typeof__(curl_global_init) *global_init;
	__typeof__(curl_easy_init) *init;
	__typeof__(curl_easy_setopt) *setopt;
	__typeof__(curl_easy_perform) *perform;
	__typeof__(curl_easy_getinfo) *getinfo;
	__typeof__(curl_easy_strerror) *strerror;
	__typeof__(curl_easy_cleanup) *cleanup;
	__typeof__(curl_slist_append) *append;
	__typeof__(curl_slist_free_all) *free_all;
} curl;

static enum rc
load(struct err *err)
{
	static const struct {
		const char *name;
		void *to;
	} symbol[] = {
	    {"curl_global_init", &curl.global_init}, {"curl_easy_init", &curl.init},
	    {"curl_easy_setopt", &curl.setopt},	     {"curl_easy_perform", &curl.perform},
	    {"curl_easy_getinfo", &curl.getinfo},    {"curl_easy_strerror", &curl.strerror},
	    {"curl_easy_cleanup", &curl.cleanup},    {"curl_slist_append", &curl.append},
	    {"curl_slist_free_all", &curl.free_all},
	};
	void *lib, *at;

	if (curl.free_all)
		return RC_OK;
	lib = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		lib = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; lib && i < sizeof symbol / sizeof *symbol; i++) {
		at = dlsym(lib, symbol[i].name);
		if (!at)
			lib = NULL;
		memcpy(symbol[i].to, &at, sizeof at);
	}
	if (!lib || curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return err_set(err, RC_FAILED,
			       "etcd is reached through libcurl, which cannot be loaded (Debian: "
			       "libcurl4): %.200s",
			       lib ? "it cannot be initialised" : dlerror());
	return RC_OK;
}

/* ---- opening */

static enum rc
no_memory(struct err *err)
{
	return err_set(err, RC_NOMEM, "out of memory");
}

static enum rc
take_hosts(struct gateway *g, const char *hosts, struct err *err)
{
	uint64_t port;

	g->hosts = strdup(hosts);
	if (!g->hosts)
		return no_memory(err);
	for (char *rest = g->hosts, *host; (host = strsep(&rest, ","));) {
		const char *colon = strrchr(host, ':');

		if (!colon || colon == host || strpbrk(host, "@?# ") ||
		    parse_u64(colon + 1, 1, 65535, &port, NULL) != RC_OK)
			return err_set(err, RC_INVAL, "'%.200s' is not host:port", host);
		if (g->nhosts == GATEWAY_MAX_HOSTS)
			return err_set(err, RC_INVAL, "more than %d endpoints", GATEWAY_MAX_HOSTS);
		g->host[g->nhosts++] = host;
	}
	return RC_OK;
}

/* A variable that is not empty, or NULL. */
static const char *
variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static enum rc
take_user(struct gateway *g, struct err *err)
{
	const char *user = variable("GPUSIM_ETCD_USER"), *colon = user ? strchr(user, ':') : NULL;
	const char *password = colon ? colon + 1 : variable("GPUSIM_ETCD_PASSWORD");

	if (!user)
		return RC_OK;
	if (!password)
		return err_set(err, RC_INVAL,
			       "GPUSIM_ETCD_USER: no password: give NAME:PASSWORD or set "
			       "GPUSIM_ETCD_PASSWORD");
	return etcd_json_login(&g->login, user, colon ? (size_t)(colon - user) : strlen(user),
			       password)
		   ? RC_OK
		   : no_memory(err);
}

static enum rc
take_certificates(struct gateway *g, struct err *err)
{
	static const struct {
		const char *name;
		CURLoption option;
	} file[] = {{"GPUSIM_ETCD_CACERT", CURLOPT_CAINFO},
		    {"GPUSIM_ETCD_CERT", CURLOPT_SSLCERT},
		    {"GPUSIM_ETCD_KEY", CURLOPT_SSLKEY}};

	if (!variable("GPUSIM_ETCD_CERT") != !variable("GPUSIM_ETCD_KEY"))
		return err_set(err, RC_INVAL,
			       "GPUSIM_ETCD_CERT and GPUSIM_ETCD_KEY must be set together");
	for (size_t i = 0; g->tls && i < sizeof file / sizeof *file; i++)
		if (variable(file[i].name) &&
		    curl.setopt(g->curl, file[i].option, variable(file[i].name)) != CURLE_OK)
			return err_set(err, RC_FAILED, "%s: not supported by libcurl",
				       file[i].name);
	return RC_OK;
}

/* The headers of each request; token: NULL, or etcd's. */
static enum rc
set_headers(struct gateway *g, const char *token, struct err *err)
{
	static const char *const fixed[] = {"Content-Type: application/json", "Connection: close",
					    "Expect:"};
	char text[ETCD_TOKEN_MAX + 32];
	struct curl_slist *list = NULL, *more;

	snprintf(text, sizeof text, "Authorization: %s", token ? token : "");
	for (size_t i = 0; i < 3 + (token != NULL); i++) {
		more = curl.append(list, i < 3 ? fixed[i] : text);
		if (!more) {
			curl.free_all(list);
			return no_memory(err);
		}
		list = more;
	}
	curl.setopt(g->curl, CURLOPT_HTTPHEADER, list);
	curl.free_all(g->headers);
	g->headers = list;
	g->has_token = token != NULL;
	return RC_OK;
}

/* Collects a body, up to max bytes. */
struct answer {
	struct buf *out;
	size_t max;
	bool no_memory;
};

static size_t
take_answer(char *data, size_t one, size_t n, void *arg)
{
	struct answer *a = arg;

	if (n * one > a->max - a->out->len)
		return 0;
	a->no_memory = !buf_add(a->out, data, n * one);
	return a->no_memory ? 0 : n * one;
}

static bool
set_options(struct gateway *g)
{
	return curl.setopt(g->curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
	       curl.setopt(g->curl, CURLOPT_PROXY, "") == CURLE_OK &&
	       curl.setopt(g->curl, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1) == CURLE_OK &&
	       curl.setopt(g->curl, CURLOPT_FRESH_CONNECT, 1L) == CURLE_OK &&
	       curl.setopt(g->curl, CURLOPT_FORBID_REUSE, 1L) == CURLE_OK &&
	       curl.setopt(g->curl, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)g->max) == CURLE_OK &&
	       curl.setopt(g->curl, CURLOPT_WRITEFUNCTION, take_answer) == CURLE_OK &&
	       curl.setopt(g->curl, CURLOPT_ERRORBUFFER, g->why) == CURLE_OK;
}

enum rc
gateway_open(const char *hosts, bool tls, size_t max, struct gateway **out, struct err *err)
{
	struct gateway *g;
	enum rc rc = load(err);

	if (rc != RC_OK)
		return rc;
	g = alloc_zeroed(1, sizeof *g);
	if (!g)
		return no_memory(err);
	g->tls = tls;
	g->max = max;
	rc = take_hosts(g, hosts, err);
	if (rc == RC_OK && (!(g->curl = curl.init()) || !set_options(g)))
		rc = err_set(err, RC_FAILED, "cannot initialise libcurl");
	if (rc == RC_OK)
		rc = take_user(g, err);
	if (rc == RC_OK)
		rc = take_certificates(g, err);
	if (rc == RC_OK)
		rc = set_headers(g, NULL, err);
	if (rc == RC_OK)
		*out = g;
	else
		gateway_close(g);
	return rc;
}

void
gateway_close(struct gateway *g)
{
	if (!g)
		return;
	curl.free_all(g->headers);
	curl.cleanup(g->curl);
	buf_fini(&g->login);
	free(g->hosts);
	free(g);
}

const char *
gateway_host(const struct gateway *g)
{
	return g->host[g->at];
}

/* ---- an exchange */

static enum rc
failed(const struct gateway *g, CURLcode code, const struct answer *a, struct err *err)
{
	const char *why = g->why[0] ? g->why : curl.strerror(code);
	enum rc rc = RC_UNREACHABLE;
	long os = 0;

	switch (code) {
	case CURLE_OPERATION_TIMEDOUT:
		rc = RC_TIMEOUT;
		why = "Timed out";
		break;
	case CURLE_COULDNT_CONNECT:
		curl.getinfo(g->curl, CURLINFO_OS_ERRNO, &os);
		why = os ? strerror((int)os) : why;
		break;
	case CURLE_OUT_OF_MEMORY:
		rc = RC_NOMEM;
		break;
	case CURLE_WRITE_ERROR:
	case CURLE_FILESIZE_EXCEEDED:
		rc = a->no_memory ? RC_NOMEM : RC_BADDATA;
		why = a->no_memory ? "out of memory" : "the answer is too long";
		break;
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_WEIRD_SERVER_REPLY:
		rc = RC_BADDATA;
		break;
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CERTPROBLEM:
		rc = RC_FAILED;
		break;
	default:
		break;
	}
	return err_set(err, rc, "%s: %s", gateway_host(g), why);
}

/* One request to the current endpoint. *sent: the endpoint may have it. */
static enum rc
attempt(struct gateway *g, const char *path, const struct buf *body, int connect_ms, int total_ms,
	struct buf *out, long *status, bool *sent, struct err *err)
{
	struct answer answer = {.out = out, .max = g->max};
	curl_off_t begun = 0;
	char url[512];
	CURLcode code;

	out->len = 0;
	g->why[0] = '\0';
	*sent = false;
	if (connect_ms <= 0 || total_ms <= 0)
		return failed(g, CURLE_OPERATION_TIMEDOUT, &answer, err);
	snprintf(url, sizeof url, "http%s://%.255s%s", g->tls ? "s" : "", gateway_host(g), path);
	curl.setopt(g->curl, CURLOPT_URL, url);
	curl.setopt(g->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms);
	curl.setopt(g->curl, CURLOPT_TIMEOUT_MS, (long)total_ms);
	curl.setopt(g->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->len);
	curl.setopt(g->curl, CURLOPT_POSTFIELDS, body->data);
	curl.setopt(g->curl, CURLOPT_WRITEDATA, &answer);
	code = curl.perform(g->curl);
	curl.getinfo(g->curl, CURLINFO_PRETRANSFER_TIME_T, &begun);
	*sent = begun > 0;
	if (code != CURLE_OK)
		return failed(g, code, &answer, err);
	curl.getinfo(g->curl, CURLINFO_RESPONSE_CODE, status);
	return RC_OK;
}

/* Try the endpoints in turn. Each gets its share of the remaining time. */
static enum rc
ask(struct gateway *g, const char *path, const struct buf *body, bool repeatable,
    uint64_t deadline_ns, struct buf *out, long *status, struct err *err)
{
	bool sent = false;
	struct err why;
	enum rc rc;

	for (size_t left = g->nhosts;; left--) {
		int total = deadline_left_ms(deadline_ns), share = total / (int)left;

		rc = attempt(g, path, body, share, repeatable ? share : total, out, status, &sent,
			     &why);
		if (rc == RC_OK)
			return rc;
		if (g->nhosts > 1)
			g->at = (g->at + 1) % g->nhosts;
		if (left == 1 || (sent && !repeatable))
			return err_set(err, rc, "%s", why.text);
	}
}

/* etcd requires a token, or a newer one. */
static bool
wants_login(const struct gateway *g, long status, const struct buf *answer)
{
	char why[200];

	if (g->login.len == 0)
		return false;
	etcd_json_refusal(answer->data, answer->len, why, sizeof why);
	return status == 401 || (status == 400 && strstr(why, "revision of auth store is old"));
}

static enum rc
log_in(struct gateway *g, uint64_t deadline_ns, struct buf *out, long *status, struct err *err)
{
	char token[ETCD_TOKEN_MAX];
	enum rc rc = g->has_token ? set_headers(g, NULL, err) : RC_OK;

	if (rc == RC_OK)
		rc = ask(g, LOGIN_PATH, &g->login, true, deadline_ns, out, status, err);
	if (rc != RC_OK || *status != 200)
		return rc;
	if (!etcd_json_token(out->data, out->len, token))
		return err_set(err, RC_BADDATA, "%s: no token in its answer", gateway_host(g));
	return set_headers(g, token, err);
}

enum rc
gateway_post(struct gateway *g, const char *path, const struct buf *body, bool repeatable,
	     struct buf *out, struct err *err)
{
	uint64_t deadline_ns = deadline_in_ms(STORE_DEADLINE_MS);
	bool login = g->login.len && !g->has_token;
	enum rc rc = RC_OK;
	char why[200];
	long status;

	for (int i = 0; i < 2; i++) {
		status = 200;
		if (login)
			rc = log_in(g, deadline_ns, out, &status, err);
		if (rc == RC_OK && status == 200)
			rc = ask(g, path, body, repeatable, deadline_ns, out, &status, err);
		login = rc == RC_OK && wants_login(g, status, out);
		if (!login)
			break;
	}
	if (rc != RC_OK || status == 200)
		return rc;
	etcd_json_refusal(out->data, out->len, why, sizeof why);
	return err_set(err, RC_FAILED, "%s: refused with HTTP status %ld%s%s", gateway_host(g),
		       status, why[0] ? ": " : "", why);
}
