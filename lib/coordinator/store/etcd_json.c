#include "store/gateway.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"

/* ---- base64 */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static bool
add_base64(struct buf *b, const void *data, size_t nbytes)
{
	const unsigned char *p = data;

	if (nbytes > SIZE_MAX / 2 || !buf_reserve(b, (nbytes + 2) / 3 * 4))
		return false;
	for (size_t i = 0; i < nbytes; i += 3) {
		uint32_t v = (uint32_t)p[i] << 16;

		v |= i + 1 < nbytes ? (uint32_t)p[i + 1] << 8 : 0;
		v |= i + 2 < nbytes ? p[i + 2] : 0;
		b->data[b->len++] = digits[v >> 18];
		b->data[b->len++] = digits[v >> 12 & 63];
		b->data[b->len++] = i + 1 < nbytes ? digits[v >> 6 & 63] : '=';
		b->data[b->len++] = i + 2 < nbytes ? digits[v & 63] : '=';
	}
	return true;
}

/* The value of a digit; 64: none. */
static uint32_t
digit(char c)
{
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (uint32_t)(at - digits) : 64;
}

/* Decode into out, which has room for strlen(s) / 4 * 3 bytes; false: not base64. */
static bool
from_base64(const char *s, unsigned char *out, size_t *nbytes)
{
	size_t n = strlen(s), pad = 0, k = 0;

	if (n % 4)
		return false;
	while (pad < 2 && pad < n && s[n - 1 - pad] == '=')
		pad++;
	for (size_t i = 0; i < n; i += 4) {
		uint32_t v = 0;

		for (size_t j = i; j < i + 4; j++) {
			uint32_t d = j >= n - pad ? 0 : digit(s[j]);

			if (d == 64)
				return false;
			v = v << 6 | d;
		}
		out[k++] = (unsigned char)(v >> 16);
		out[k++] = (unsigned char)(v >> 8);
		out[k++] = (unsigned char)v;
	}
	*nbytes = k - pad;
	return true;
}

/* ---- requests */

static bool
add_field(struct buf *b, const char *name, const void *data, size_t nbytes)
{
	return buf_addf(b, "\"%s\":\"", name) && add_base64(b, data, nbytes) && buf_add(b, "\"", 1);
}

static bool
add(struct buf *b, const char *text)
{
	return buf_add(b, text, strlen(text));
}

bool
etcd_json_range(struct buf *b, const char *from, const char *end, uint64_t revision, uint32_t limit)
{
	return add(b, "{") && add_field(b, "key", from, strlen(from)) && add(b, ",") &&
	       add_field(b, "range_end", end, strlen(end)) &&
	       buf_addf(b, ",\"revision\":\"%" PRIu64 "\",\"limit\":\"%u\"}", revision, limit);
}

bool
etcd_json_txn(struct buf *b, const char *key, const char *compared)
{
	if (!add(b, "{\"compare\":["))
		return false;
	if (compared && !(add(b, "{\"result\":\"EQUAL\",\"target\":\"VALUE\",") &&
			  add_field(b, "key", key, strlen(key)) && add(b, ",") &&
			  add_field(b, "value", compared, strlen(compared)) && add(b, "}")))
		return false;
	return add(b, "],\"success\":[");
}

static bool
next_change(struct buf *b)
{
	return b->data[b->len - 1] == '[' || add(b, ",");
}

bool
etcd_json_put(struct buf *b, const char *key, const void *value, size_t nbytes)
{
	return next_change(b) && add(b, "{\"requestPut\":{") &&
	       add_field(b, "key", key, strlen(key)) && add(b, ",") &&
	       add_field(b, "value", value, nbytes) && add(b, "}}");
}

bool
etcd_json_delete(struct buf *b, const char *key, const char *end)
{
	if (!(next_change(b) && add(b, "{\"requestDeleteRange\":{") &&
	      add_field(b, "key", key, strlen(key))))
		return false;
	if (end && !(add(b, ",") && add_field(b, "range_end", end, strlen(end))))
		return false;
	return add(b, "}}");
}

bool
etcd_json_txn_end(struct buf *b)
{
	return add(b, "]}");
}

bool
etcd_json_login(struct buf *b, const char *user, size_t nuser, const char *password)
{
	cJSON *root = cJSON_CreateObject();
	char *name = strndup(user, nuser), *text = NULL;
	bool good = name && cJSON_AddStringToObject(root, "name", name) &&
		    cJSON_AddStringToObject(root, "password", password) &&
		    (text = cJSON_PrintUnformatted(root)) && add(b, text);

	free(name);
	cJSON_free(text);
	cJSON_Delete(root);
	return good;
}

/* ---- answers */

static enum rc
bad(struct err *err)
{
	return err_set(err, RC_BADDATA, "unexpected answer");
}

/* A 64-bit number, which JSON's mapping of protobuf has as a string; none: 0. */
static uint64_t
number(const cJSON *object, const char *name)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
	uint64_t v = 0;

	if (s && parse_u64(s, 0, UINT64_MAX, &v, NULL) != RC_OK)
		v = 0;
	return v;
}

/* The bytes of a field, terminated; the caller's to free. A field left out is empty. NULL: no
 * base64, or no memory. */
static unsigned char *
bytes(const cJSON *object, const char *name, size_t *nbytes)
{
	const cJSON *field = cJSON_GetObjectItemCaseSensitive(object, name);
	const char *s = field ? cJSON_GetStringValue(field) : "";
	unsigned char *out = s ? malloc(strlen(s) + 1) : NULL;

	if (out && !from_base64(s, out, nbytes)) {
		free(out);
		out = NULL;
	}
	if (out)
		out[*nbytes] = '\0';
	return out;
}

static enum rc
take_record(const cJSON *kv, etcd_json_fn *fn, void *arg, struct etcd_page *page, struct err *err)
{
	size_t nkey = 0, nvalue = 0;
	char *key = (char *)bytes(kv, "key", &nkey);
	unsigned char *value = bytes(kv, "value", &nvalue);
	enum rc rc = RC_OK;

	if (!key || !value || nkey == 0 || nkey >= sizeof page->last || strlen(key) != nkey)
		rc = bad(err);
	else if (!fn(arg, key, value, nvalue))
		rc = err_set(err, RC_NOMEM, "out of memory");
	else
		memcpy(page->last, key, nkey + 1);
	free(key);
	free(value);
	return rc;
}

enum rc
etcd_json_page(const char *text, size_t nbytes, etcd_json_fn *fn, void *arg, struct etcd_page *out,
	       struct err *err)
{
	cJSON *root = cJSON_ParseWithLength(text, nbytes);
	const cJSON *head = cJSON_GetObjectItemCaseSensitive(root, "header");
	const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "kvs"), *kv;
	struct etcd_page page = {.revision = number(head, "revision")};
	enum rc rc = page.revision && (!list || cJSON_IsArray(list)) ? RC_OK : bad(err);

	if (rc == RC_OK)
		cJSON_ArrayForEach(kv, list)
		{
			rc = take_record(kv, fn, arg, &page, err);
			if (rc != RC_OK)
				break;
		}
	page.more = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(root, "more"));
	if (rc == RC_OK && page.more && !page.last[0])
		rc = bad(err);
	cJSON_Delete(root);
	if (rc == RC_OK)
		*out = page;
	return rc;
}

enum rc
etcd_json_done(const char *text, size_t nbytes, bool *done, struct err *err)
{
	cJSON *root = cJSON_ParseWithLength(text, nbytes);
	const cJSON *head = cJSON_GetObjectItemCaseSensitive(root, "header");
	enum rc rc = number(head, "revision") ? RC_OK : bad(err);

	if (rc == RC_OK)
		*done = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(root, "succeeded"));
	cJSON_Delete(root);
	return rc;
}

bool
etcd_json_token(const char *text, size_t nbytes, char token[ETCD_TOKEN_MAX])
{
	cJSON *root = cJSON_ParseWithLength(text, nbytes);
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "token"));
	bool good = s && *s && snprintf(token, ETCD_TOKEN_MAX, "%s", s) < ETCD_TOKEN_MAX;

	cJSON_Delete(root);
	return good;
}

void
etcd_json_refusal(const char *text, size_t nbytes, char *out, size_t size)
{
	cJSON *root = cJSON_ParseWithLength(text, nbytes);
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "message"));

	if (!s)
		s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "error"));
	snprintf(out, size, "%s", s ? s : "");
	for (char *p = out; *p; p++)
		if ((unsigned char)*p < ' ')
			*p = ' ';
	cJSON_Delete(root);
}
